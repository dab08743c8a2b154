package state

import (
	"fmt"
	"net/netip"
	"slices"
	"sync/atomic"

	kernel "baton/datapath/router"
	"baton/router/choose"
	"baton/router/config"
	"baton/router/discover"
	"baton/router/fields"
	"baton/router/route"
)

// Compiled is a configuration with what only derives from it. It never changes: a reload compiles another.
type Compiled struct {
	Config   *config.Config
	Routes   *route.Table
	Numbered []*NumberedPool        // in the order of Config.Pools
	IDs      map[string]uint16      // surrogates' numbers in the data path, by name
	Names    map[uint16]string      // and the reverse
	VIPs     map[netip.AddrPort]int // index in Config.VIPs, but for those of QUIC
	QUICs    map[netip.AddrPort]int // index of those
	Fresh    []uint16               // surrogates' numbers that the previous configuration did not have
	Changes  discover.Changes       // by API, which Config has in it

	Kernel  *route.Kernel // what the data path looks up of Routes
	hosts   []kernel.Host // the same, by the data path's numbers
	routes  []kernel.Route
	routed  []map[string]bool // by VIP: names of the pools that its routes lead to
	watched [][]string        // by VIP: names of fields that requests to pools with fields must not have
}

// NumberedPool is a pool with its numbers in the data path.
type NumberedPool struct {
	Config *config.Pool
	Fields fields.Set
	ID     uint16
	IDs    []uint16 // of Config.Surrogates

	turn atomic.Uint64 // of round-robin choices
}

// Compile compiles a configuration; pools and surrogates known to n keep their numbers. The error is a *config.Error where a line of
// the file is to blame.
func Compile(cfg *config.Config, n *Numbers, changes discover.Changes) (*Compiled, error) {
	if err := Check(cfg); err != nil {
		return nil, err
	}
	routes, err := route.Compile(cfg)
	if err != nil {
		return nil, err
	}
	c := &Compiled{
		Config: cfg, Routes: routes, Changes: changes, Kernel: routes.Kernel(n.roomFor(cfg)), IDs: make(map[string]uint16), Names: make(map[uint16]string),
		VIPs: make(map[netip.AddrPort]int), QUICs: make(map[netip.AddrPort]int),
	}
	for i, v := range cfg.VIPs {
		c.watched = append(c.watched, cfg.ReplacedAt(&v))
		c.routed = append(c.routed, v.LeadsTo())
		if v.Protocol == config.QUIC {
			c.QUICs[v.Address] = i
		} else {
			c.VIPs[v.Address] = i
		}
	}
	if err := c.number(n); err != nil {
		return nil, fmt.Errorf("%s: %w", cfg.File, err)
	}
	c.numberRoutes()
	return c, nil
}

// numberRoutes makes the data path's routes, which no change of a surrogate's state changes.
func (c *Compiled) numberRoutes() {
	for _, h := range c.Kernel.Hosts {
		c.hosts = append(c.hosts, kernel.Host{VIP: h.VIP, Name: h.Host, ID: h.ID})
	}
	for i := range c.Kernel.Prefixes {
		p := &c.Kernel.Prefixes[i]
		r := kernel.Route{VIP: p.VIP, Host: p.HostID, Method: p.Method, Prefix: p.Prefix, Upcall: p.Upcall}
		if p.Method == route.AnyMethod {
			r.Method = kernel.AnyMethod
		}
		if !p.Upcall {
			r.Pool, r.Edit = c.Numbered[p.Pool].ID, c.Numbered[p.Pool].Edit(p.Rewrite)
		}
		c.routes = append(c.routes, r)
	}
}

// number gives pools and surrogates their numbers.
func (c *Compiled) number(n *Numbers) error {
	var all []config.Surrogate
	for _, p := range c.Config.Pools {
		all = append(all, p.Surrogates...)
	}
	pools, err := n.numberPools(c.Config.Pools)
	if err != nil {
		return err
	}
	surrogates, fresh, err := n.numberSurrogates(all)
	if err != nil {
		return err
	}
	c.Fresh = fresh
	for i := range c.Config.Pools {
		p := &NumberedPool{Config: &c.Config.Pools[i], Fields: fields.Of(&c.Config.Pools[i]), ID: pools[i]}
		p.IDs, surrogates = surrogates[:len(p.Config.Surrogates)], surrogates[len(p.Config.Surrogates):]
		for j, sg := range p.Config.Surrogates {
			c.IDs[sg.Name], c.Names[p.IDs[j]] = p.IDs[j], sg.Name
		}
		c.Numbered = append(c.Numbered, p)
	}
	return nil
}

// HandsOff reports whether the kernel splices sessions of a VIP.
func HandsOff(v *config.VIP) bool { return v.Mode == config.Handoff && v.Protocol != config.QUIC }

// HandedOff are the VIPs whose sessions the kernel splices.
func (c *Compiled) HandedOff() []netip.AddrPort {
	var out []netip.AddrPort
	for i := range c.Config.VIPs {
		if v := &c.Config.VIPs[i]; HandsOff(v) {
			out = append(out, v.Address)
		}
	}
	return out
}

// Splices reports whether sessions of some VIP may be spliced to a surrogate of a pool.
func (c *Compiled) Splices(pool string, sg *config.Surrogate) bool {
	for i := range c.Config.VIPs {
		if v := &c.Config.VIPs[i]; HandsOff(v) && config.Unspliced(v, sg) == "" && c.routed[i][pool] {
			return true
		}
	}
	return false
}

// VIP returns the configuration of a VIP, or nil. It knows none of QUIC.
func (c *Compiled) VIP(at netip.AddrPort) *config.VIP {
	if i, ok := c.VIPs[at]; ok {
		return &c.Config.VIPs[i]
	}
	return nil
}

// Keeps reports whether surrogates that a VIP routes to see their clients' own addresses.
func (c *Compiled) Keeps(v *config.VIP) bool {
	i, ok := c.VIPs[v.Address]
	return ok && slices.ContainsFunc(c.Numbered, func(p *NumberedPool) bool { return p.Config.Keeps() && c.routed[i][p.Config.Name] })
}

// Logs reports whether what a VIP's clients ask for goes into an access log.
func (c *Compiled) Logs(vip int) bool {
	return len(c.Config.Access) > 0 && !c.Config.VIPs[vip].Unlogged
}

// EachPool calls f for the pools of a VIP's routes.
func (c *Compiled) EachPool(vip int, f func(*NumberedPool)) {
	for _, p := range c.Numbered {
		if c.routed[vip][p.Config.Name] {
			f(p)
		}
	}
}

// PoolOf is the name of the pool that has a surrogate; "" if none has.
func (c *Compiled) PoolOf(surrogate string) string {
	for _, p := range c.Config.Pools {
		if slices.ContainsFunc(p.Surrogates, func(sg config.Surrogate) bool { return sg.Name == surrogate }) {
			return p.Name
		}
	}
	return ""
}

// AddressOf is a surrogate's address; the zero value if no pool has it.
func (c *Compiled) AddressOf(surrogate string) netip.AddrPort {
	for _, p := range c.Config.Pools {
		for i := range p.Surrogates {
			if p.Surrogates[i].Name == surrogate {
				return p.Surrogates[i].Address
			}
		}
	}
	return netip.AddrPort{}
}

// PolicyOf is a policy of a file as a pool has it in force; nil if it has none, or there is no snapshot.
func (s *Snapshot) PolicyOf(pool *config.Pool) *choose.Shared {
	if s == nil {
		return nil
	}
	for _, p := range s.Pools {
		if p.Config.Name == pool.Name {
			return p.shared
		}
	}
	return nil
}
