package config

import (
	"fmt"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"baton/document"
)

// DiscoverKind is where surrogates are discovered.
type DiscoverKind string

// The kinds of sources.
const (
	DiscoverDNS  DiscoverKind = "dns"  // A and AAAA records of a name
	DiscoverSRV  DiscoverKind = "srv"  // SRV records of a name, and the addresses of their targets
	DiscoverFile DiscoverKind = "file" // a file with a list
	DiscoverAPI  DiscoverKind = "api"  // the control socket alone

	DiscoverController DiscoverKind = "controller" // an SDN controller, which also knows who is near
)

// Family is which addresses a name is looked up for.
type Family string

// The families.
const (
	IPv4 Family = "ipv4"
	IPv6 Family = "ipv6"
	Both Family = "both"
)

// Discover is a source of surrogates beside those of the file.
type Discover struct {
	Kind DiscoverKind
	Name string // of dns and srv: lower case, without a dot at its end
	Port uint16 // of dns
	File string // of file

	Controller *Controller // of controller: where it is, and who this router is for it

	Prefix string // of the surrogates' names
	Weight int    // of dns: each surrogate's
	Family Family
	// Resolvers are asked in order; none: those of /etc/resolv.conf.
	Resolvers []netip.AddrPort
	// MinTTL and MaxTTL bound the time between two lookups, which is the records' TTL.
	MinTTL, MaxTTL time.Duration
	Hold           time.Duration // how long an address stays that answers no longer have
	RemoveAbsent   bool          // a name that does not exist, or has no records, has no surrogates; false: it keeps those that it had
}

// String names the source as status and metrics do.
func (d *Discover) String() string {
	switch d.Kind {
	case DiscoverDNS:
		return fmt.Sprintf("dns %s:%d", d.Name, d.Port)
	case DiscoverSRV:
		return "srv " + d.Name
	case DiscoverFile:
		return "file " + d.File
	case DiscoverController:
		return "controller " + strings.Join(d.Controller.URLs, " ")
	}
	return string(d.Kind)
}

const (
	maxDiscover   = 8 // sources of a pool
	maxResolvers  = 8
	maxNamePrefix = 64

	defaultMinTTL = 5 * time.Second
	defaultMaxTTL = 5 * time.Minute
	leastTTL      = 100 * time.Millisecond
	mostTTL       = 24 * time.Hour

	dnsPort = 53
)

// discover decodes one source, or a list of them.
func (d *decoder) discover(path string, n *node) []Discover {
	if n.Kind == document.Mapping {
		return []Discover{d.discoverFrom(path, n)}
	}
	var out []Discover
	d.AtMost(path, n, maxDiscover)
	d.NonEmptyList(path, n, func(at string, n *node) {
		one := d.discoverFrom(at, n)
		if slices.ContainsFunc(out, func(o Discover) bool { return o.String() == one.String() }) {
			d.Wrong(n, at, one.String()+" is there twice", "each source once")
		}
		out = append(out, one)
	})
	return out
}

