package config

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"time"
)

const (
	defaultLegsMin  = 16
	defaultLegsMax  = 4096
	defaultLegsIdle = 45 * time.Second // below the 60 s that nginx and Apache behind a default balancer keep an idle connection

	// maxLegs is what the local ports of one address can hold towards one surrogate, with room left for other programs.
	maxLegs = 60000

	maxWeight = 256

	maxSurrogates = 1021 // slots of a pool's table in the kernel

	defaultHealthInterval = 2 * time.Second
	defaultHealthTimeout  = time.Second
	defaultHealthRise     = 2
	defaultHealthFall     = 3
	maxHealthCount        = 1000
)

func (d *decoder) pools(path string, n *node) []Pool {
	if n.kind != mapping || len(n.fields) == 0 {
		d.fail(n.line, path, "is "+n.kind.String(), "a mapping from the name of a pool to the pool")
		return nil
	}
	d.atMost(path, n, maxPools)
	pools := make([]Pool, 0, len(n.fields))
	for _, f := range n.fields {
		at := join(path, f.key)
		if f.key == "" || strings.ContainsFunc(f.key, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			d.fail(f.line, at, "is not the name of a pool", "printable text")
			return nil
		}
		if f.value.kind == null {
			d.fail(f.line, at, "has no value", "a pool with its surrogates")
			return nil
		}
		pools = append(pools, d.pool(at, f))
	}
	return pools
}

func (d *decoder) pool(path string, f field) Pool {
	n := f.value
	p := Pool{
		Name: f.key, Policy: RoundRobin, Line: f.line,
		Legs: Legs{Min: defaultLegsMin, Max: defaultLegsMax, Idle: defaultLegsIdle},
	}
	d.mapping(path, n, []key{
		{"policy", func(path string, n *node) {
			p.Policy = Policy(d.text(path, n))
			if !slices.Contains([]Policy{RoundRobin, Weighted, LeastSessions, Hash, Nearest}, p.Policy) {
				d.fail(n.line, path, fmt.Sprintf("%q is not a policy", clip(string(p.Policy))),
					"round-robin, weighted, least-sessions, hash or nearest")
			}
		}},
		{"hash_query", func(path string, n *node) { p.HashQuery = d.texts(path, n) }},
		{"nearest", func(path string, n *node) {
			d.sequence(path, n, func(at string, n *node) { p.Nearest = append(p.Nearest, d.zone(at, n)) })
		}},
		{"legs", func(path string, n *node) { d.legs(path, n, &p.Legs) }},
		{"health", func(path string, n *node) { p.Health = d.health(path, n) }},
		{"surrogates", func(path string, n *node) {
			d.atMost(path, n, maxSurrogates)
			d.sequence(path, n, func(at string, n *node) { p.Surrogates = append(p.Surrogates, d.surrogate(at, n)) })
		}},
	})
	d.require(path, n, "surrogates")
	switch {
	case p.HashQuery != nil && p.Policy != Hash:
		d.fail(n.line, join(path, "hash_query"), "is for policy hash alone", "policy: hash")
	case p.Nearest != nil && p.Policy != Nearest:
		d.fail(n.line, join(path, "nearest"), "is for policy nearest alone", "policy: nearest")
	case p.Nearest == nil && p.Policy == Nearest:
		d.fail(n.line, join(path, "nearest"), "is missing", "policy nearest needs its list of {prefix, surrogates}")
	}
	d.zones(path, n, &p)
	return p
}

func (d *decoder) zone(path string, n *node) Zone {
	var z Zone
	d.mapping(path, n, []key{
		{"prefix", func(path string, n *node) {
			s := d.nonEmpty(path, n)
			if d.err != nil {
				return
			}
			prefix, err := netip.ParsePrefix(s)
			switch {
			case err != nil:
				d.fail(n.line, path, fmt.Sprintf("%q is not address/length", clip(s)), "such as 192.0.2.0/24")
			case prefix.Addr().Is4In6():
				d.fail(n.line, path, fmt.Sprintf("%q is an IPv4 address written as IPv6", s), "such as 192.0.2.0/24")
			case prefix != prefix.Masked():
				d.fail(n.line, path, fmt.Sprintf("%q has bits set after its length", s), prefix.Masked().String())
			}
			z.Prefix = prefix
		}},
		{"surrogates", func(path string, n *node) { z.Surrogates = d.texts(path, n) }},
	})
	d.require(path, n, "prefix", "surrogates")
	return z
}

