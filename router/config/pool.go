package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"

	"baton/document"
)

const (
	defaultLegsMin  = 16
	defaultLegsMax  = 4096
	defaultLegsIdle = 45 * time.Second // below the 60 s for which nginx, and Apache behind a default load balancer, keep idle connections

	// defaultLegsHandshake covers most distant clients: a surrogate with BBR tolerates twice as much.
	defaultLegsHandshake = 150 * time.Millisecond
	maxLegsHandshake     = 500 * time.Millisecond // a surrogate retransmits its SYN-ACK after a second

	// maxLegs is the number of local ports from one address towards one surrogate, with some left for other programs.
	maxLegs    = 60000
	maxSources = 16

	maxWeight = 256

	maxSurrogates = 1021 // slots of a pool's table in the kernel
	maxPoolName   = 128  // bytes kept in the kernel's state

	defaultHealthInterval = 2 * time.Second
	defaultHealthTimeout  = time.Second
	defaultHealthRise     = 2
	defaultHealthFall     = 3
	maxHealthCount        = 1000
)

func (d *decoder) pools(path string, n *node) []Pool {
	if n.Kind != document.Mapping || len(n.Fields) == 0 {
		d.Wrong(n, path, "is "+n.Kind.String(), "a mapping from the name of a pool to the pool")
		return nil
	}
	d.AtMost(path, n, maxPools)
	pools := make([]Pool, 0, len(n.Fields))
	d.Entries(path, n, func(at, name string, n *node) {
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			d.Refuse(at, "is not the name of a pool", "printable text")
		}
		if len(name) > maxPoolName {
			d.Refuse(at, fmt.Sprintf("is longer than %d bytes", maxPoolName), "a shorter name")
		}
		if n.Kind == document.Null {
			d.Refuse(at, "has no value", "a pool with its surrogates")
		}
		pools = append(pools, d.pool(at, name, n))
	})
	return pools
}

func (d *decoder) pool(path, name string, n *node) Pool {
	p := Pool{
		Name: name, Policy: RoundRobin, Reuse: ReuseAlways, Source: SourceRouter, Line: d.Place(path).Line,
		Legs: Legs{Mode: LegsReady, Min: defaultLegsMin, Max: defaultLegsMax, Idle: defaultLegsIdle, Handshake: defaultLegsHandshake},
	}
	d.Fields(path, n, []key{
		{Name: "policy", Default: "round-robin", Help: "how a surrogate is chosen; a mapping: by the policy of a file",
			Decode: func(path string, n *node) { d.policy(path, n, &p) }},
		{Name: "hash_query", Help: "policy hash: hash these query parameters instead of the path",
			Decode: func(path string, n *node) { p.HashQuery = document.Distinct(d.Decoder, path, n, d.Text) }},
		{Name: "nearest", Help: "policy nearest: surrogates by prefix of the client, best first", Decode: func(path string, n *node) {
			d.NonEmptyList(path, n, func(at string, n *node) { p.Nearest = append(p.Nearest, d.zone(at, n)) })
		}},
		{Name: "legs", Help: "connections to the surrogates", Decode: func(path string, n *node) { d.legs(path, n, &p.Legs) }},
		{Name: "reuse", Default: "always", Help: "which requests may use a leg that has served another client", Decode: func(path string, n *node) {
			p.Reuse = Reuse(d.Choice(path, n, "is not a kind of reuse", string(ReuseAlways), string(ReuseSafe), string(ReuseNever)))
		}},
		{Name: "client_address", Help: "how surrogates learn the client: proxy-v1, proxy-v2, x-forwarded-for, forwarded, x-real-ip or another field (default: not)",
			Decode: func(path string, n *node) { p.ClientAddress = d.clientAddress(path, n) }},
		{Name: "client_address_mode", Default: "replace", Help: "whether a client's own field of that name is removed, or stays in front of the router's",
			Decode: func(path string, n *node) { p.AddressMode = d.addressMode(path, n) }},
		{Name: "add_fields", Help: "more fields for each request, which replace the client's own",
			Decode: func(path string, n *node) { p.AddFields = document.Distinct(d.Decoder, path, n, d.addedField) }},
		{Name: "health", Help: "checks of the surrogates (default: connections alone tell)", Decode: func(path string, n *node) { p.Health = d.health(path, n) }},
		{Name: "source", Default: "router", Help: "where surrogates see sessions come from: the router, or keep: the client itself", Decode: func(path string, n *node) {
			p.Source = Source(d.Choice(path, n, "is not a source", string(SourceRouter), string(SourceKeep)))
		}},
		{Name: "server_id", Help: "what surrogates write into QUIC's connection ids, so that clients can change networks",
			Decode: func(path string, n *node) { p.ServerID = d.serverID(path, n) }},
		{Name: "surrogates", Help: "the servers; not needed with discover", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxSurrogates)
			d.NonEmptyList(path, n, func(at string, n *node) { p.Surrogates = append(p.Surrogates, d.surrogate(at, n)) })
		}},
		{Name: "discover", Help: "where more surrogates are found", Decode: func(path string, n *node) { p.Discover = d.discover(path, n) }},
	})
	if !d.Given(document.Join(path, "discover")) {
		d.Require(path, n, "surrogates")
	}
	switch {
	case p.HashQuery != nil && p.Policy != Hash:
		d.Wrong(n, document.Join(path, "hash_query"), "is for policy hash alone", "policy: hash")
	case p.Nearest != nil && !p.Policy.HasZones():
		d.Wrong(n, document.Join(path, "nearest"), "is for policy nearest, or one of a file", "policy: nearest")
	case p.Nearest == nil && p.Policy == Nearest && !slices.ContainsFunc(p.Discover, func(s Discover) bool { return s.Kind == DiscoverController }):
		d.Wrong(n, document.Join(path, "nearest"), "is missing", "policy nearest needs its list of {prefix, surrogates}, or discover: {controller: ...}")
	}
	d.checkAddress(path, &p)
	d.zones(path, n, &p)
	d.checkSources(path, &p)
	return p
}

