package router

import (
	"fmt"
	"net/netip"

	"baton/datapath"
	"baton/router/config"
	"baton/router/legs"
)

// Sizes of segments.
const (
	ipv4Headers = 40 // bytes of IPv4 and TCP header without options
	ipv6Headers = 60
)

// mssClasses are the sizes that legs are opened with. A client gets legs of the largest that is not above what it told.
func mssClasses(mtu int) []uint16 {
	classes := []uint16{536, 1220, 1340, 1380, 1440, 1460}
	if jumbo := uint16(min(mtu, 65535) - ipv4Headers); jumbo > 1460 {
		if jumbo > 8000 {
			classes = append(classes, 4000)
		}
		classes = append(classes, jumbo)
	}
	return classes
}

// offeredMSS is told to the clients of a VIP: what fits the interfaces, and every surrogate of its pools.
func (s *state) offeredMSS(vip int, mtu int, facts func(id uint16) legs.Facts) uint16 {
	overhead := ipv4Headers
	if s.cfg.VIPs[vip].Address.Addr().Is6() {
		overhead = ipv6Headers
	}
	mss := uint16(min(mtu, 65535) - overhead)
	s.eachSurrogate(vip, func(id uint16) {
		if told := facts(id).MSS; told != 0 {
			mss = min(mss, told)
		}
	})
	return mss
}

// offersTS tells whether clients of a VIP are offered timestamps: every surrogate has to agree to them.
func (s *state) offersTS(vip int, facts func(id uint16) legs.Facts) bool {
	offered := true
	s.eachSurrogate(vip, func(id uint16) { offered = offered && !facts(id).NoTS })
	return offered
}

func (s *state) eachSurrogate(vip int, f func(id uint16)) {
	for _, r := range s.cfg.VIPs[vip].Routes {
		for i := range s.cfg.Pools {
			if s.cfg.Pools[i].Name == r.Pool {
				for _, id := range s.pools[i].ids {
					f(id)
				}
			}
		}
	}
}

// fillRoutes puts the routes into the kernel.
func (s *state) fillRoutes(dp *datapath.Router) error {
	var hosts []datapath.Host
	for _, h := range s.kernel.Hosts {
		hosts = append(hosts, datapath.Host{VIP: h.VIP, Name: h.Host, ID: h.ID})
	}
	var routes []datapath.Route
	for _, p := range s.kernel.Prefixes {
		routes = append(routes, datapath.Route{
			VIP: p.VIP, Host: p.HostID, Method: p.Method, Prefix: p.Prefix, Pool: p.Pool, Ask: p.Ask,
		})
	}
	return dp.SetRoutes(hosts, routes)
}

// fillPools puts what may be chosen now into the kernel. Zones have tables behind the pools' own.
func (s *state) fillPools(dp *datapath.Router, local func(surrogate string) bool) error {
	var zones []datapath.Zone
	nextTable := uint16(datapath.MaxPools)
	for i, p := range s.pools {
		if s.routes.Unchosen(i, p.cfg, local) != "" {
			if err := dp.SetPool(uint16(i), datapath.Pool{Policy: datapath.Ask}); err != nil {
				return err
			}
			continue
		}
		c := p.choices.Load()
		ids := func(table []uint16) []uint16 {
			out := make([]uint16, len(table))
			for j, at := range table {
				out[j] = p.ids[at]
			}
			return out
		}
		k := datapath.Pool{Table: ids(c.table)}
		switch p.cfg.Policy {
		case config.Hash:
			k.Policy = datapath.Hash
		case config.LeastSessions:
			k.Policy, k.Members, k.Table = datapath.Least, k.Table, nil
		case config.Nearest:
			k.Policy = datapath.Nearest
			for _, z := range c.zones {
				if err := dp.SetTable(nextTable, ids(z.Table)); err != nil {
					return err
				}
				zones = append(zones, datapath.Zone{Pool: uint16(i), Prefix: z.Prefix, Table: nextTable})
				nextTable++
			}
		default:
			k.Policy = datapath.Turns
		}
		if err := dp.SetPool(uint16(i), k); err != nil {
			return err
		}
	}
	return dp.SetZones(zones)
}

// fillVIPs puts the VIPs into the kernel, last: from then on clients are answered.
func (s *state) fillVIPs(dp *datapath.Router, mtu int, facts func(id uint16) legs.Facts) error {
	named := make(map[uint16]bool)
	for _, h := range s.kernel.Hosts {
		named[h.VIP] = true
	}
	vips := make(map[netip.AddrPort]datapath.VIP)
	for i, v := range s.cfg.VIPs {
		k := datapath.VIP{ID: uint16(i), Local: v.Mode != config.Handoff}
		k.MSS = s.offeredMSS(i, mtu, facts)
		k.NoTS = !s.offersTS(i, facts)
		k.NoHosts = !named[uint16(i)]
		k.Pool, k.OnePool = s.kernel.OnePool(uint16(i))
		vips[v.Address] = k
	}
	if err := dp.SetVIPs(vips); err != nil {
		return fmt.Errorf("open the VIPs: %w", err)
	}
	return nil
}
