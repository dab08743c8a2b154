package router

import "net/netip"

// These write one kind of table, for tests that run one packet at a time: by the product's own writers, but into the
// generation in force. A Put waits for RCU and writes every pool: with it the tests took three times as long.

func (r *Router) SetVIPs(vips map[netip.AddrPort]VIP) error {
	return r.writeVIPs(r.tables.generation, vips)
}

func (r *Router) SetRoutes(hosts []Host, routes []Route) error {
	return r.writeRoutes(r.tables.generation, hosts, routes)
}

func (r *Router) SetPool(id uint16, p Pool) error { return r.writePool(r.tables.generation, id, p) }

func (r *Router) SetZones(zones []Zone) error { return r.writeZones(r.tables.generation, zones) }

// SetTables is Put with the configuration in force.
func (r *Router) SetTables(t Tables) error {
	c, err := r.Config()
	if err != nil {
		return err
	}
	return r.Put(c, t)
}