func (d *decoder) discoverFrom(path string, n *node) Discover {
	s := Discover{Weight: 1, MinTTL: defaultMinTTL, MaxTTL: defaultMaxTTL}
	kinds := 0
	kind := func(k DiscoverKind, help string, decode func(path string, n *node)) key {
		return key{Name: string(k), Help: help, Decode: func(path string, n *node) {
			s.Kind, kinds = k, kinds+1
			decode(path, n)
		}}
	}
	d.Fields(path, n, []key{
		kind(DiscoverDNS, "name whose addresses are the surrogates", func(path string, n *node) { s.Name = d.dnsName(path, n) }),
		kind(DiscoverSRV, "name of SRV records", func(path string, n *node) { s.Name = d.serviceName(path, n) }),
		kind(DiscoverFile, "list of surrogates, read when it changes", func(path string, n *node) { s.File = d.FilePath(path, n) }),
		kind(DiscoverAPI, "true: by commands and calls alone", func(path string, n *node) {
			if !d.Boolean(path, n) && d.Err() == nil {
				d.Wrong(n, path, "is false", "true, or no discover")
			}
		}),
		kind(DiscoverController, "a controller in native mode, which has the distances too", func(path string, n *node) { s.Controller = d.controllerSource(path, n) }),
		{Name: "port", Help: "dns: port of each surrogate", Decode: func(path string, n *node) { s.Port = uint16(d.Integer(path, n, 1, 65535)) }},
		{Name: "prefix", Help: "in front of the surrogates' names (default: the pool's name and a slash for dns and srv, else nothing)",
			Decode: func(path string, n *node) { s.Prefix = d.namePrefix(path, n) }},
		{Name: "weight", Default: "1", Help: "dns: weight of each surrogate", Decode: func(path string, n *node) { s.Weight = d.Integer(path, n, 0, maxWeight) }},
		{Name: "family", Help: "addresses that are looked up (default: of the VIPs)", Decode: func(path string, n *node) {
			s.Family = Family(d.Choice(path, n, "is not a family", string(IPv4), string(IPv6), string(Both)))
		}},
		{Name: "resolvers", Help: "up to 8 addresses, with or without a port, asked in order (default: those of /etc/resolv.conf)", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxResolvers)
			s.Resolvers = document.Distinct(d.Decoder, path, n, d.resolver)
		}},
		{Name: "min_ttl", Default: "5s", Help: "records are looked up again after this time at the earliest",
			Decode: func(path string, n *node) { s.MinTTL = d.Between(path, n, leastTTL, mostTTL) }},
		{Name: "max_ttl", Default: "5m", Help: "records are looked up again after this time at the latest",
			Decode: func(path string, n *node) { s.MaxTTL = d.Between(path, n, leastTTL, mostTTL) }},
		{Name: "hold", Default: "0s", Help: "how long an address stays that answers no longer have", Decode: func(path string, n *node) { s.Hold = d.delay(path, n, mostTTL) }},
		{Name: "nxdomain", Default: "keep", Help: "remove: a name that does not exist, or has no records, has no surrogates", Decode: func(path string, n *node) {
			s.RemoveAbsent = d.Choice(path, n, "is not what a missing name does", "keep", "remove") == "remove"
		}},
	})
	if kinds != 1 && d.Err() == nil {
		d.Wrong(n, path, fmt.Sprintf("has %d sources", kinds), "one of dns, srv, file, controller and api; several are a list")
	}
	if s.Kind == DiscoverDNS {
		d.Require(path, n, "port")
	}
	d.refuseOptions(path, &s)
	if s.MinTTL > s.MaxTTL && d.Err() == nil {
		d.Wrong(n, document.Join(path, "min_ttl"), fmt.Sprintf("%v is above max_ttl, which is %v", s.MinTTL, s.MaxTTL), "min_ttl at most max_ttl")
	}
	return s
}

// refuseOptions refuses keys of another kind of source.
func (d *decoder) refuseOptions(path string, s *Discover) {
	names := []DiscoverKind{DiscoverDNS, DiscoverSRV}
	for name, kinds := range map[string][]DiscoverKind{
		"port": {DiscoverDNS}, "weight": {DiscoverDNS}, "family": names, "resolvers": names, "min_ttl": names, "max_ttl": names, "hold": names,
		"nxdomain": names, "prefix": {DiscoverDNS, DiscoverSRV, DiscoverFile, DiscoverController},
	} {
		if at := document.Join(path, name); s.Kind != "" && d.Given(at) && !slices.Contains(kinds, s.Kind) {
			d.WrongAt(d.Place(at), at, "is not for a source "+string(s.Kind), "without it")
		}
	}
}

