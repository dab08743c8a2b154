package relay

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"
	"time"

	"baton/datapath/kerneltest"
	"baton/packet"
)

// early has one entry for everything that is far. It does not intercept: a test run cannot give a socket to a packet.
func (k *rig) early(kind Early) {
	k.t.Helper()
	k.must(k.SetEntries([]Entry{{
		ID: 7, Listen: k.listen, Destinations: []netip.Prefix{families[0].far, families[1].far}, Early: kind,
	}}))
}

// clientAt is an address of a client by number; those of IPv6 are in networks of their own.
func (f family) clientAt(n int, port uint16) netip.AddrPort {
	b := f.client.AsSlice()
	if f.client.Is4() {
		b[3] = byte(n)
	} else {
		b[7] = byte(n)
	}
	addr, _ := netip.AddrFromSlice(b)
	return netip.AddrPortFrom(addr, port)
}

func TestEarlySYNReported(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.early(EarlyOptimistic)
		s := f.syn(f.clientAt(1, 4000), 443, 1<<32-1)
		k.want(s, relayVerdictSYN_REPORTED)
		e := k.only()
		if e.Entry != 7 || e.Ifindex != 1 || e.Cancelled || e.Frame != nil || e.Hash == 0 || e.SYN != (SYN{s.Src, s.Dst, 1<<32 - 1}) {
			t.Errorf("event %+v", e)
		}
		k.want(s, relayVerdictSYN_AGAIN)

		anew := s
		anew.Seq = 5
		k.want(anew, relayVerdictSYN_REPORTED) // the same ports, another connection
		if e := k.only(); e.ISN != 5 {
			t.Errorf("event %+v", e)
		}
		if n := k.sizes(); n != (sizes{1, 1}) {
			t.Errorf("%+v", n)
		}
		if n, err := k.Settle(e.SYN); n != 0 || err != nil {
			t.Errorf("the earlier one was settled: %d, %v", n, err)
		}
		if n, err := k.Settle(SYN{s.Src, s.Dst, 5}); n != 1 || err != nil {
			t.Errorf("settled %d, %v", n, err)
		}
		if n := k.sizes(); n != (sizes{}) {
			t.Errorf("left behind: %+v", n)
		}
	})
}

// What is no first packet of a connection is not told of.
func TestEarlySYNOfOtherPackets(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		entry := Entry{ID: 1, Listen: k.listen, Destinations: []netip.Prefix{f.far}, Intercept: true, Early: EarlyConnectFirst}
		k.must(k.SetEntries([]Entry{entry}))
		for _, flags := range []packet.Flags{
			packet.ACK, packet.SYN | packet.ACK, packet.SYN | packet.RST, packet.SYN | packet.FIN, packet.RST, packet.FIN, 0,
		} {
			s := f.syn(f.clientAt(1, 4000), 443, 9)
			s.Flags = flags
			k.want(s, relayVerdictPASS_UNKNOWN)
		}
		other := f.syn(f.clientAt(1, 4000), 443, 9)
		other.Dst = netip.AddrPortFrom(f.server, 443)
		k.want(other, relayVerdictPASS)
		cut := f.syn(f.clientAt(1, 4000), 443, 9)
		if f.client.Is4() {
			cut.MoreFragments = true
			k.want(cut, relayVerdictPASS)
			cut.MoreFragments, cut.FragmentOffset = false, 8
			k.want(cut, relayVerdictPASS)
			cut.FragmentOffset, cut.IPOptions = 0, []byte{1, 1, 1, 1}
			k.want(cut, relayVerdictPASS)
		} else {
			for _, kind := range []packet.Protocol{44, 0} /* fragment, hop-by-hop */ {
				cut.ExtensionType, cut.Extension = kind, make([]byte, 8)
				k.want(cut, relayVerdictPASS)
			}
		}
		entry.Listen = netip.MustParseAddrPort("[::]:1")
		k.must(k.SetEntries([]Entry{entry}))
		k.want(f.syn(f.clientAt(1, 4000), 443, 9), relayVerdictNO_LISTENER)
		if reported := k.takeEvents(); len(reported) > 0 {
			t.Errorf("told: %+v", reported)
		}
	})
}

func TestEarlySYNBoundOfAClient(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.early(EarlyOptimistic)
		var first SYN
		for i := range rigOptions.PerSource {
			s := f.syn(f.clientAt(1, uint16(4000+i)), 443, 9)
			k.want(s, relayVerdictSYN_REPORTED)
			first = SYN{s.Src, s.Dst, 9}
		}
		above := f.syn(f.clientAt(1, 5000), 443, 9)
		if !f.client.Is4() { // another address of the same network
			b := above.Src.Addr().As16()
			b[15]++
			above.Src = netip.AddrPortFrom(netip.AddrFrom16(b), 5000)
		}
		k.want(above, relayVerdictSYN_SOURCE_FULL)
		k.want(f.syn(f.clientAt(2, 4000), 443, 9), relayVerdictSYN_REPORTED)
		if reported := k.takeEvents(); len(reported) != rigOptions.PerSource+1 {
			t.Errorf("%d events", len(reported))
		}
		if n, err := k.Settle(first); n != 1 || err != nil {
			t.Fatal(n, err)
		}
		k.want(above, relayVerdictSYN_REPORTED)
		k.want(f.syn(f.clientAt(1, 5001), 443, 9), relayVerdictSYN_SOURCE_FULL)
	})
}

