package quic

import (
	"bytes"
	"encoding/binary"
	"errors"
	"flag"
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"baton/datapath"
	"baton/datapath/kerneltest"
	"baton/packet"
)

var update = flag.Bool("update", false, "write what was measured to testdata")

func TestMain(m *testing.M) {
	kerneltest.Main(m, func() error { return datapath.SetUp("lo") })
}

func TestVerifierCost(t *testing.T) {
	spec, err := loadQuic()
	if err != nil {
		t.Fatal(err)
	}
	kerneltest.VerifierCost(t, *update, spec)
}

const (
	testSessions = 16
	loopback     = 1 // ifindex, where BPF_PROG_TEST_RUN's packets come in
)

// rig is the loaded program with empty maps.
type rig struct {
	t testing.TB
	*QUIC
}

func newRig(t testing.TB) *rig {
	t.Helper()
	return newRigOf(t, testSessions)
}

func newRigOf(t testing.TB, sessions int) *rig {
	t.Helper()
	kerneltest.Need(t)
	k := &rig{t, &QUIC{options: Options{Sessions: sessions}}}
	k.must(k.load(nil))
	t.Cleanup(func() { k.Close() })
	k.must(k.SetConfig(Config{Tap: loopback, Rate: 1000, Burst: 1000}))
	return k
}

func (k *rig) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// family is the addresses of a test.
type family struct{ client, vip, router, surrogate, other netip.AddrPort }

func eachFamily(t *testing.T, f func(t *testing.T, f family)) {
	at := netip.MustParseAddrPort
	for name, each := range map[string]family{
		"IPv4": {at("198.51.100.7:5000"), at("10.9.9.9:443"), at("10.2.1.1:3000"), at("10.2.1.2:8443"), at("203.0.113.5:6000")},
		"IPv6": {at("[2001:db8:1::7]:5000"), at("[fd09::9]:443"), at("[fd02::1]:3000"), at("[fd02::2]:8443"), at("[2001:db8:2::5]:6000")},
	} {
		t.Run(name, func(t *testing.T) { f(t, each) })
	}
}

func (f family) session() Session {
	return Session{Number: 3, Client: f.client, VIP: f.vip, Source: f.router, Surrogate: f.surrogate, In: loopback, Out: loopback}
}

func datagram(src, dst netip.AddrPort, payload []byte) []byte {
	return packet.BuildDatagram(packet.DatagramSpec{Src: src, Dst: dst, TOS: 2, Payload: payload})
}

// long is the start of a packet with a long header of version 1: of type Initial 0, 0-RTT 1, Handshake 2, Retry 3.
func long(kind byte, destination, source []byte) []byte {
	b := binary.BigEndian.AppendUint32([]byte{0xc0 | kind<<4}, 1)
	b = append(append(b, byte(len(destination))), destination...)
	b = append(append(b, byte(len(source))), source...)
	return append(b, 0x55, 0x66, 0x77)
}

// short is a packet with a short header.
func short(destination []byte) []byte {
	return append(append([]byte{0x41}, destination...), bytes.Repeat([]byte{0xee}, 25)...)
}

// want runs a frame, and requires its verdict and what is done with it.
func (k *rig) want(program *ebpf.Program, frame []byte, verdict quicVerdict, action uint32) []byte {
	k.t.Helper()
	before, err := k.Verdicts()
	k.must(err)
	opts := &ebpf.RunOptions{Data: frame, DataOut: make([]byte, len(frame)+256), Context: kerneltest.SKBuff{Ifindex: loopback, IngressIfindex: loopback}}
	got, err := program.Run(opts)
	k.must(err)
	after, err := k.Verdicts()
	k.must(err)
	for name, n := range after {
		want := before[name]
		if name == verdictNames[verdict] {
			want++
		}
		if n != want {
			k.t.Errorf("verdict %s was counted %d times; want %s once", name, n-before[name], verdictNames[verdict])
		}
	}
	if got != action {
		k.t.Errorf("action %d, want %d", got, action)
	}
	if k.t.Failed() {
		k.t.FailNow()
	}
	return opts.DataOut
}

func (k *rig) ingress(frame []byte, verdict quicVerdict, action uint32) []byte {
	k.t.Helper()
	return k.want(k.programs.QuicIngress, frame, verdict, action)
}

// same requires that a frame is what was sent, with other addresses and one hop less.
func same(t testing.TB, got []byte, s packet.DatagramSpec) {
	t.Helper()
	s.TTL = packet.DefaultTTL - 1
	if want := packet.BuildDatagram(s); !bytes.Equal(got, want) {
		t.Fatalf("translated to\n% x, want\n% x", got, want)
	}
}

