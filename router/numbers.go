package router

import (
	kernel "baton/datapath/router"
	"baton/router/state"
)

// numbersInForce reads the numbers in force, which a next configuration keeps. c is nil before the first.
func numbersInForce(dp *kernel.Router, c *state.Compiled) (*state.Numbers, error) {
	names, err := dp.PoolNames()
	if err != nil {
		return nil, err
	}
	if c == nil { // only sessions carry numbers
		c = new(state.Compiled)
	}
	n := c.Numbers(names, func() (state.Carried, error) { return carriedNumbers(dp) })
	n.Hosts = dp.Hosts()
	return n, nil
}

// carriedNumbers reads the numbers that splices carry.
func carriedNumbers(dp *kernel.Router) (state.Carried, error) {
	out := state.Carried{Pools: make(map[uint16]bool)}
	seen := make(map[state.NumberedSurrogate]bool)
	err := dp.EachSplice(func(s kernel.Splice) error {
		if s.State == kernel.Active || s.State == kernel.Closing {
			out.Pools[s.Pool] = true
		}
		if sg := (state.NumberedSurrogate{Address: s.Server, ID: s.Surrogate}); !seen[sg] {
			seen[sg] = true
			out.Surrogates = append(out.Surrogates, sg)
		}
		return nil
	})
	return out, err
}

// storeNumbers stores the names of a configuration's pools by their numbers in the data path, before any leg is opened under new ones.
func storeNumbers(dp *kernel.Router, c *state.Compiled) error {
	names, err := dp.PoolNames()
	if err != nil {
		return err
	}
	for _, p := range c.Numbered {
		if id, ok := names[p.Config.Name]; ok && id == p.ID {
			continue
		}
		if err := dp.NamePool(p.ID, p.Config.Name); err != nil {
			return err
		}
	}
	return nil
}

// forgetSurrogates clears what the data path has counted under numbers that are given again.
func forgetSurrogates(dp *kernel.Router, ids []uint16) error {
	for _, id := range ids {
		if err := dp.ForgetSurrogate(id); err != nil {
			return err
		}
	}
	return nil
}