func (d *decoder) zone(path string, n *node) Zone {
	var z Zone
	d.Fields(path, n, []key{
		{Name: "prefix", Help: "of clients", Decode: func(path string, n *node) { z.Prefix = d.Prefix(path, n) }},
		{Name: "surrogates", Help: "names, best first", Decode: func(path string, n *node) { z.Surrogates = document.Distinct(d.Decoder, path, n, d.Text) }},
	})
	d.Require(path, n, "prefix", "surrogates")
	return z
}

// zones checks the zones against the pool's surrogates and sorts them by prefix length.
func (d *decoder) zones(path string, n *node, p *Pool) {
	names := p.names()
	seen := make(map[netip.Prefix]bool, len(p.Nearest))
	for i, z := range p.Nearest {
		at := fmt.Sprintf("%s.nearest[%d]", path, i)
		if z.Prefix.IsValid() && seen[z.Prefix] {
			d.Refuse(at+".prefix", z.Prefix.String()+" is there twice", "a zone for each prefix")
		}
		seen[z.Prefix] = true
		for j, name := range z.Surrogates {
			if len(p.Discover) > 0 { // it may appear
				continue
			}
			d.Refer(fmt.Sprintf("%s.surrogates[%d]", at, j), name, "is not a surrogate of this pool", "", path+".surrogates", names)
		}
	}
	slices.SortStableFunc(p.Nearest, func(a, b Zone) int { return b.Prefix.Bits() - a.Prefix.Bits() })
}

// PoolNames are the names of the pools.
func (c *Config) PoolNames() (names []string) {
	for i := range c.Pools {
		names = append(names, c.Pools[i].Name)
	}
	return names
}

// Surrogates are the names of the surrogates of all pools.
func (c *Config) Surrogates() (names []string) {
	for i := range c.Pools {
		names = append(names, c.Pools[i].names()...)
	}
	return names
}