func TestTranslation(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.must(k.Add(f.session()))
		for _, size := range []int{1, 2, 1200, 1451} {
			for _, noSum := range []bool{false, true} {
				payload := bytes.Repeat([]byte{0x41, 7}, size)[:size]
				to := packet.DatagramSpec{Src: f.client, Dst: f.vip, TOS: 1, Payload: payload, NoSum: noSum}
				got := k.ingress(packet.BuildDatagram(to), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
				to.Src, to.Dst = f.router, f.surrogate
				same(t, got, to)
				from := packet.DatagramSpec{Src: f.surrogate, Dst: f.router, TOS: 3, Payload: payload, NoSum: noSum}
				got = k.ingress(packet.BuildDatagram(from), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
				from.Src, from.Dst = f.vip, f.client
				same(t, got, from)
			}
		}
		s, ok, err := k.Session(3)
		k.must(err)
		if want := uint64(2 * (1 + 2 + 1200 + 1451)); !ok || s.BytesToClient != want || s.BytesToServer != want || !s.Answered || s.Confirmed {
			t.Errorf("session %+v, want %d bytes each way", s, want)
		}
		k.ingress(packet.BuildDatagram(packet.DatagramSpec{Src: f.client, Dst: f.vip, TTL: 1, Payload: []byte{1}}), quicVerdictDROP_TTL, kerneltest.ActShot)
		k.must(k.End(&s))
		k.ingress(datagram(f.surrogate, f.router, []byte{1}), quicVerdictPASS, kerneltest.ActPass)
		if n := kerneltest.Entries(t, k.maps.Flows); n != 0 {
			t.Errorf("%d flows are left", n)
		}
	})
}

// TestKeep: with source keep the surrogate sees the client.
func TestKeep(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		s := f.session()
		s.Source = f.client
		k.must(k.Add(s))
		got := k.ingress(datagram(f.client, f.vip, []byte{1, 2, 3}), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
		same(t, got, packet.DatagramSpec{Src: f.client, Dst: f.surrogate, TOS: 2, Payload: []byte{1, 2, 3}})
		got = k.ingress(datagram(f.surrogate, f.client, []byte{4, 5}), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		same(t, got, packet.DatagramSpec{Src: f.vip, Dst: f.client, TOS: 2, Payload: []byte{4, 5}})
		if err := k.Add(Session{Number: 4, Client: f.other, VIP: f.vip, Source: f.client, Surrogate: f.surrogate}); !errors.Is(err, ErrTaken) {
			t.Errorf("a second session with the same way back: %v", err)
		}
		if _, ok, err := k.Session(4); ok || err != nil {
			t.Errorf("what could not be added is there: %v", err)
		}
	})
}

func TestUpcalls(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		initial := datagram(f.client, f.vip, long(0, []byte("clientsown"), []byte("abc")))
		k.ingress(initial, quicVerdictPASS, kerneltest.ActPass)
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {}}))
		frame := k.ingress(initial, quicVerdictUPCALL, kerneltest.ActRedirect)
		if ifindex, ok := ReadMAC([6]byte(frame[6:12])); !ok || ifindex != loopback || !bytes.Equal(frame[12:], initial[12:]) {
			t.Errorf("upcall is\n% x, want\n% x", frame, initial)
		}
		k.ingress(datagram(f.client, f.vip, long(1, []byte("clientsown"), nil)), quicVerdictUPCALL, kerneltest.ActRedirect)
		k.ingress(datagram(f.client, f.vip, []byte{0xc0, 0xfa, 0xfa, 0xfa, 0xfa, 0}), quicVerdictUPCALL, kerneltest.ActRedirect)
		k.ingress(datagram(f.client, f.vip, long(2, []byte("server1!"), nil)), quicVerdictDROP_UNKNOWN_ID, kerneltest.ActShot)
		k.ingress(datagram(f.client, f.vip, short([]byte("server1!"))), quicVerdictDROP_UNKNOWN_ID, kerneltest.ActShot)
		k.ingress(datagram(f.client, f.vip, nil), quicVerdictDROP_EMPTY, kerneltest.ActShot)
		k.want(k.programs.QuicReplay, initial, quicVerdictDROP_UNDECIDED, kerneltest.ActShot)
		s := f.session()
		k.must(k.Add(s))
		same(t, k.want(k.programs.QuicReplay, initial, quicVerdictTO_SURROGATE, kerneltest.ActRedirect),
			packet.DatagramSpec{Src: f.router, Dst: f.surrogate, TOS: 2, Payload: long(0, []byte("clientsown"), []byte("abc"))})
		k.must(k.End(&s))

		k.must(k.SetConfig(Config{}))
		k.ingress(initial, quicVerdictDROP_NO_TAP, kerneltest.ActShot)
		if f.vip.Addr().Is4() { // of IPv6, fragments have a header of their own
			fragment := bytes.Clone(initial)
			fragment[14+6] = 0x20
			k.ingress(fragment, quicVerdictDROP_FRAGMENT, kerneltest.ActShot)
		}
		k.must(k.SetVIPs(nil))
		k.ingress(initial, quicVerdictPASS, kerneltest.ActPass)
	})
}