var (
	dnsNameForm = regexp.MustCompile(`^([a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?\.)*[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$`)
	serviceForm = regexp.MustCompile(`^_[a-z0-9-]+\._(tcp|udp)\.`)
	// SurrogateName is the form of names that are not from the file: they are typed, and are labels of metrics.
	SurrogateName = regexp.MustCompile(`^[A-Za-z0-9_\[][A-Za-z0-9._:/\[\]-]{0,127}$`)
	prefixForm    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9._:/-]*$`)
)

// dnsName decodes an absolute name; its dot at the end is optional.
func (d *decoder) dnsName(path string, n *node) string {
	s := strings.ToLower(strings.TrimSuffix(d.Text(path, n), "."))
	if d.Err() != nil {
		return s
	}
	_, err := netip.ParseAddr(s)
	switch {
	case err == nil:
		d.WrongText(n, path, s, "is an address", "surrogates, with its address")
	case len(s) > 253 || !dnsNameForm.MatchString(s):
		d.WrongText(n, path, s, "is not a name of DNS", "such as web.example.net")
	}
	return s
}

func (d *decoder) serviceName(path string, n *node) string {
	s := d.dnsName(path, n)
	if d.Err() == nil && !serviceForm.MatchString(s) {
		d.WrongText(n, path, s, "is not the name of a service", "such as _http._tcp.example.net")
	}
	return s
}

func (d *decoder) namePrefix(path string, n *node) string {
	s := d.Text(path, n)
	if d.Err() == nil && (len(s) > maxNamePrefix || !prefixForm.MatchString(s)) {
		d.WrongText(n, path, s, "is not the start of a name", fmt.Sprintf("at most %d letters, digits and ._:/-", maxNamePrefix))
	}
	return s
}

// resolver decodes an address with or without a port.
func (d *decoder) resolver(path string, n *node) netip.AddrPort {
	if a, err := netip.ParseAddr(n.Text); n.Kind == document.Scalar && err == nil && a.Zone() == "" && !a.IsUnspecified() && !a.IsMulticast() {
		return netip.AddrPortFrom(a.Unmap(), dnsPort)
	}
	return d.AddrPort(path, n)
}

// checkDiscover completes the sources, and refuses what they cannot have.
func (d *decoder) checkDiscover(cfg *Config) {
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		for j := range p.Discover {
			s := &p.Discover[j]
			at := document.Join(document.Join("pools", p.Name), "discover")
			if s.Kind == DiscoverDNS || s.Kind == DiscoverSRV {
				s.Family = completeFamily(cfg, p, s.Family)
				if s.Prefix == "" {
					s.Prefix = p.Name + "/"
				}
				if !prefixForm.MatchString(s.Prefix) || len(s.Prefix) > maxNamePrefix {
					d.WrongAt(d.Place(at), at, fmt.Sprintf("names of surrogates cannot begin with the pool's name, %q", document.Clip(p.Name)), "prefix: another begin")
				}
			}
			if s.Kind == DiscoverSRV && p.Policy != Weighted && p.Policy != Hash {
				d.Warn(d.Place(at), at, fmt.Sprintf("policy %s does not use the records' weights", p.Policy))
			}
		}
	}
}

// completeFamily is that of the VIPs which hand sessions to the pool: those of another one could only be proxied.
func completeFamily(cfg *Config, p *Pool, given Family) Family {
	if given != "" {
		return given
	}
	var out Family
	for _, v := range cfg.VIPs {
		if !slices.ContainsFunc(v.Routes, func(r Route) bool { return r.Pool == p.Name }) {
			continue
		}
		family := IPv6
		if v.Address.Addr().Is4() {
			family = IPv4
		}
		if v.Mode != Handoff || out != "" && out != family {
			return Both
		}
		out = family
	}
	if out == "" {
		return Both
	}
	return out
}

// Refuses is the reason for which a surrogate that is not from the file cannot be in the pool; "" if it can. Load refuses files with such
// surrogates.
func (c *Config) Refuses(p *Pool, s *Surrogate) string {
	addr := s.Address.Addr()
	switch {
	case !SurrogateName.MatchString(s.Name):
		return "its name is not of letters, digits and ._:/-[]"
	case !addr.IsValid() || s.Address.Port() == 0 || addr.IsUnspecified() || addr.IsMulticast() || addr.Zone() != "" || addr.Is4In6() || addr == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		return "it is not the address and port of one host"
	case s.Weight < 0 || s.Weight > maxWeight:
		return fmt.Sprintf("its weight is not from 0 to %d", maxWeight)
	case len(p.Legs.Sources) > 0 && len(p.Legs.SourcesTo(addr)) == 0:
		return "none of legs.sources is of its address family"
	}
	if p.ServerID != nil {
		if _, ok := p.ServerID.IDs[s.Name]; !ok {
			return "server_id.map lacks it"
		}
	}
	for i := range c.VIPs {
		v := &c.VIPs[i]
		if v.Address == s.Address {
			return "it is the address of a VIP"
		}
		if !slices.ContainsFunc(v.Routes, func(r Route) bool { return r.Pool == p.Name }) {
			continue
		}
		why := Unspliced(v, s)
		if why != "" && (v.Protocol == QUIC || p.Keeps()) {
			return fmt.Sprintf("it cannot serve VIP %s: %s", v.Address, why)
		}
	}
	return ""
}

// MaxSurrogates is how many surrogates a pool can have, from all sources.
const MaxSurrogates = maxSurrogates

// WithSurrogates is the configuration with other surrogates in its pools, in the order of the pools.
func (c *Config) WithSurrogates(pools [][]Surrogate) *Config {
	out := *c
	out.Pools = slices.Clone(c.Pools)
	for i := range out.Pools {
		out.Pools[i].Surrogates = pools[i]
	}
	return &out
}