// names are those of the surrogates in the file.
func (p *Pool) names() []string {
	names := make([]string, len(p.Surrogates))
	for i, s := range p.Surrogates {
		names[i] = s.Name
	}
	return names
}

func (d *decoder) legs(path string, n *node, out *Legs) {
	minSet := false
	d.Fields(path, n, []key{
		{Name: "mode", Default: "ready", Help: "whether idle legs are kept ready, or each is opened when it is needed", Decode: func(path string, n *node) {
			out.Mode = LegsMode(d.Choice(path, n, "is not a mode of legs", string(LegsReady), string(LegsOnDemand)))
		}},
		{Name: "min", Default: "16", Help: "idle legs kept ready per surrogate",
			Decode: func(path string, n *node) { out.Min, minSet = d.Integer(path, n, 0, maxSources*maxLegs), true }},
		{Name: "max", Default: "4096", Help: "legs per surrogate, idle and in use; at most 60000 for each of sources",
			Decode: func(path string, n *node) { out.Max = d.Integer(path, n, 1, maxSources*maxLegs) }},
		{Name: "idle", Default: "45s", Help: "idle legs are renewed after this time", Decode: func(path string, n *node) { out.Idle = d.Duration(path, n) }},
		{Name: "handshake", Default: "150ms", Help: "delay of the handshake's last ACK, from 0 to 500ms, so that the server's RTT estimate suits distant clients",
			Decode: func(path string, n *node) { out.Handshake = d.delay(path, n, maxLegsHandshake) }},
		{Name: "requests", Default: "0", Help: "a leg is renewed after this many requests; 0: learnt from the surrogates",
			Decode: func(path string, n *node) { out.Requests = d.Integer(path, n, 0, 1<<31-1) }},
		{Name: "sources", Help: "up to 16 addresses of this host that legs start from (default: the route's)", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxSources)
			out.Sources = document.Distinct(d.Decoder, path, n, d.source)
		}},
	})
	if most := maxLegs * max(1, len(out.Sources)); d.Err() == nil && out.Max > most {
		d.WrongAt(d.Place(document.Join(path, "max")), document.Join(path, "max"), fmt.Sprintf("%d is above the %d ports of %d source addresses", out.Max, most, max(1, len(out.Sources))),
			"more sources, which are addresses of this host")
	}
	switch {
	case out.Mode == LegsOnDemand && minSet && out.Min > 0:
		d.WrongAt(d.Place(document.Join(path, "min")), document.Join(path, "min"), "is for mode ready: on-demand keeps no legs", "mode: ready, or no min")
	case out.Mode == LegsOnDemand:
		out.Min = 0
	case !minSet:
		out.Min = min(out.Min, out.Max)
	}
	if out.Min > out.Max {
		d.Wrong(n, document.Join(path, "min"), fmt.Sprintf("%d is above max, which is %d", out.Min, out.Max), "min at most max")
	}
}

// source decodes an address that surrogates can answer.
func (d *decoder) source(path string, n *node) netip.Addr {
	a := d.Address(path, n)
	if d.Err() == nil && !a.IsGlobalUnicast() {
		d.WrongText(n, path, a.String(), "is no address that another host can answer", "such as 192.0.2.1 or 2001:db8::1")
	}
	return a
}

// checkSources compares the families of a pool's sources and its surrogates.
func (d *decoder) checkSources(path string, p *Pool) {
	if len(p.Legs.Sources) == 0 {
		return
	}
	at := path + ".legs.sources"
	family := func(a netip.Addr) string {
		if a.Is4() {
			return "IPv4"
		}
		return "IPv6"
	}
	for _, s := range p.Surrogates {
		if len(p.Legs.SourcesTo(s.Address.Addr())) == 0 {
			d.WrongAt(d.Place(at), at, fmt.Sprintf("none is of %s, which %s at %s needs", family(s.Address.Addr()), s.Name, s.Address), "addresses of each family, or two pools")
			return
		}
	}
	for i, a := range p.Legs.Sources {
		if len(p.Discover) == 0 && !slices.ContainsFunc(p.Surrogates, func(s Surrogate) bool { return s.Address.Addr().Is4() == a.Is4() }) {
			one := document.Index(at, i)
			d.WrongAt(d.Place(one), one, fmt.Sprintf("%s is of %s, and no surrogate of the pool is", a, family(a)), "addresses of the surrogates' family")
			return
		}
	}
}