// TestRate: a prefix has its burst, and others have theirs.
func TestRate(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {}}))
		k.must(k.SetConfig(Config{Tap: loopback, Rate: 0, Burst: 3}))
		neighbour := netip.AddrPortFrom(f.client.Addr().Next(), 7)
		for i := range 3 {
			k.ingress(datagram([]netip.AddrPort{f.client, neighbour}[i%2], f.vip, long(0, []byte("clientsown"), nil)), quicVerdictUPCALL, kerneltest.ActRedirect)
		}
		k.ingress(datagram(neighbour, f.vip, long(0, []byte("clientsown"), nil)), quicVerdictDROP_RATE, kerneltest.ActShot)
		k.ingress(datagram(f.other, f.vip, long(0, []byte("clientsown"), nil)), quicVerdictUPCALL, kerneltest.ActRedirect)
	})
}

// TestIDs: ids in surrogates' long headers are learnt, and a client that comes from elsewhere with one is an upcall.
func TestIDs(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {}}))
		k.must(k.Add(f.session()))
		k.ingress(datagram(f.surrogate, f.router, long(0, []byte("abc"), []byte("4own"))), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		k.ingress(datagram(f.surrogate, f.router, long(0, []byte("abc"), []byte("serverstwentybytelon"))), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		k.ingress(datagram(f.client, f.vip, bytes.Repeat([]byte{0x40}, 100)), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
		k.ingress(datagram(f.surrogate, f.router, short([]byte("notlearnt!"))), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		if lengths, err := k.Lengths(f.vip); err != nil || len(lengths) != 2 || lengths[0] != 4 || lengths[1] != 20 {
			t.Errorf("lengths %v, %v", lengths, err)
		}
		for _, id := range []string{"4own", "serverstwentybytelon"} {
			s, ok, err := k.Server(f.vip, []byte(id))
			if err != nil || !ok || s.Surrogate != f.surrogate || s.Ambiguous || s.Own || s.Learner.Number != 3 {
				t.Errorf("%q is of %+v, %v %v", id, s, ok, err)
			}
			k.ingress(datagram(f.other, f.vip, short([]byte(id))), quicVerdictUPCALL_MOVED, kerneltest.ActRedirect)
			k.ingress(datagram(f.other, f.vip, long(2, []byte(id), nil)), quicVerdictUPCALL_MOVED, kerneltest.ActRedirect)
		}
		k.ingress(datagram(f.other, f.vip, []byte("A4ow")), quicVerdictDROP_UNKNOWN_ID, kerneltest.ActShot)
		k.ingress(datagram(f.other, f.vip, short([]byte("5own"))), quicVerdictDROP_UNKNOWN_ID, kerneltest.ActShot)

		s, _, err := k.Session(3)
		k.must(err)
		if s.Confirmed {
			t.Error("confirmed, and the client has sent nothing")
		}
		k.ingress(datagram(f.client, f.vip, short([]byte("5own"))), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
		k.must(k.Own(f.vip, []byte("clientsown"), f.surrogate))
		k.ingress(datagram(f.client, f.vip, long(0, []byte("clientsown"), nil)), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
		again := datagram(f.client, f.vip, long(0, []byte("another1"), nil))
		k.ingress(again, quicVerdictUPCALL_AGAIN, kerneltest.ActRedirect)
		k.want(k.programs.QuicReplay, again, quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
		k.ingress(datagram(f.client, f.vip, long(0, []byte("short1."), nil)), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
		if s, _, _ = k.Session(3); s.Confirmed {
			t.Error("confirmed by an id that no surrogate has chosen")
		}
		k.ingress(datagram(f.client, f.vip, short([]byte("4own"))), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
		if s, _, _ = k.Session(3); !s.Confirmed {
			t.Error("not confirmed")
		}

		elsewhere := netip.AddrPortFrom(f.surrogate.Addr(), 9)
		k.must(k.Add(Session{Number: 5, Client: f.other, VIP: f.vip, Source: f.router, Surrogate: elsewhere, In: loopback, Out: loopback}))
		k.ingress(datagram(elsewhere, f.router, long(0, []byte("abc"), []byte("4own"))), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		if s, ok, err := k.Server(f.vip, []byte("4own")); err != nil || !ok || s.Surrogate != f.surrogate || !s.Ambiguous {
			t.Errorf("an id of two surrogates is of %+v, %v %v", s, ok, err)
		}
	})
}

// TestClientsIDs: the id that a client sends is learnt, as surrogates give it others that nobody else can read; it has one.
func TestClientsIDs(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {}}))
		k.must(k.Add(f.session()))
		send := func(id string) {
			k.ingress(datagram(f.client, f.vip, short([]byte(id))), quicVerdictTO_SURROGATE, kerneltest.ActRedirect)
		}
		knows := func(id string, want bool) {
			t.Helper()
			if s, ok, err := k.Server(f.vip, []byte(id)); err != nil || ok != want || ok && s.Surrogate != f.surrogate {
				t.Errorf("%q is of %+v, %v, %v", id, s, ok, err)
			}
		}
		send("forged..")
		knows("forged..", false)
		k.ingress(datagram(f.surrogate, f.router, long(0, []byte("abc"), []byte("first..."))), quicVerdictTO_CLIENT, kerneltest.ActRedirect)
		if s, _, _ := k.Session(3); s.Followed {
			t.Error("followed by what came before the answer")
		}
		send("second..")
		if s, _, _ := k.Session(3); !s.Followed || s.Confirmed {
			t.Errorf("not followed: %+v", s)
		}
		knows("second..", true)
		send("third...")
		knows("third...", true)
		knows("second..", false)
		knows("first...", true)
		k.ingress(datagram(f.other, f.vip, short([]byte("third..."))), quicVerdictUPCALL_MOVED, kerneltest.ActRedirect)
	})
}

// TestLayouts: where ids may name their server, unknown ones are upcalls.
func TestLayouts(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.must(k.SetVIPs(map[netip.AddrPort]VIP{f.vip: {Layouts: true}}))
		k.ingress(datagram(f.client, f.vip, short([]byte("server1!"))), quicVerdictUPCALL_MOVED, kerneltest.ActRedirect)
		k.ingress(datagram(f.client, f.vip, long(2, []byte("server1!"), nil)), quicVerdictUPCALL_MOVED, kerneltest.ActRedirect)
	})
}

