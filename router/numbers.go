package router

import (
	"fmt"
	"net/netip"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// numbers assigns the data path's numbers to pools and surrogates. Sessions carry them across reloads and restarts: a pool keeps
// its number by name and a surrogate by address, and no number in use is reassigned.
type numbers struct {
	pools      map[string]uint16   // by name, also of removed pools
	surrogates []numberedSurrogate // of the previous configuration
	inForce    map[uint16]bool     // pools of the previous configuration: sessions may still start with them
	held       func() (held, error)
}

type numberedSurrogate struct {
	name    string
	address netip.AddrPort
	id      uint16
}

// held are the numbers that splices carry.
type held struct {
	pools      map[uint16]bool
	surrogates []numberedSurrogate // without names
}

// heldBy reads the splices.
func heldBy(dp *kernel.Router) (held, error) {
	h := held{pools: make(map[uint16]bool)}
	seen := make(map[numberedSurrogate]bool)
	err := dp.EachSplice(func(s kernel.Splice) error {
		if s.State == kernel.Active || s.State == kernel.Closing {
			h.pools[s.Pool] = true
		}
		if sg := (numberedSurrogate{address: s.Server, id: s.Surrogate}); !seen[sg] {
			seen[sg] = true
			h.surrogates = append(h.surrogates, sg)
		}
		return nil
	})
	return h, err
}

// numberPools assigns each pool its number. A new pool gets one that was never assigned if possible, or else one that no session
// carries.
func (n *numbers) numberPools(pools []config.Pool) ([]uint16, error) {
	out, given, named := make([]uint16, len(pools)), make(map[uint16]bool), make(map[uint16]bool)
	for _, id := range n.pools {
		named[id] = true
	}
	anew := 0
	for i, p := range pools {
		id, ok := n.pools[p.Name]
		if !ok {
			anew++
			continue
		}
		out[i], given[id] = id, true
	}
	if anew == 0 {
		return out, nil
	}
	h, err := n.read()
	if err != nil {
		return nil, err
	}
	next := func(but ...map[uint16]bool) (uint16, bool) {
		return free(kernel.MaxPools, append(but, given, h.pools)...)
	}
	for i, p := range pools {
		if _, ok := n.pools[p.Name]; ok {
			continue
		}
		id, ok := next(named)
		if !ok {
			id, ok = next(n.inForce)
		}
		if !ok {
			return nil, fmt.Errorf("more than %d pools, including those of existing sessions", kernel.MaxPools)
		}
		out[i], given[id] = id, true
	}
	return out, nil
}

// numberSurrogates assigns each surrogate its number: first by name and address, as two may share an address.
func (n *numbers) numberSurrogates(surrogates []config.Surrogate) (ids []uint16, fresh []uint16, err error) {
	ids, done, given := make([]uint16, len(surrogates)), make([]bool, len(surrogates)), make(map[uint16]bool)
	adopt := func(known []numberedSurrogate, same func(k numberedSurrogate, s *config.Surrogate) bool) (left int) {
		for i := range surrogates {
			for _, k := range known {
				if !done[i] && !given[k.id] && same(k, &surrogates[i]) {
					ids[i], done[i], given[k.id] = k.id, true, true
				}
			}
			if !done[i] {
				left++
			}
		}
		return left
	}
	left := adopt(n.surrogates, func(k numberedSurrogate, s *config.Surrogate) bool { return k.name == s.Name && k.address == s.Address })
	if left == 0 {
		return ids, nil, nil
	}
	h, err := n.read()
	if err != nil {
		return nil, nil, err
	}
	known, taken := append(n.surrogates[:len(n.surrogates):len(n.surrogates)], h.surrogates...), make(map[uint16]bool)
	for _, k := range known {
		taken[k.id] = true
	}
	adopt(known, func(k numberedSurrogate, s *config.Surrogate) bool { return k.address == s.Address })
	for i := range surrogates {
		if done[i] {
			continue
		}
		id, ok := free(kernel.MaxSurrogates, given, taken)
		if !ok {
			return nil, nil, fmt.Errorf("more than %d surrogates, including those of existing sessions", kernel.MaxSurrogates)
		}
		ids[i], given[id] = id, true
		fresh = append(fresh, id)
	}
	return ids, fresh, nil
}

// read reads the splices once.
func (n *numbers) read() (held, error) {
	if n.held == nil {
		return held{}, nil
	}
	h, err := n.held()
	if err == nil {
		n.held = func() (held, error) { return h, nil }
	}
	return h, err
}

// free is the lowest number that is in none of the sets.
func free(limit int, sets ...map[uint16]bool) (uint16, bool) {
next:
	for id := range uint16(limit) {
		for _, set := range sets {
			if set[id] {
				continue next
			}
		}
		return id, true
	}
	return 0, false
}

// numbers returns the assignment in force before a reload.
func (s *state) numbers(dp *kernel.Router) (*numbers, error) {
	names, err := dp.PoolNames()
	if err != nil {
		return nil, err
	}
	n := &numbers{pools: names, inForce: make(map[uint16]bool), held: func() (held, error) { return heldBy(dp) }}
	for _, p := range s.pools {
		n.inForce[p.id] = true
		for i, sg := range p.cfg.Surrogates {
			n.surrogates = append(n.surrogates, numberedSurrogate{sg.Name, sg.Address, p.ids[i]})
		}
	}
	return n, nil
}

// keepNumbers stores the assignment in the data path, before any leg is opened under new numbers.
func (s *state) keepNumbers(dp *kernel.Router) error {
	names, err := dp.PoolNames()
	if err != nil {
		return err
	}
	for _, p := range s.pools {
		if id, ok := names[p.cfg.Name]; ok && id == p.id {
			continue
		}
		if err := dp.NamePool(p.id, p.cfg.Name); err != nil {
			return err
		}
	}
	for _, id := range s.fresh {
		if err := dp.ForgetSurrogate(id); err != nil {
			return err
		}
	}
	s.fresh = nil
	return nil
}
