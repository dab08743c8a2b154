package state

import (
	"fmt"
	"net/netip"

	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/route"
)

// Numbers assigns the data path's numbers to pools and surrogates. Sessions carry them across reloads and restarts: a pool
// keeps its number by name and a surrogate by address, and no number in use is reassigned.
type Numbers struct {
	Pools      map[string]uint16       // by name, also of removed pools
	Surrogates []NumberedSurrogate     // of the previous configuration
	InForce    map[uint16]bool         // pools of the previous configuration: sessions may still start with them
	Carried    func() (Carried, error) // reads the data path; nil: no session carries a number
	Hosts      int                     // for which the data path has room; 0: there is none yet
}

// roomFor is the data path's room for routes; without one that of the data path that a configuration makes.
func (n *Numbers) roomFor(cfg *config.Config) route.Room {
	if n.Hosts == 0 {
		return route.RoomFor(cfg)
	}
	return route.RoomOf(n.Hosts)
}

// NumberedSurrogate is a surrogate with its number in the data path.
type NumberedSurrogate struct {
	Name    string
	Address netip.AddrPort
	ID      uint16
}

// Carried are the numbers that splices carry.
type Carried struct {
	Pools      map[uint16]bool
	Surrogates []NumberedSurrogate // without names
}

// numberPools assigns each pool its number. A new pool gets one that was never assigned if possible, or else one that no session
// carries.
func (n *Numbers) numberPools(pools []config.Pool) ([]uint16, error) {
	out, given, named := make([]uint16, len(pools)), make(map[uint16]bool), make(map[uint16]bool)
	for _, id := range n.Pools {
		named[id] = true
	}
	anew := 0
	for i, p := range pools {
		id, ok := n.Pools[p.Name]
		if !ok {
			anew++
			continue
		}
		out[i], given[id] = id, true
	}
	if anew == 0 {
		return out, nil
	}
	h, err := n.readCarried()
	if err != nil {
		return nil, err
	}
	next := func(but ...map[uint16]bool) (uint16, bool) {
		return lowestFree(kernel.MaxPools, append(but, given, h.Pools)...)
	}
	for i, p := range pools {
		if _, ok := n.Pools[p.Name]; ok {
			continue
		}
		id, ok := next(named)
		if !ok {
			id, ok = next(n.InForce)
		}
		if !ok {
			return nil, fmt.Errorf("more than %d pools, including those of existing sessions", kernel.MaxPools)
		}
		out[i], given[id] = id, true
	}
	return out, nil
}

// numberSurrogates assigns each surrogate its number: first by name and address, as two may share an address.
func (n *Numbers) numberSurrogates(surrogates []config.Surrogate) (ids []uint16, fresh []uint16, err error) {
	ids, done, given := make([]uint16, len(surrogates)), make([]bool, len(surrogates)), make(map[uint16]bool)
	adopt := func(known []NumberedSurrogate, same func(k NumberedSurrogate, s *config.Surrogate) bool) (left int) {
		for i := range surrogates {
			for _, k := range known {
				if !done[i] && !given[k.ID] && same(k, &surrogates[i]) {
					ids[i], done[i], given[k.ID] = k.ID, true, true
				}
			}
			if !done[i] {
				left++
			}
		}
		return left
	}
	left := adopt(n.Surrogates, func(k NumberedSurrogate, s *config.Surrogate) bool { return k.Name == s.Name && k.Address == s.Address })
	if left == 0 {
		return ids, nil, nil
	}
	h, err := n.readCarried()
	if err != nil {
		return nil, nil, err
	}
	known, taken := append(n.Surrogates[:len(n.Surrogates):len(n.Surrogates)], h.Surrogates...), make(map[uint16]bool)
	for _, k := range known {
		taken[k.ID] = true
	}
	adopt(known, func(k NumberedSurrogate, s *config.Surrogate) bool { return k.Address == s.Address })
	for i := range surrogates {
		if done[i] {
			continue
		}
		id, ok := lowestFree(kernel.MaxSurrogates, given, taken)
		if !ok {
			return nil, nil, fmt.Errorf("more than %d surrogates, including those of existing sessions", kernel.MaxSurrogates)
		}
		ids[i], given[id] = id, true
		fresh = append(fresh, id)
	}
	return ids, fresh, nil
}

// readCarried reads the splices once.
func (n *Numbers) readCarried() (Carried, error) {
	if n.Carried == nil {
		return Carried{}, nil
	}
	h, err := n.Carried()
	if err == nil {
		n.Carried = func() (Carried, error) { return h, nil }
	}
	return h, err
}

// lowestFree is the lowest number that is in none of the sets.
func lowestFree(limit int, sets ...map[uint16]bool) (uint16, bool) {
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

// Numbers are those in force, for the next configuration.
// names are the pools' numbers that the data path has stored, also of removed pools.
func (c *Compiled) Numbers(names map[string]uint16, carried func() (Carried, error)) *Numbers {
	n := &Numbers{Pools: names, InForce: make(map[uint16]bool), Carried: carried}
	for _, p := range c.Numbered {
		n.InForce[p.ID] = true
		for i, sg := range p.Config.Surrogates {
			n.Surrogates = append(n.Surrogates, NumberedSurrogate{sg.Name, sg.Address, p.IDs[i]})
		}
	}
	return n
}