// zones checks the zones against the pool's surrogates and puts the longest prefixes first.
func (d *decoder) zones(path string, n *node, p *Pool) {
	seen := make(map[netip.Prefix]bool, len(p.Nearest))
	for i, z := range p.Nearest {
		at := fmt.Sprintf("%s.nearest[%d]", path, i)
		if seen[z.Prefix] {
			d.fail(n.line, at+".prefix", z.Prefix.String()+" is there twice", "")
		}
		seen[z.Prefix] = true
		for _, name := range z.Surrogates {
			if !slices.ContainsFunc(p.Surrogates, func(s Surrogate) bool { return s.Name == name }) {
				d.fail(n.line, at+".surrogates", fmt.Sprintf("%q is not a surrogate of this pool", clip(name)), surrogateNames(p))
			}
		}
	}
	slices.SortStableFunc(p.Nearest, func(a, b Zone) int { return b.Prefix.Bits() - a.Prefix.Bits() })
}

func surrogateNames(p *Pool) string {
	names := make([]string, len(p.Surrogates))
	for i, s := range p.Surrogates {
		names[i] = s.Name
	}
	return clip("one of " + strings.Join(names, ", "))
}

func (d *decoder) legs(path string, n *node, out *Legs) {
	minSet := false
	d.mapping(path, n, []key{
		{"min", func(path string, n *node) { out.Min, minSet = d.integer(path, n, 0, maxLegs), true }},
		{"max", func(path string, n *node) { out.Max = d.integer(path, n, 1, maxLegs) }},
		{"idle", func(path string, n *node) { out.Idle = d.duration(path, n) }},
		{"requests", func(path string, n *node) { out.Requests = d.integer(path, n, 0, 1<<31-1) }},
	})
	if !minSet {
		out.Min = min(out.Min, out.Max)
	}
	if out.Min > out.Max {
		d.fail(n.line, join(path, "min"), fmt.Sprintf("%d is above max, which is %d", out.Min, out.Max), "min at most max")
	}
}

func (d *decoder) health(path string, n *node) *Health {
	h := &Health{Path: "/", Interval: defaultHealthInterval, Rise: defaultHealthRise, Fall: defaultHealthFall}
	d.mapping(path, n, []key{
		{"path", func(path string, n *node) {
			h.Path = d.nonEmpty(path, n)
			if d.err == nil && (h.Path[0] != '/' || strings.ContainsFunc(h.Path, func(r rune) bool { return r <= ' ' || r == '#' || r >= 0x7f })) {
				d.fail(n.line, path, fmt.Sprintf("%q is not the path of a request", clip(h.Path)), "such as /healthz")
			}
		}},
		{"host", func(path string, n *node) {
			h.Host = d.nonEmpty(path, n)
			if d.err == nil && strings.ContainsFunc(h.Host, func(r rune) bool { return r <= ' ' || strings.ContainsRune("/@?#,", r) || r >= 0x7f }) {
				d.fail(n.line, path, fmt.Sprintf("%q is not a host", clip(h.Host)), "such as cdn.example.net")
			}
		}},
		{"interval", func(path string, n *node) { h.Interval = d.duration(path, n) }},
		{"timeout", func(path string, n *node) { h.Timeout = d.duration(path, n) }},
		{"rise", func(path string, n *node) { h.Rise = d.integer(path, n, 1, maxHealthCount) }},
		{"fall", func(path string, n *node) { h.Fall = d.integer(path, n, 1, maxHealthCount) }},
	})
	if h.Timeout == 0 {
		h.Timeout = min(defaultHealthTimeout, h.Interval)
	}
	if h.Timeout > h.Interval {
		d.fail(n.line, join(path, "timeout"), fmt.Sprintf("%s is above interval, which is %s", h.Timeout, h.Interval), "timeout at most interval")
	}
	return h
}

func (d *decoder) surrogate(path string, n *node) Surrogate {
	s := Surrogate{Weight: 1, Line: n.line}
	d.mapping(path, n, []key{
		{"name", func(path string, n *node) { s.Name = d.nonEmpty(path, n) }},
		{"address", func(path string, n *node) { s.Address = d.addrPort(path, n) }},
		{"weight", func(path string, n *node) { s.Weight = d.integer(path, n, 0, maxWeight) }},
		{"public", func(path string, n *node) { s.Public = d.public(path, n) }},
	})
	d.require(path, n, "name", "address")
	return s
}

// public decodes the scheme and authority that mode redirect sends clients to.
func (d *decoder) public(path string, n *node) string {
	s := strings.TrimSuffix(d.nonEmpty(path, n), "/")
	u, err := url.Parse(s)
	if d.err == nil && (err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" ||
		s != u.Scheme+"://"+u.Host || strings.HasSuffix(u.Host, ":") || strings.ContainsAny(s, " \"<>\\")) {
		d.fail(n.line, path, fmt.Sprintf("%q is not scheme://host[:port]", clip(s)), "such as https://s1.example.net")
	}
	return s
}