func (d *decoder) health(path string, n *node) *Health {
	h := &Health{Path: "/", Interval: defaultHealthInterval, Rise: defaultHealthRise, Fall: defaultHealthFall}
	d.Fields(path, n, []key{
		{Name: "path", Help: "of the request (default: / for HTTP; with TLS a connection is enough)", Decode: func(path string, n *node) {
			h.Path = d.Text(path, n)
			if d.Err() == nil && (h.Path[0] != '/' || strings.ContainsFunc(h.Path, func(r rune) bool { return r <= ' ' || r == '#' || r >= 0x7f })) {
				d.Wrong(n, path, fmt.Sprintf("%q is not the path of a request", document.Clip(h.Path)), "such as /healthz")
			}
		}},
		{Name: "host", Help: "of the request (default: the surrogate's address)", Decode: func(path string, n *node) {
			h.Host = d.Text(path, n)
			if d.Err() == nil && strings.ContainsFunc(h.Host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("/@?#,", r) || r >= 0x7f }) {
				d.Wrong(n, path, fmt.Sprintf("%q is not a host", document.Clip(h.Host)), "such as cdn.example.net")
			}
		}},
		{Name: "interval", Default: "2s", Help: "between two checks", Decode: func(path string, n *node) { h.Interval = d.Duration(path, n) }},
		{Name: "timeout", Default: "1s", Help: "until an answer counts as none", Decode: func(path string, n *node) { h.Timeout = d.Duration(path, n) }},
		{Name: "rise", Default: "2", Help: "good answers in a row until a surrogate is up",
			Decode: func(path string, n *node) { h.Rise = d.Integer(path, n, 1, maxHealthCount) }},
		{Name: "fall", Default: "3", Help: "bad ones in a row until it is down", Decode: func(path string, n *node) { h.Fall = d.Integer(path, n, 1, maxHealthCount) }},
	})
	if h.Timeout == 0 {
		h.Timeout = min(defaultHealthTimeout, h.Interval)
	}
	if h.Timeout > h.Interval {
		d.Wrong(n, document.Join(path, "timeout"), fmt.Sprintf("%s is above interval, which is %s", h.Timeout, h.Interval),
			"timeout at most interval")
	}
	return h
}

func (d *decoder) surrogate(path string, n *node) Surrogate {
	s := Surrogate{Weight: 1, Line: n.Line}
	d.Fields(path, n, []key{
		{Name: "name", Help: "in the status, in metrics and for commands; unique", Decode: func(path string, n *node) { s.Name = d.Text(path, n) }},
		{Name: "address", Help: "address and port", Decode: func(path string, n *node) { s.Address = d.AddrPort(path, n) }},
		{Name: "weight", Default: "1", Help: "share of new sessions with policies weighted and hash; 0: none",
			Decode: func(path string, n *node) { s.Weight = d.Integer(path, n, 0, maxWeight) }},
		{Name: "public", Help: "host and port for redirects (default: the address)", Decode: func(path string, n *node) { s.Public = d.public(path, n) }},
	})
	d.Require(path, n, "name", "address")
	return s
}

// public decodes the scheme and authority for redirects.
func (d *decoder) public(path string, n *node) string {
	s := strings.TrimSuffix(d.Text(path, n), "/")
	u, err := url.Parse(s)
	if d.Err() == nil && (err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" ||
		s != u.Scheme+"://"+u.Host || strings.HasSuffix(u.Host, ":") || strings.ContainsAny(s, " \"<>\\")) {
		d.Wrong(n, path, fmt.Sprintf("%q is not scheme://host[:port]", document.Clip(s)), "such as https://s1.example.net")
	}
	return s
}
