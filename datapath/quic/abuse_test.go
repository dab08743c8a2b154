package quic

import (
	"bytes"
	"encoding/binary"
	"net/netip"
	"testing"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// connect makes a session whose surrogate has chosen an id, and whose client has sent it.
func (k *rig) connect(s Session, id string) {
	k.t.Helper()
	k.must(k.Add(s))
	answer := datagram(s.Surrogate, s.Source, long(0, []byte("abc"), []byte(id)))
	k.ingress(answer, quicVerdictTO_CLIENT, kerneltest.ActRedirect)
	k.ingress(datagram(s.Client, s.VIP, long(2, []byte(id), nil)), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
	if got := k.session(s.Number); !got.Confirmed {
		k.t.Fatalf("the client has sent what it can only have from the answer: %+v", got)
	}
}

func (k *rig) session(number uint32) Session {
	k.t.Helper()
	s, ok, err := k.Session(number)
	if err != nil || !ok {
		k.t.Fatalf("session %d: %v %v", number, ok, err)
	}
	return s
}

func (k *rig) send(s Session, payload []byte) {
	k.t.Helper()
	k.ingress(datagram(s.Client, s.VIP, payload), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
}

// requireID requires that an id is of a surrogate, and of no other.
func (k *rig) requireID(id string, at Session) {
	k.t.Helper()
	s, ok, err := k.Server(at.VIP, []byte(id))
	if err != nil || !ok || s.Ambiguous || s.Surrogate != at.Surrogate || s.Learner.Number != at.Number {
		k.t.Errorf("%q is of %+v, %v %v; want session %d's", id, s, ok, err, at.Number)
	}
}

// abused is a confirmed session, and one of another client at another surrogate.
func abused(t *testing.T, f family) (k *rig, victim, stranger Session) {
	t.Helper()
	k = newRig(t)
	k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {}}))
	victim = f.session()
	k.connect(victim, "victims.")
	stranger = Session{
		Number: 5, Client: f.other, VIP: f.vip, Source: f.router,
		Surrogate: netip.AddrPortFrom(f.surrogate.Addr(), 9), In: loopback, Out: loopback,
	}
	k.connect(stranger, "another.")
	return k, victim, stranger
}

// TestMovedIsNotConfirmed: the id of another session proves nothing of an address, whose sender may have it from there.
func TestMovedIsNotConfirmed(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, victim, _ := abused(t, f)
		moved := victim
		moved.Number, moved.Moved, moved.Origin = 6, true, Identity{victim.Number, k.session(3).Since}
		moved.Client, moved.Source = netip.AddrPortFrom(f.other.Addr(), 7), netip.AddrPortFrom(f.router.Addr(), 3001)
		k.must(k.Add(moved))
		for range 3 {
			k.send(moved, short([]byte("victims.")))
		}
		if s := k.session(6); s.Confirmed || s.Followed || !s.Moved || s.Origin != moved.Origin {
			t.Errorf("without an answer: %+v", s)
		}
		k.ingress(datagram(f.surrogate, moved.Source, short([]byte("abc"))), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		if s := k.session(6); s.Confirmed || s.Followed || !s.Answered {
			t.Errorf("with an answer alone: %+v", s)
		}
		k.send(moved, short([]byte("victims.")))
		if s := k.session(6); s.Confirmed || !s.Followed {
			t.Errorf("with what follows an answer: %+v", s)
		}
		for range 10 { // as no surrogate sends before it has validated the address
			k.ingress(datagram(f.surrogate, moved.Source, short([]byte("abc"))), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
			k.ingress(datagram(f.surrogate, moved.Source, short([]byte("abc"))), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		}
		if s := k.session(6); !s.Confirmed {
			t.Errorf("with much more than it has sent: %+v", s)
		}
		for _, tt := range []struct{ of, want Identity }{
			{moved.Origin, moved.Origin}, {Identity{6, k.session(6).Since}, moved.Origin},
			{Identity{6, 1}, Identity{6, 1}}, {Identity{9, 1}, Identity{9, 1}},
		} {
			if got, err := k.FindOrigin(tt.of); err != nil || got != tt.want {
				t.Errorf("%+v comes from %+v, %v; want %+v", tt.of, got, err, tt.want)
			}
		}
	})
}

// TestNoProof: neither an id that a client says twice nor one of another session is a proof that it has it from an
// answer.
func TestNoProof(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, forged, _ := abused(t, f)
		forged.Number = 6
		forged.Client, forged.Source = netip.AddrPortFrom(f.other.Addr(), 7), netip.AddrPortFrom(f.router.Addr(), 3001)
		k.must(k.Add(forged))
		answer := datagram(f.surrogate, forged.Source, long(0, []byte("abc"), []byte("unseen..")))
		k.ingress(answer, quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		for range 3 {
			k.send(forged, short([]byte("made up.")))
			k.send(forged, long(2, []byte("victims."), nil))
			k.send(forged, short([]byte("victims.")))
		}
		if s := k.session(6); s.Confirmed || !s.Followed {
			t.Errorf("session %+v", s)
		}
	})
}

// TestStrangersTakeNoID: a session whose client sends another one's id neither makes it ambiguous nor takes it along
// with its own.
func TestStrangersTakeNoID(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, victim, stranger := abused(t, f)
		k.send(victim, short([]byte("quicgos.")))
		k.requireID("quicgos.", victim)
		for _, id := range []string{"victims.", "quicgos."} {
			k.send(stranger, short([]byte(id)))
			k.requireID(id, victim)
			k.send(stranger, short([]byte("another1")))
			k.requireID(id, victim)
			k.requireID("another1", stranger)
		}
		// nor is it by an id of its own that it proves to be somewhere else
		k.send(stranger, short([]byte("another.")))
		k.requireID("another.", stranger)
	})
}

