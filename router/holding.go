package router

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// holding bounds what undecided requests make the router hold. When there is no more room, the source that holds most makes some: of its
// clients the one that has waited longest. A source is an address, of IPv6 its /64.
type holding struct {
	limit   int
	bytes   int // of all
	sources map[netip.Addr]*source
	most    greediest
}

// source is who holds something undecided.
type source struct {
	of      netip.Addr
	bytes   int
	at      int        // in the heap
	clients *list.List // of *pending, undecided ones, the oldest first
}

const (
	// heldBytes is the most that is held for clients together; in a flood that is what the process grows by.
	heldBytes = 64 << 20
	// clientBytes is what a client costs beside its frames.
	clientBytes = 768
)

func newHolding(limit int) *holding {
	return &holding{limit: limit, sources: make(map[netip.Addr]*source)}
}

// sourceOf is the address that stands for a client's source.
func sourceOf(client netip.Addr) netip.Addr {
	if client.Is4() {
		return client
	}
	p, _ := client.WithZone("").Prefix(64) // fails for no address
	return p.Addr()
}

// begin charges a new client.
func (h *holding) begin(p *pending) {
	of := sourceOf(p.client.Addr())
	s := h.sources[of]
	if s == nil {
		s = &source{of: of, clients: list.New()}
		h.sources[of] = s
		heap.Push(&h.most, s)
	}
	p.source, p.place = s, s.clients.PushBack(p)
	h.charge(p, clientBytes)
}

// charge notes that more is held for a client.
func (h *holding) charge(p *pending, bytes int) {
	h.bytes += bytes
	p.held += bytes
	if p.place != nil {
		p.source.bytes += bytes
		heap.Fix(&h.most, p.source.at)
	}
}

// decided keeps a client that is being answered from making room.
func (h *holding) decided(p *pending) {
	s := p.source
	if p.place == nil {
		return
	}
	s.clients.Remove(p.place)
	p.place = nil
	s.bytes -= p.held
	if s.clients.Len() == 0 {
		delete(h.sources, s.of)
		heap.Remove(&h.most, s.at)
		return
	}
	heap.Fix(&h.most, s.at)
}

// end is when nothing is held for a client any more. Again it does nothing.
func (h *holding) end(p *pending) {
	if p.held == 0 {
		return
	}
	h.decided(p)
	h.bytes -= p.held
	p.held = 0
}

// victim is who makes room for so many bytes: nil, there is room. False: there is none, and nobody who could make some.
func (h *holding) victim(bytes int) (*pending, bool) {
	switch {
	case h.bytes+bytes <= h.limit:
		return nil, true
	case len(h.most) == 0:
		return nil, false
	}
	return h.most[0].clients.Front().Value.(*pending), true
}

// greediest is a heap with the source in front that holds most.
type greediest []*source

func (g greediest) Len() int           { return len(g) }
func (g greediest) Less(i, j int) bool { return g[i].bytes > g[j].bytes }
func (g greediest) Swap(i, j int) {
	g[i], g[j] = g[j], g[i]
	g[i].at, g[j].at = i, j
}

func (g *greediest) Push(x any) {
	s := x.(*source)
	s.at = len(*g)
	*g = append(*g, s)
}

func (g *greediest) Pop() any {
	last := (*g)[len(*g)-1]
	(*g)[len(*g)-1] = nil
	*g = (*g)[:len(*g)-1]
	return last
}
