package flight

import (
	"container/list"
	"net/netip"
)

// Bits of a source's prefix: what one client can have at the least, and what one owner usually has.
const (
	prefixBits4 = 24
	prefixBits6 = 56
)

// PrefixOf is the prefix whose addresses share: one client can have all of them.
func PrefixOf(a netip.Addr) netip.Prefix {
	a = a.Unmap().WithZone("")
	bits := prefixBits6
	if a.Is4() {
		bits = prefixBits4
	}
	p, err := a.Prefix(bits)
	if err != nil {
		return netip.Prefix{} // of no address: one prefix like others
	}
	return p
}

// shares divides the room for flights among prefixes: none has more than its share, and when all is in use the one that has most
// gives to one that has less.
type shares struct {
	total    int
	used     int
	prefixes map[netip.Prefix]*prefix
	levels   []list.List // *prefix, by how many flights it has; the last is a prefix' share
}

type prefix struct {
	flights list.List     // *flight, oldest first
	level   *list.Element // in levels
}

func newShares(total, share int) *shares {
	return &shares{total: total, prefixes: make(map[netip.Prefix]*prefix), levels: make([]list.List, share+1)}
}

// room tells whether a flight of that prefix may be added, and which one must go for it, if any.
func (s *shares) room(of netip.Prefix) (victim *flight, why Reason) {
	has := 0
	if p := s.prefixes[of]; p != nil {
		has = p.flights.Len()
	}
	if has >= len(s.levels)-1 {
		return nil, Crowded
	}
	if s.used < s.total {
		return nil, None
	}
	// One fewer there and one more here must not turn the two round, else they would take from each other for ever.
	for level := len(s.levels) - 1; level > has+1; level-- {
		if e := s.levels[level].Front(); e != nil {
			return e.Value.(*prefix).flights.Front().Value.(*flight), None
		}
	}
	return nil, Full
}

func (s *shares) add(f *flight) {
	p := s.prefixes[f.prefix]
	if p == nil {
		p = new(prefix)
		s.prefixes[f.prefix] = p
	}
	f.place = p.flights.PushBack(f)
	s.used++
	s.move(p, p.flights.Len()-1)
}

func (s *shares) remove(f *flight) {
	p := s.prefixes[f.prefix]
	p.flights.Remove(f.place)
	s.used--
	s.move(p, p.flights.Len()+1)
	if p.flights.Len() == 0 {
		delete(s.prefixes, f.prefix)
	}
}

// move puts a prefix that had so many flights into the level of those that it has.
func (s *shares) move(p *prefix, had int) {
	if had > 0 {
		s.levels[had].Remove(p.level)
	}
	if has := p.flights.Len(); has > 0 {
		p.level = s.levels[has].PushBack(p)
	}
}