// TestErrors: an ICMP error comes to the sender of what it quotes, as if nobody had translated that.
func TestErrors(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.must(k.Add(f.session()))
		kind, code := uint8(3), uint8(3) // port unreachable
		if f.vip.Addr().Is6() {
			kind, code = 1, 4
		}
		for _, tt := range []struct{ quotedFrom, quotedTo, from, to, seenFrom, seenTo, seenQuotedFrom, seenQuotedTo netip.AddrPort }{
			{f.router, f.surrogate, f.surrogate, f.router, f.vip, f.client, f.client, f.vip},
			{f.vip, f.client, f.client, f.vip, f.router, f.surrogate, f.surrogate, f.router},
		} {
			quote := func(from, to netip.AddrPort) []byte {
				return datagram(from, to, bytes.Repeat([]byte{9}, 20))[packet.EthernetSize:]
			}
			frame := packet.BuildICMP(packet.ICMPSpec{Src: tt.from.Addr(), Dst: tt.to.Addr(), Type: kind, Code: code, Quote: quote(tt.quotedFrom, tt.quotedTo)})
			got := k.ingress(frame, quicVerdictICMP_TRANSLATED, kerneltest.ActRedirect)
			want := packet.BuildICMP(packet.ICMPSpec{
				Src: tt.seenFrom.Addr(), Dst: tt.seenTo.Addr(), TTL: packet.DefaultTTL - 1, Type: kind, Code: code, Quote: quote(tt.seenQuotedFrom, tt.seenQuotedTo),
			})
			if !bytes.Equal(got, want) {
				t.Errorf("translated to\n% x, want\n% x", got, want)
			}
			// one that is not for the quoted packet's sender
			other := packet.BuildICMP(packet.ICMPSpec{Src: tt.from.Addr(), Dst: f.other.Addr(), Type: kind, Code: code, Quote: quote(tt.quotedFrom, tt.quotedTo)})
			k.ingress(other, quicVerdictPASS, kerneltest.ActPass)
		}
	})
}
