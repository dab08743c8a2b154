package datapath

import (
	"errors"
	"slices"
	"sync"

	"github.com/cilium/ebpf"
)

// Paths are the interfaces of the routes to surrogates, in a kernel's map with a key of type K for each. It remembers
// them: a walk through the map for each surrogate would take time by their square.
type Paths[S comparable, K any] struct {
	Key  func(surrogate S, ifindex int) K
	Read func(key *K) (surrogate S, ifindex int) // the reverse

	mu sync.Mutex
	of map[S][]int // nil: what an earlier process has set is not read yet
}

// Replace replaces the interfaces of a surrogate.
func (p *Paths[S, K]) Replace(m *ebpf.Map, surrogate S, ifindexes []int) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return errors.Join(p.readLocked(m), p.replaceLocked(m, surrogate, ifindexes))
}

// Keep removes the interfaces of all other surrogates.
func (p *Paths[S, K]) Keep(m *ebpf.Map, used map[S]bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	err := p.readLocked(m)
	for surrogate := range p.of {
		if !used[surrogate] {
			err = errors.Join(err, p.replaceLocked(m, surrogate, nil))
		}
	}
	return err
}

func (p *Paths[S, K]) readLocked(m *ebpf.Map) error {
	if p.of != nil {
		return nil
	}
	p.of = make(map[S][]int)
	var k K
	var v uint8
	it := m.Iterate()
	for it.Next(&k, &v) {
		surrogate, ifindex := p.Read(&k)
		p.of[surrogate] = append(p.of[surrogate], ifindex)
	}
	return it.Err()
}

func (p *Paths[S, K]) replaceLocked(m *ebpf.Map, surrogate S, ifindexes []int) (err error) {
	for _, i := range ifindexes {
		err = errors.Join(err, m.Update(p.Key(surrogate, i), uint8(1), ebpf.UpdateAny))
	}
	for _, i := range p.of[surrogate] {
		if slices.Contains(ifindexes, i) {
			continue
		}
		if gone := m.Delete(p.Key(surrogate, i)); !errors.Is(gone, ebpf.ErrKeyNotExist) {
			err = errors.Join(err, gone)
		}
	}
	switch {
	case err != nil: // what was there may be there still
	case len(ifindexes) == 0:
		delete(p.of, surrogate)
	default:
		p.of[surrogate] = slices.Clone(ifindexes)
	}
	return err
}
