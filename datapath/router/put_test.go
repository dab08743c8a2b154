package router

import (
	"maps"
	"net/netip"
)

// These put tables one kind at a time, for tests, as the product does: by Put, with the configuration in force.

func (r *Router) SetTables(t Tables) error {
	c, err := r.Config()
	if err != nil {
		return err
	}
	return r.Put(c, t)
}

func (r *Router) SetVIPs(vips map[netip.AddrPort]VIP) error {
	t := r.tables.inForce
	t.VIPs = vips
	return r.SetTables(t)
}

func (r *Router) SetRoutes(hosts []Host, routes []Route) error {
	t := r.tables.inForce
	t.Hosts, t.Routes = hosts, routes
	return r.SetTables(t)
}

func (r *Router) SetPool(id uint16, p Pool) error {
	t := r.tables.inForce
	if t.Pools = maps.Clone(t.Pools); t.Pools == nil {
		t.Pools = make(map[uint16]Pool)
	}
	t.Pools[id] = p
	return r.SetTables(t)
}

func (r *Router) SetZones(zones []Zone) error {
	t := r.tables.inForce
	t.Zones = zones
	return r.SetTables(t)
}
