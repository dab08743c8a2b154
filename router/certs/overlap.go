package certs

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"baton/document"
	"baton/packet/hello"
	"baton/router/config"
	"baton/router/route"
)

// browser offers what browsers do.
var browser = hello.Protocols("\x02h2\x08http/1.1")

// pair is two pools at an address.
type pair struct {
	vip         netip.AddrPort
	pool, other int // as in the file, pool < other
}

// overlap is what is known of a pair.
type overlap struct {
	names    map[string]bool // of the certificates
	from, to example
}

// example is a name and the pool that its sessions go to.
type example struct {
	name string
	pool int
}

// overlaps finds the pools to whose surrogates browsers would send another pool's requests: they reuse a connection of HTTP/2 or HTTP/3 for
// each name that resolves to the same address and that the certificate covers. The certificate of one pool is enough for that.
func (r *Report) overlaps(cfg *config.Config, routes *route.Table, shown map[string][]Seen) {
	found := make(map[pair]*overlap)
	for i := range cfg.Pools {
		done := make(map[string]bool) // surrogates of a pool mostly have the same certificate
		for _, s := range shown[cfg.Pools[i].Name] {
			if s.Leaf == nil || s.Protocol != "h2" && !s.HTTP3 || done[s.Name+"\x00"+string(s.Leaf.Raw)] {
				continue
			}
			done[s.Name+"\x00"+string(s.Leaf.Raw)] = true
			for _, group := range addresses(cfg) {
				strays(cfg, routes, i, &s, group, found)
			}
		}
	}
	for _, p := range slices.SortedFunc(maps.Keys(found), func(a, b pair) int {
		if a.vip != b.vip {
			return a.vip.Compare(b.vip)
		}
		return (a.pool-b.pool)*len(cfg.Pools) + a.other - b.other
	}) {
		o := found[p]
		names := slices.Sorted(maps.Keys(o.names))
		a, b := cfg.Pools[p.pool].Name, cfg.Pools[p.other].Name
		r.Overlaps = append(r.Overlaps, Overlap{VIP: p.vip, Pool: a, Other: b, Names: names})
		r.warn(cfg, document.Join("pools", a), fmt.Sprintf(
			"overlap of pools %s and %s by %s: at VIP %s browsers may send requests for %s, which belong to pool %s, over a connection for %s to pool %s",
			document.Clip(a), document.Clip(b), strings.Join(names, ", "), p.vip, o.to.name, cfg.Pools[o.to.pool].Name, o.from.name, cfg.Pools[o.from.pool].Name))
	}
}

// addresses groups the encrypted VIPs by their address and port, at which clients may reuse a connection.
func addresses(cfg *config.Config) map[netip.AddrPort][]int {
	groups := make(map[netip.AddrPort][]int)
	for i := range cfg.VIPs {
		if v := &cfg.VIPs[i]; v.Protocol.Encrypted() {
			groups[v.Address] = append(groups[v.Address], i)
		}
	}
	return groups
}

// strays finds the names that a certificate of the pool covers and the VIPs' routes send to another pool.
func strays(cfg *config.Config, routes *route.Table, pool int, s *Seen, vips []int, found map[pair]*overlap) {
	var own string // a name for which a client would connect to the pool
	if goes(routes, vips, s.Name)[pool] {
		own = shownName(s)
	}
	type stray struct {
		example
		pattern string
	}
	var away []stray
	for _, pattern := range s.Leaf.DNSNames {
		pattern = hello.Canonical(pattern)
		for name, shown := range witnesses(cfg, vips, pattern) {
			for to := range goes(routes, vips, name) {
				if to != pool {
					away = append(away, stray{example{shown, to}, pattern})
				} else if s.Name == "" && (own == "" || shown < own) {
					own = shown
				}
			}
		}
	}
	if own == "" {
		return
	}
	slices.SortFunc(away, func(a, b stray) int { return strings.Compare(a.name, b.name) })
	for _, stray := range away {
		p := pair{cfg.VIPs[vips[0]].Address, min(pool, stray.pool), max(pool, stray.pool)}
		if found[p] == nil {
			found[p] = &overlap{names: make(map[string]bool), from: example{own, pool}, to: stray.example}
		}
		found[p].names[stray.pattern] = true
	}
}

func shownName(s *Seen) string {
	if s.MadeUp {
		return s.Route
	}
	return s.Name
}

// witnesses are names that a certificate's name covers, one for each way in which the routes may tell them apart, and how to show them.
func witnesses(cfg *config.Config, vips []int, pattern string) map[string]string {
	suffix, wildcard := strings.CutPrefix(pattern, "*")
	if !wildcard {
		return map[string]string{pattern: pattern}
	}
	out := map[string]string{madeUp + suffix: pattern}
	for _, vip := range vips {
		for _, r := range cfg.VIPs[vip].Routes {
			if hello.Match(pattern, r.Match.SNI) && !strings.HasPrefix(r.Match.SNI, "*") {
				out[r.Match.SNI] = r.Match.SNI
			}
		}
	}
	return out
}

// goes lists the pools that the VIPs' routes send a browser's hello to.
func goes(routes *route.Table, vips []int, name string) map[int]bool {
	pools := make(map[int]bool)
	if name == "" {
		return pools
	}
	for _, vip := range vips {
		if to, ok := routes.MatchHello(vip, &hello.Hello{ServerName: name, Protocols: browser}); ok {
			pools[to.Pool] = true
		}
	}
	return pools
}