// TestVersionNegotiationTeachesNothing: the ids in it are the client's, which may be anybody's.
func TestVersionNegotiationTeachesNothing(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, victim, stranger := abused(t, f)
		negotiate := func(id string) {
			t.Helper()
			b := long(0, []byte("abc"), []byte(id))
			copy(b[1:5], []byte{0, 0, 0, 0})
			k.ingress(datagram(stranger.Surrogate, stranger.Source, b), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		}
		negotiate("victims.")
		k.requireID("victims.", victim)
		negotiate("clients own")
		if s, ok, err := k.Server(f.vip, []byte("clients own")); ok || err != nil {
			t.Errorf("learnt: %+v %v", s, err)
		}
		if lengths, err := k.Lengths(f.vip); err != nil || len(lengths) != 1 {
			t.Errorf("lengths %v, %v", lengths, err)
		}
		// so the client's next hello, with the same id, is asked about
		hello := datagram(stranger.Client, f.vip, long(0, []byte("clients own"), nil))
		k.ingress(hello, quicVerdictUPCALL_AGAIN, kerneltest.ActRedirect)
	})
}

// TestSurrogatesInterface: a surrogate's datagrams, and ICMP errors about those for it, are accepted only from its
// routes.
func TestSurrogatesInterface(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {}}))
		s := f.session()
		s.Out = loopback + 1
		k.must(k.Add(s))
		kind, code := uint8(3), uint8(3) // port unreachable
		if f.vip.Addr().Is6() {
			kind, code = 1, 4
		}
		quoted := datagram(f.router, f.surrogate, bytes.Repeat([]byte{9}, 20))[packet.EthernetSize:]
		failure := packet.BuildICMP(packet.ICMPSpec{
			Src: f.surrogate.Addr(), Dst: f.router.Addr(), Type: kind, Code: code, Quote: quoted,
		})
		answer := datagram(f.surrogate, f.router, long(0, []byte("abc"), []byte("forged..")))
		refused := func() {
			t.Helper()
			k.ingress(answer, quicVerdictDROP_INTERFACE, kerneltest.ActShot)
			k.ingress(failure, quicVerdictDROP_INTERFACE, kerneltest.ActShot)
		}
		refused()
		k.must(k.SetPaths(f.other.Addr(), []int{loopback}))
		k.must(k.SetPaths(f.surrogate.Addr(), []int{loopback + 1, loopback + 2}))
		refused()
		if _, ok, err := k.Server(f.vip, []byte("forged..")); ok || err != nil || k.session(3).Answered {
			t.Errorf("a forgery has left something: %v", err)
		}
		k.must(k.SetPaths(f.surrogate.Addr(), []int{loopback + 1, loopback})) // another next hop of the route
		k.ingress(answer, quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		k.ingress(failure, quicVerdictICMP_TRANSLATED, kerneltest.ActRedirect)
		k.must(k.SetPaths(f.surrogate.Addr(), nil))
		refused()
	})
}

// TestMovedIDs: an id that the client of a moved session sends instead of the one it was found by is learnt, and
// forgotten with that session.
func TestMovedIDs(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k, victim, _ := abused(t, f)
		k.send(victim, short([]byte("quicgos.")))
		moved := victim
		moved.Number, moved.Moved, moved.ID = 6, true, []byte("quicgos.")
		moved.Origin = Identity{victim.Number, k.session(3).Since}
		moved.Client, moved.Source = netip.AddrPortFrom(f.other.Addr(), 7), netip.AddrPortFrom(f.router.Addr(), 3001)
		k.must(k.Add(moved))
		k.send(moved, short([]byte("next....")))
		if _, ok, err := k.Server(f.vip, []byte("next....")); ok || err != nil {
			t.Errorf("learnt without an answer: %v", err)
		}
		k.ingress(datagram(f.surrogate, moved.Source, short([]byte("abc"))), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		k.send(moved, short([]byte("next....")))
		k.requireID("next....", moved)
		k.requireID("quicgos.", victim)
		ended := k.session(6)
		k.must(k.End(&ended))
		if _, ok, err := k.Server(f.vip, []byte("next....")); ok || err != nil {
			t.Errorf("outlives its session: %v", err)
		}
		k.requireID("quicgos.", victim)
	})
}

// TestIDsInUseStay: ids that come and go do not push out the one that a session uses.
func TestIDsInUseStay(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		const size = 256
		k := newRigOf(t, size)
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {}}))
		k.connect(f.session(), "inuse...")
		k.send(f.session(), short([]byte("inuse...")))
		flood := f.session()
		flood.Number, flood.Client, flood.Source = 7, f.other, netip.AddrPortFrom(f.router.Addr(), 3001)
		k.must(k.Add(flood))
		for i := range 4 * 3 * size {
			id := binary.BigEndian.AppendUint64(nil, uint64(i))
			k.must(k.Own(f.vip, id, f.surrogate))
			k.send(flood, long(0, id, nil)) // as clients repeat their hellos: the id counts as used
			if i%size != 0 {
				continue
			}
			k.must(k.forgetTime(3)) // as if a second had passed
			k.send(f.session(), short([]byte("inuse...")))
			if _, ok, err := k.Server(f.vip, []byte("inuse...")); !ok || err != nil {
				t.Fatalf("lost after %d others: %v", i, err)
			}
		}
	})
}

// forgetTime has the session's last datagram be long ago.
func (k *rig) forgetTime(number uint32) error {
	var s quicQuicSession
	if err := k.maps.Sessions.Lookup(number, &s); err != nil {
		return err
	}
	s.FromClient = 1
	return k.maps.Sessions.Put(number, &s)
}
