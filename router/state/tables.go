package state

import (
	"net/netip"

	kernel "baton/datapath/router"
	"baton/router/config"
	"baton/router/legs"
	"baton/router/route"
)

// Segment sizes.
const (
	ipv4Headers = 40 // bytes of IPv4 and TCP headers without options
	ipv6Headers = 60
)

// MSSClasses are the MSS values of legs. A client gets legs of the largest that is at most its own.
func MSSClasses(mtu int) []uint16 {
	classes := []uint16{536, 1220, 1340, 1380, 1440, 1460}
	if jumbo := uint16(min(mtu, 65535) - ipv4Headers); jumbo > 1460 {
		if jumbo > 8000 {
			classes = append(classes, 4000)
		}
		classes = append(classes, jumbo)
	}
	return classes
}

// offeredMSS is the MSS advertised to clients of a VIP: what fits the interfaces, and every surrogate of its pools.
func (s *Snapshot) offeredMSS(vip int, mtu int, facts func(id uint16) legs.Facts) uint16 {
	overhead := ipv4Headers
	if s.Config.VIPs[vip].Address.Addr().Is6() {
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

// offersTS reports whether to offer timestamps to clients of a VIP: every surrogate must support them.
func (s *Snapshot) offersTS(vip int, facts func(id uint16) legs.Facts) bool {
	offered := true
	s.eachSurrogate(vip, func(id uint16) { offered = offered && !facts(id).NoTS })
	return offered
}

// eachSurrogate calls f with the numbers of the surrogates that a VIP routes to.
func (s *Snapshot) eachSurrogate(vip int, f func(id uint16)) {
	s.EachPool(vip, func(p *NumberedPool) {
		for _, id := range p.IDs {
			f(id)
		}
	})
}

// Tables are the kernel's tables for the surrogates that are available now.
func (s *Snapshot) Tables(mtu int, facts func(id uint16) legs.Facts, local func(surrogate string) bool) kernel.Tables {
	t := kernel.Tables{VIPs: s.vipTables(mtu, facts), Hosts: s.hosts, Routes: s.routes, Pools: make(map[uint16]kernel.Pool)}
	for i, p := range s.Pools {
		t.Pools[p.ID] = s.poolTable(&t, i, local)
	}
	s.addPolicyTables(&t, local)
	return t
}

// poolTable is the kernel's part of a pool, whose zones it adds. That of a policy of a file is filled in later.
func (s *Snapshot) poolTable(t *kernel.Tables, i int, local func(surrogate string) bool) kernel.Pool {
	p := s.Pools[i]
	zones := p.zones // even if a surrogate is on this host, so that the others' zones keep their places
	if s.Routes.Unchosen(i, p.Config, func(string) bool { return false }) != "" {
		zones = nil
	}
	for _, z := range zones {
		t.Zones = append(t.Zones, kernel.Zone{Pool: p.ID, Prefix: z.Prefix, Table: p.numbersOf(z.Table)})
	}
	k := kernel.Pool{Table: p.numbersOf(p.table)}
	switch p.Config.Policy {
	case config.Hash:
		k.Policy = kernel.Hash
	case config.LeastSessions:
		k.Policy, k.Members, k.Table = kernel.Least, k.Table, nil
	case config.Nearest:
		k.Policy = kernel.Nearest
	case config.FromFile:
		k.Policy = kernel.Upcall
	default:
		k.Policy = kernel.RoundRobin
	}
	if s.Routes.Unchosen(i, p.Config, local) != "" {
		k = kernel.Pool{Policy: kernel.Upcall}
	}
	switch p.Config.Reuse {
	case config.ReuseSafe:
		k.Reuse = kernel.ReuseSafe
	case config.ReuseNever:
		k.Reuse = kernel.ReuseNever
	}
	k.Header, k.Edit = p.header()
	return k
}

// header is how the pool's surrogates learn their clients from the kernel.
func (p *NumberedPool) header() (kernel.Header, kernel.Edit) {
	switch {
	case p.Config.HasFields():
		return kernel.NoHeader, kernel.Edit{Fields: p.Fields.Text()}
	case p.Config.ClientAddress == config.ProxyV1:
		return kernel.ProxyV1, kernel.Edit{}
	case p.Config.ClientAddress == config.ProxyV2:
		return kernel.ProxyV2, kernel.Edit{}
	}
	return kernel.NoHeader, kernel.Edit{}
}

// Edit is how requests of a route to the pool change, instead of what the pool itself asks for; none without a rewrite.
func (p *NumberedPool) Edit(r config.Rewrite) kernel.Edit {
	if r == (config.Rewrite{}) {
		return kernel.Edit{}
	}
	return kernel.Edit{Fields: p.Fields.Text(), Strip: r.Strip, Prefix: r.Prefix, Host: r.Host}
}

// numbersOf converts indices into the pool's surrogates to the data path's numbers.
func (p *NumberedPool) numbersOf(table []uint16) []uint16 {
	out := make([]uint16, len(table))
	for j, at := range table {
		out[j] = p.IDs[at]
	}
	return out
}

func (s *Snapshot) vipTables(mtu int, facts func(id uint16) legs.Facts) map[netip.AddrPort]kernel.VIP {
	named := make(map[uint16]bool)
	for _, h := range s.hosts {
		named[h.VIP] = true
	}
	vips := make(map[netip.AddrPort]kernel.VIP)
	for i, v := range s.Config.VIPs {
		if v.Protocol == config.QUIC {
			continue
		}
		k := kernel.VIP{ID: uint16(i), Local: v.Mode != config.Handoff, Hold: v.Pipelining == config.PipeliningHold, TLS: v.Protocol.Encrypted()}
		k.Log = !k.Local && s.Logs(i)
		if !k.Local {
			copy(k.Watch[:], s.watched[i]) // package config allows no more than fit
		}
		k.MSS = s.offeredMSS(i, mtu, facts)
		k.NoTS = !s.offersTS(i, facts)
		k.NoHosts = !named[uint16(i)]
		if pool, ok := s.Kernel.OnePool(i); ok {
			k.Pool, k.OnePool = s.Pools[pool].ID, true
		}
		vips[v.Address] = k
	}
	return vips
}

// addPolicyTables fills in what the kernel can choose by policies of files, as far as there are tables left.
func (s *Snapshot) addPolicyTables(t *kernel.Tables, local func(surrogate string) bool) {
	tables, zones := 0, len(t.Zones)
	for i, p := range s.Pools {
		if p.Config.Policy == config.Nearest && s.Routes.Unchosen(i, p.Config, func(string) bool { return false }) == "" {
			tables += route.ZoneTables(p.Config)
		}
	}
	for i, p := range s.Pools {
		if p.shared == nil || s.Routes.Unchosen(i, p.Config, local) != "" {
			continue
		}
		k := t.Pools[p.ID]
		if len(p.tables.Turns) > 0 {
			k.Policy, k.Table = kernel.RoundRobin, p.numbersOf(p.tables.Turns)
		}
		if need := min(len(p.tables.Zones), len(p.IDs)+1); need > 0 && tables+need <= kernel.MaxZoneTables && zones+len(p.tables.Zones) <= kernel.MaxZones {
			tables, zones = tables+need, zones+len(p.tables.Zones)
			k.Policy = kernel.Nearest
			for _, z := range p.tables.Zones {
				t.Zones = append(t.Zones, kernel.Zone{Pool: p.ID, Prefix: z.Prefix, Table: p.numbersOf(z.Table)})
			}
		}
		t.Pools[p.ID] = k
	}
}
