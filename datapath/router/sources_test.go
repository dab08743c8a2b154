package router

import (
	"net/netip"
	"testing"

	"github.com/cilium/ebpf"

	"baton/packet"
)

// emptySources zeroes all counters.
func (k *rig) emptySources() {
	k.t.Helper()
	s := &k.sweeper.sources
	s.walking = false
	var all int32
	k.must(k.maps.Sources.Lookup(uint32(allSources), &all))
	if clear(s.excess); all == 0 { // the usual case: to read all of them takes 15 ms
		return
	}
	k.must(s.begin(k.maps.Sources))
	s.walking = false
	for i, n := range s.before {
		if n != 0 {
			k.must(k.maps.Sources.Update(uint32(i), int32(0), ebpf.UpdateAny))
		}
	}
}

// held returns the counter of a client's source, and that of all.
func (k *rig) held(client netip.AddrPort) (source, all int32) {
	k.t.Helper()
	key := tuple(client, client)
	k.must(k.maps.Sources.Lookup(sourceOf(&key, k.salt), &source))
	k.must(k.maps.Sources.Lookup(uint32(allSources), &all))
	return source, all
}

const partialRequest = "GET /upcall HTTP/1.1\r\nHo"

// sendPartial sends half a head from an address and port.
func (k *rig) sendPartial(f family, client netip.AddrPort, want routerVerdict) *client {
	k.t.Helper()
	f.client = client
	c := newClient(k, f, f.usual())
	c.connect(routerVerdictSYN_ANSWERED)
	action := uint32(actRedirect)
	if want != routerVerdictUPCALL {
		action = actShot
	}
	k.want(packet.Build(c.packet(packet.ACK|packet.PSH, partialRequest)), want, action)
	return c
}

// TestShareOfASource: one source exceeds its share; others still find space. A client that is decided or gone frees its place.
func TestShareOfASource(t *testing.T) {
	eachFamily(t, func(t *testing.T, f family) {
		k := newRig(t)
		k.tap()
		k.vip(f)
		greedy, other := f.client, otherSource(f)
		var clients []*client
		for n := range testPending / 9 { // each gets an eighth of what is free at the time
			clients = append(clients, k.sendPartial(f, f.nth(n).client, routerVerdictUPCALL))
		}
		if source, all := k.held(greedy); int(source) != len(clients) || int(all) != len(clients) {
			t.Fatalf("%d of %d are counted, want %d", source, all, len(clients))
		}
		k.sendPartial(f, f.nth(1000).client, routerVerdictDROP_SOURCE_FULL)
		k.want(packet.Build(clients[0].packet(packet.ACK|packet.PSH, partialRequest)), routerVerdictUPCALL, actRedirect) // an existing one
		honest := k.sendPartial(f, other, routerVerdictUPCALL)
		if source, _ := k.held(other); source != 1 {
			t.Errorf("%d of the honest source are counted", source)
		}

		k.want(packet.Build(clients[0].packet(packet.RST, "")), routerVerdictUPCALL, actRedirect)
		k.ForgetUpcall(clients[0].f.client, f.vip, clients[0].seq) // user space believes it
		clients[0] = k.sendPartial(f, f.nth(1001).client, routerVerdictUPCALL)

		// the honest one is decided, and its session starts
		k.idle(1, f, func(s *routerSplice) { s.Surrogate = 1 })
		k.must(k.Decide(other, f.vip, honest.seq, Decision{Surrogate: 1, Pool: 1, Method: uint8(routerMethodMETHOD_GET), Request: uint64(len(partialRequest))}))
		k.want(packet.Build(honest.packet(packet.ACK|packet.PSH, partialRequest)), routerVerdictHANDOFF, actRedirect)
		if source, all := k.held(other); source != 0 || int(all) != len(clients) {
			t.Errorf("%d of the honest source are counted, and %d of all", source, all)
		}
	})
}

// TestSourcesAreCountedAnew: wrong counters are corrected, as after deletions by user space.
func TestSourcesAreCountedAnew(t *testing.T) {
	k := newRig(t)
	f := families[0]
	k.tap()
	k.vip(f)
	for n := range 4 {
		k.sendPartial(f, f.nth(n).client, routerVerdictUPCALL)
	}
	k.ForgetClient(f.nth(0).client, f.vip)
	key := tuple(otherSource(f), f.vip)
	k.must(k.maps.Sources.Update(sourceOf(&key, k.salt), int32(999), ebpf.UpdateAny))
	for range 8 {
		k.must(k.SweepClients(Timeouts{Handshake: 1 << 40}))
	}
	if source, all := k.held(f.client); source != 3 || all != 3 {
		t.Errorf("%d of %d are counted, want 3", source, all)
	}
	if source, _ := k.held(otherSource(f)); source != 0 {
		t.Errorf("%d are counted of a source that has none", source)
	}
}

// TestSourcesOfABusyTable: clients that come during the recount are not lost.
func TestSourcesOfABusyTable(t *testing.T) {
	s := &sources{before: make([]int32, allSources+1), found: make([]int32, allSources+1), excess: make([]int32, allSources+1)}
	counter, held := int32(0), int32(0)
	for walk := range 20 {
		s.walking = true
		clear(s.before)
		clear(s.found)
		s.before[7], s.found[7] = counter, held
		came := int32(0)
		if walk < 5 {
			came = 100 // half of them in the part still to be walked
			s.found[7] += came / 2
		}
		counter, held = counter+came, held+came
		if err := s.end(func(at uint32, by int32) error { counter += by; return nil }); err != nil {
			t.Fatal(err)
		}
		if counter < held {
			t.Fatalf("after walk %d %d are counted, of %d", walk, counter, held)
		}
		if walk == 10 {
			counter += 50
		}
	}
	if counter != held {
		t.Errorf("%d are counted at the end, of %d", counter, held)
	}
}

// otherSource is a client of another source; for IPv6, another /64.
func otherSource(f family) netip.AddrPort {
	addr := f.client.Addr().AsSlice()
	addr[len(addr)/2-1]++
	out, _ := netip.AddrFromSlice(addr)
	return netip.AddrPortFrom(out, f.client.Port())
}

func TestSourceOf(t *testing.T) {
	source := func(client string, salt uint32) uint32 {
		key := tuple(netip.AddrPortFrom(netip.MustParseAddr(client), 1), netip.MustParseAddrPort("10.9.9.9:80"))
		return sourceOf(&key, salt)
	}
	if source("2001:db8::1", 7) != source("2001:db8::ffff:1", 7) || source("2001:db8::1", 7) == source("2001:db8:0:1::1", 7) {
		t.Error("a source of IPv6 is not a /64")
	}
	if source("10.0.0.1", 7) == source("10.0.0.2", 7) || source("10.0.0.1", 7) == source("10.0.0.1", 8) {
		t.Error("addresses or salts do not matter")
	}
	seen := make(map[uint32]int)
	for i := range 65536 {
		key := tuple(netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}), 1), netip.MustParseAddrPort("10.9.9.9:80"))
		seen[sourceOf(&key, 0x12345678)]++
	}
	if len(seen) < 36000 { // for random ones, 1 - 1/e of all
		t.Errorf("65536 neighbours share %d counters", len(seen))
	}
}