func TestEarlySYNBoundOfAll(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.early(EarlyConnectFirst)
		for i := range rigOptions.Early {
			k.want(f.syn(f.clientAt(i, 4000), 443, 9), relayVerdictSYN_HELD)
		}
		k.want(f.syn(f.clientAt(100, 4000), 443, 9), relayVerdictSYN_FULL)
		if n := k.sizes(); n != (sizes{rigOptions.Early, rigOptions.Early}) {
			t.Errorf("%+v", n)
		}
	})
}

// A reader that has stopped costs nothing but its events.
func TestEarlySYNUnread(t *testing.T) {
	f := families[0]
	k := newRig(t)
	for _, kind := range []Early{EarlyOptimistic, EarlyConnectFirst} {
		k.early(kind)
		lost := false
		for isn := packet.Seq(0); isn < 2000 && !lost; isn++ {
			s := f.syn(f.clientAt(1, 4000), 443, isn)
			verdict, _, _ := k.run(packet.Build(s))
			lost = verdict == "event_lost"
			n, err := k.Settle(SYN{s.Src, s.Dst, uint32(isn)})
			if k.must(err); (n == 0) != lost {
				t.Fatalf("%s: %d settled", verdict, n)
			}
		}
		if !lost || k.sizes() != (sizes{}) {
			t.Fatalf("lost %v, left behind %+v", lost, k.sizes())
		}
		k.takeEvents()
		if verdict, _, _ := k.run(packet.Build(f.syn(f.clientAt(1, 4000), 443, 1))); verdict != "syn_reported" && verdict != "syn_held" {
			t.Errorf("read again: %s", verdict)
		}
		k.settleAll()
		k.takeEvents()
	}
}

func TestEarlySYNCancelled(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		for kind, verdicts := range map[Early][2]relayVerdict{
			EarlyOptimistic:   {relayVerdictSYN_REPORTED, relayVerdictCANCELLED},
			EarlyConnectFirst: {relayVerdictSYN_HELD, relayVerdictCANCELLED_HELD},
		} {
			k := newRig(t)
			k.early(kind)
			s := f.syn(f.clientAt(1, 4000), 443, 9)
			k.want(s, verdicts[0])
			k.only()
			reset := s
			reset.Flags = packet.RST
			k.want(reset, relayVerdictPASS) // of another connection: a stranger's guess
			reset.Seq++
			k.want(reset, verdicts[1])
			if e := k.only(); !e.Cancelled || e.SYN != (SYN{s.Src, s.Dst, 9}) || e.Entry != 7 || e.Frame != nil {
				t.Errorf("event %+v", e)
			}
			k.want(reset, relayVerdictPASS)
			if n := k.sizes(); n != (sizes{}) {
				t.Errorf("left behind: %+v", n)
			}
		}
	})
}

func TestEarlySYNExpires(t *testing.T) {
	k, f := newRig(t), families[0]
	k.early(EarlyOptimistic)
	k.want(f.syn(f.clientAt(1, 4000), 443, 9), relayVerdictSYN_REPORTED)
	old := f.syn(f.clientAt(2, 4000), 443, 9)
	k.want(old, relayVerdictSYN_REPORTED)
	var s relaySyn
	key := SYN{old.Src, old.Dst, 9}.key().Tuple
	k.must(k.objects.Syns.Lookup(key, &s))
	s.Since -= uint32(rigOptions.Expire/time.Millisecond) + 1
	k.must(k.objects.Syns.Put(key, s))
	if n, err := k.Sweep(); n != 1 || err != nil {
		t.Errorf("swept %d, %v", n, err)
	}
	if n := k.sizes(); n != (sizes{1, 1}) {
		t.Errorf("%+v", n)
	}
}

// Many keys are several commands, and keys of nothing are none.
func TestEarlySYNSettled(t *testing.T) {
	k, f := newRig(t), families[1]
	k.early(EarlyOptimistic)
	var all []SYN
	for i := range 200 {
		s := f.syn(f.clientAt(i, 4000), 443, 9)
		if i%40 == 0 || i == 199 {
			k.want(s, relayVerdictSYN_REPORTED)
		}
		all = append(all, SYN{s.Src, s.Dst, 9})
	}
	if n, err := k.Settle(all...); n != 6 || err != nil {
		t.Errorf("settled %d, %v", n, err)
	}
	if n := k.sizes(); n != (sizes{}) {
		t.Errorf("left behind: %+v", n)
	}
}

