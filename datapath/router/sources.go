package router

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cilium/ebpf"
)

// allSources is the index of the counter of all undecided clients.
const allSources = int(routerBoundSOURCES)

// sourceOf is the index of a client's counter, computed as in the kernel program.
func sourceOf(key *routerTuple, salt uint32) uint32 {
	word := func(i int) uint32 { return binary.NativeEndian.Uint32(key.Src[4*i:]) }
	a, b := word(3), uint32(0)
	if word(0) != 0 || word(1) != 0 || binary.BigEndian.Uint32(key.Src[8:]) != 0xffff {
		a, b = word(0), word(1)
	}
	h := (salt ^ a) * 0x9e3779b1
	h = (h ^ h>>15 ^ b) * 0x85ebca77
	h = (h ^ h>>13 ^ salt) * 0xc2b2ae3d
	return (h ^ h>>16) & uint32(allSources-1)
}

// sources compares the kernel's counters with a walk over the clients. The counters miss what user space deletes, and may miss a
// client handled by two CPUs at once. Clients come and go during a walk, so only a difference found by two walks in a row is
// corrected.
type sources struct {
	walking bool
	quiet   bool    // the last walk found no client and no difference
	before  []int32 // the kernel's counters when the walk began
	found   []int32
	excess  []int32 // of the kernel's counters over the last walk
	keys    []uint32
}

func (s *sources) begin(m *ebpf.Map) error {
	if s.walking {
		return nil
	}
	if s.found == nil {
		s.before, s.found, s.excess = make([]int32, allSources+1), make([]int32, allSources+1), make([]int32, allSources+1)
		s.keys = make([]uint32, allSources+1)
	}
	if s.quiet { // the usual case: reading all counters takes a millisecond
		var all int32
		if err := m.Lookup(uint32(allSources), &all); err != nil {
			return fmt.Errorf("count undecided clients: %w", err)
		}
		if all == 0 {
			s.walking = true
			return nil
		}
	}
	clear(s.found)
	var cursor ebpf.MapBatchCursor
	if _, err := m.BatchLookup(&cursor, s.keys, s.before, nil); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
		return fmt.Errorf("count undecided clients: %w", err)
	}
	s.walking = true
	return nil
}

func (s *sources) count(key *routerTuple, salt uint32) {
	s.found[sourceOf(key, salt)]++
	s.found[allSources]++
}

// end calls correct for each counter to be changed.
func (s *sources) end(correct func(at uint32, by int32) error) error {
	s.walking = false
	s.quiet = s.found[allSources] == 0
	for i, before := range s.before {
		excess := before - s.found[i]
		s.quiet = s.quiet && excess == 0
		last := s.excess[i]
		s.excess[i] = excess
		by := int32(0)
		switch {
		case excess > 0 && last > 0:
			by = -min(excess, last)
		case excess < 0 && last < 0:
			by = -max(excess, last)
		}
		if by == 0 {
			continue
		}
		s.excess[i] = 0
		if err := correct(uint32(i), by); err != nil {
			return err
		}
	}
	return nil
}

// countSource adds to the counter of a source.
func (r *Router) countSource(at uint32, by int32) error {
	_, err := r.command(routerSpliceCommand{Kind: uint16(routerCommandKindCOMMAND_COUNT_SOURCE), First: at, Count: uint32(by)})
	return err
}
