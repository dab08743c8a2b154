package upcall

import (
	"math/rand/v2"
	"net/netip"
	"runtime"
	"testing"

	"baton/packet"
)

// TestHoldingStaysBounded: many sources start requests of any size that never complete, with the same calls as upcalls: memory
// stays below the limit, the largest source is evicted, and a small one is left alone.
func TestHoldingStaysBounded(t *testing.T) {
	const limit = 8 << 20
	h := newHolding(limit)
	random := rand.New(rand.NewPCG(1, 2))
	live := make(map[*pending]bool)
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	take := func(p *pending, size int) bool {
		for {
			victim, ok := h.victim(size)
			if victim == nil {
				if ok {
					h.charge(p, size)
					p.add(segment{frame: make([]byte, size), seq: p.base.Add(uint32(p.bytes)), data: make([]byte, 1)})
				}
				return ok
			}
			if got, most := victim.source.bytes, h.most[0].bytes; got < most {
				t.Fatalf("a source of %d bytes makes room, another has %d", got, most)
			}
			if first := victim.source.clients.Front().Value.(*pending); first != victim {
				t.Fatal("not the oldest makes room")
			}
			h.end(victim)
			delete(live, victim)
			if victim == p {
				return false
			}
		}
	}
	begin := func(source byte, port int) *pending {
		p := &pending{client: netip.AddrPortFrom(netip.AddrFrom4([4]byte{198, 18, 0, source}), uint16(port)), base: packet.Seq(random.Uint32())}
		h.begin(p)
		live[p] = true
		return p
	}
	honest := begin(250, 1)
	take(honest, 500)
	for i := range 200_000 {
		p := begin(byte(random.IntN(190)), i)
		for range 1 + random.IntN(3) {
			if !take(p, 100+random.IntN(3000)) {
				break
			}
		}
		if i%1000 == 0 && live[p] { // a decided one is not evicted
			h.decided(p)
			h.end(p)
			h.end(p)
			delete(live, p)
		}
		if h.bytes > limit+clientBytes {
			t.Fatalf("%d bytes are held", h.bytes)
		}
	}
	if !live[honest] {
		t.Error("a client of a source that holds little has made room")
	}
	runtime.GC()
	runtime.ReadMemStats(&after)
	if grown := int(after.HeapAlloc) - int(before.HeapAlloc); grown > 2*limit {
		t.Errorf("the heap has grown by %d bytes, where %d may be held", grown, limit)
	}
	for p := range live {
		h.end(p)
	}
	if h.bytes != 0 || len(h.sources) != 0 || len(h.most) != 0 {
		t.Errorf("%d bytes of %d sources are held for nobody", h.bytes, len(h.sources))
	}
}

// TestHoldingSparesTheDecided: decided clients are not evicted.
func TestHoldingSparesTheDecided(t *testing.T) {
	h := newHolding(4000)
	p := &pending{client: netip.MustParseAddrPort("10.0.0.1:1")}
	h.begin(p)
	h.charge(p, 3000)
	h.decided(p)
	if victim, ok := h.victim(1000); victim != nil || ok {
		t.Errorf("%v makes room, %v", victim, ok)
	}
	h.end(p)
	if _, ok := h.victim(4000); !ok {
		t.Error("no room where nothing is held")
	}
}

func TestSourceOfAClient(t *testing.T) {
	for client, want := range map[string]string{
		"10.0.0.1": "10.0.0.1", "2001:db8:1:2:3::4": "2001:db8:1:2::", "fe80::1": "fe80::",
	} {
		if got := sourceOf(netip.MustParseAddr(client)); got != netip.MustParseAddr(want) {
			t.Errorf("source of %s: %v, want %s", client, got, want)
		}
	}
}

// TestPendingAccepts: a duplicate segment is not copied.
func TestPendingAccepts(t *testing.T) {
	p := &pending{base: 100}
	p.add(segment{seq: 100, data: make([]byte, 10)})
	p.add(segment{seq: 120, data: make([]byte, 10)})
	for _, tt := range []struct {
		seq        packet.Seq
		size       int
		keep, fits bool
	}{
		{100, 10, false, true}, {100, 5, false, true}, {100, 20, true, true}, {110, 10, true, true}, {120, 10, false, true},
		{130, 1, true, true}, {110, maxPendingBytes, false, false}, {100 + 2*maxPendingBytes, 1, false, true},
	} {
		if keep, fits := p.accepts(tt.seq, tt.size); keep != tt.keep || fits != tt.fits {
			t.Errorf("%d bytes at %d: kept %v, fits %v", tt.size, tt.seq, keep, fits)
		}
	}
	p.add(segment{seq: 110, data: make([]byte, 10)})
	if got := len(p.contiguous()); got != 30 {
		t.Errorf("%d bytes from the start", got)
	}
}
