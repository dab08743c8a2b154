package upcall

import (
	"container/heap"
	"container/list"
	"net/netip"
)

// holding bounds the memory for undecided requests. When it is full, the source that uses most loses the client that has waited
// longest. A source is an IPv4 address or an IPv6 /64.
type holding struct {
	limit   int
	bytes   int // of all
	sources map[netip.Addr]*source
	most    byBytes
}

// source is a source with undecided clients.
type source struct {
	of      netip.Addr
	bytes   int
	at      int        // index in the heap
	clients *list.List // undecided *pending, oldest first
}

const (
	// heldBytes bounds the memory for all clients, and so the growth of the process in a flood.
	heldBytes = 64 << 20
	// clientBytes is the cost of a client without its frames.
	clientBytes = 768
)

func newHolding(limit int) *holding {
	return &holding{limit: limit, sources: make(map[netip.Addr]*source)}
}

// sourceOf is the address of a client's source.
func sourceOf(client netip.Addr) netip.Addr {
	if client.Is4() {
		return client
	}
	p, _ := client.WithZone("").Prefix(64) // never fails
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

// charge adds bytes to a client's account.
func (h *holding) charge(p *pending, bytes int) {
	h.bytes += bytes
	p.held += bytes
	if p.place != nil {
		p.source.bytes += bytes
		heap.Fix(&h.most, p.source.at)
	}
}

// decided protects a decided client from eviction.
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

// end releases everything held for a client. Repeated calls do nothing.
func (h *holding) end(p *pending) {
	if p.held == 0 {
		return
	}
	h.decided(p)
	h.bytes -= p.held
	p.held = 0
}

// victim is the client to evict for so many bytes: nil, there is space. False: there is none, and nobody to evict.
func (h *holding) victim(bytes int) (*pending, bool) {
	switch {
	case h.bytes+bytes <= h.limit:
		return nil, true
	case len(h.most) == 0:
		return nil, false
	}
	return h.most[0].clients.Front().Value.(*pending), true
}

// byBytes is a heap with the largest source first.
type byBytes []*source

func (g byBytes) Len() int           { return len(g) }
func (g byBytes) Less(i, j int) bool { return g[i].bytes > g[j].bytes }
func (g byBytes) Swap(i, j int) {
	g[i], g[j] = g[j], g[i]
	g[i].at, g[j].at = i, j
}

func (g *byBytes) Push(x any) {
	s := x.(*source)
	s.at = len(*g)
	*g = append(*g, s)
}

func (g *byBytes) Pop() any {
	last := (*g)[len(*g)-1]
	(*g)[len(*g)-1] = nil
	*g = (*g)[:len(*g)-1]
	return last
}