func TestHeldSYN(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.early(EarlyConnectFirst)
		s := f.syn(f.clientAt(1, 4000), 443, 9)
		k.want(s, relayVerdictSYN_HELD)
		e := k.only()
		if !bytes.Equal(e.Frame, packet.Build(s)) {
			t.Errorf("frame\n% x", e.Frame)
		}
		k.want(s, relayVerdictSYN_HELD_AGAIN)
		k.must(k.Release(e))
		k.want(s, relayVerdictSYN_RELEASED)
		for _, decide := range []func(Event) error{k.Release, k.Refuse} {
			if err := decide(e); !errors.Is(err, ErrNotHeld) {
				t.Errorf("once more: %v", err)
			}
		}
		if n := k.sizes(); n != (sizes{1, 1}) {
			t.Errorf("%+v", n) // until it is accepted
		}
		if n, err := k.Settle(e.SYN); n != 1 || err != nil {
			t.Errorf("settled %d, %v", n, err)
		}
		long := f.syn(f.clientAt(1, 4001), 443, 9)
		long.Payload = make([]byte, 300) // with Fast Open
		k.want(long, relayVerdictSYN_TOO_LONG)
		if e := k.only(); e.Frame != nil {
			t.Errorf("event %+v", e)
		}
	})
}

func TestRefusedSYN(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.early(EarlyConnectFirst)
		s := f.syn(f.clientAt(1, 4000), 443, 9)
		s.Payload = []byte("early")
		k.want(s, relayVerdictSYN_HELD)
		e := k.only()
		k.must(k.Refuse(e))
		if n := k.sizes(); n != (sizes{}) {
			t.Errorf("left behind: %+v", n)
		}
		want := packet.Build(packet.Spec{
			SrcMAC: s.DstMAC, DstMAC: s.SrcMAC, Src: s.Dst, Dst: s.Src, DontFragment: f.client.Is4(), Ack: 9 + 1 + 5, Flags: packet.RST | packet.ACK,
		})
		for range 2 {
			got := k.want(s, relayVerdictSYN_REFUSED)
			if !bytes.Equal(got, want) {
				t.Errorf("got\n% x, want\n% x", got, want)
			}
		}
		if err := k.Refuse(e); !errors.Is(err, ErrNotHeld) {
			t.Errorf("once more: %v", err)
		}
		again := s
		again.Seq = 10
		k.want(again, relayVerdictSYN_HELD) // the client tries anew

		var r relayRefused
		key := e.key().Tuple
		k.must(k.objects.Refusals.Lookup(key, &r))
		r.Since -= uint32(relayBoundREFUSED_MS) + 1
		k.must(k.objects.Refusals.Put(key, r))
		k.want(s, relayVerdictSYN_HELD)
	})
}

// Packets of any kind have one verdict.
func TestRelaySurvivesAnything(t *testing.T) {
	k, r := newRig(t), kerneltest.Rand(t)
	all := []netip.Prefix{netip.PrefixFrom(netip.IPv4Unspecified(), 0), netip.PrefixFrom(netip.IPv6Unspecified(), 0)}
	seen := make(map[string]int)
	for i := range 4000 {
		if round := i / 500; i%500 == 0 {
			k.must(k.SetEntries([]Entry{{
				ID: 1, Listen: k.listen, Destinations: all, Intercept: round%2 == 1, Early: Early(round % 3),
			}}))
		}
		if i%20 == 0 {
			k.settleAll()
			k.takeEvents()
		}
		f := families[r.IntN(2)]
		s := f.syn(f.clientAt(r.IntN(4), uint16(r.IntN(3))), uint16(r.IntN(3)), packet.Seq(r.IntN(3)))
		if r.IntN(3) == 0 {
			s.Flags = packet.Flags(r.IntN(256))
		}
		b := packet.Build(s)
		for range r.IntN(3) {
			b[r.IntN(len(b))] = byte(r.Uint32())
		}
		if r.IntN(4) == 0 {
			b = b[:max(r.IntN(len(b)), 54)] // a test run has no less than an IPv6 header
		}
		verdict, action, _ := k.run(b)
		if action != actNext && action != kerneltest.ActShot && action != kerneltest.ActRedirect {
			t.Fatalf("%s: action %d of\n% x", verdict, action, b)
		}
		seen[verdict]++
		k.runProgram(k.objects.RelayReturn, b)
	}
	t.Log(seen)
	for _, verdict := range []string{"pass", "pass_unknown", "syn_reported", "syn_held"} {
		if seen[verdict] == 0 {
			t.Errorf("%s was never met", verdict)
		}
	}
}
