package config

import (
	"net/netip"
	"regexp"
	"slices"
	"time"

	"baton/document"
	"baton/policy"
	policyconfig "baton/policy/config"
	"baton/policy/health"
)

// CDN is the content delivery network that a controller serves.
type CDN struct {
	Native     bool // request routers decide by themselves
	Strip      bool // TCP options that the paper's translation cannot have
	Services   []Service
	Surrogates []Surrogate
	Handoff    time.Duration // at most
	Answer     time.Duration // until a surrogate's answer begins, at most
	Idle       time.Duration // of a session that was handed over
	Health     *health.Check // nil: all surrogates count as up
	Policy     policy.Config
	Bits4      int // of the neighbourhoods of clients in the native mode
	Bits6      int
}

// Service is an address that request routers serve.
type Service struct {
	Address netip.AddrPort
	Routers []netip.Addr // where legs come from; none: the service's address
}

// Surrogate is a server that sessions are handed to.
type Surrogate struct {
	Name    string
	Address netip.AddrPort
	Host    string // for the Host field; "": unchanged
}

// Bounds of a CDN.
const (
	maxServices   = 1000
	maxSurrogates = 4096
)

// onlySite is that of all surrogates when there is no policy.
const onlySite = "all"

func (d *decoder) cdn(path string, n *node) *CDN {
	c := &CDN{Handoff: 3 * time.Second, Answer: 10 * time.Second, Idle: 2 * time.Minute, Bits4: 24, Bits6: 64}
	d.Fields(path, n, []key{
		{Name: "mode", Default: "reactive", Help: "whether the controller hands sessions over, or request routers decide by themselves", Decode: func(path string, n *node) {
			c.Native = d.Choice(path, n, "is no mode", "reactive", "native") == "native"
		}},
		{Name: "options", Default: "keep", Help: "strip: handshakes lose timestamps, SACK and window scaling", Decode: func(path string, n *node) {
			c.Strip = d.Choice(path, n, "is no way to treat TCP options", "keep", "strip") == "strip"
		}},
		{Name: "services", Help: "what clients connect to", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxServices)
			d.List(path, n, func(at string, n *node) { c.Services = append(c.Services, d.service(at, n)) })
		}},
		{Name: "surrogates", Help: "by name", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxSurrogates)
			d.Entries(path, n, func(at, name string, n *node) { c.Surrogates = append(c.Surrogates, d.surrogate(at, name, n)) })
		}},
		{Name: "handoff_timeout", Default: "3s", Help: "after that a handoff is undone",
			Decode: func(path string, n *node) { c.Handoff = d.Between(path, n, 100*time.Millisecond, time.Minute) }},
		{Name: "answer_timeout", Default: "10s", Help: "after that a surrogate that has acknowledged a request and not begun to answer it has failed",
			Decode: func(path string, n *node) { c.Answer = d.Between(path, n, time.Second, time.Hour) }},
		{Name: "idle_timeout", Default: "2m", Help: "of a session that was handed over",
			Decode: func(path string, n *node) { c.Idle = d.Between(path, n, time.Second, 12*time.Hour) }},
		{Name: "health", Help: "checks of the surrogates (default: all count as up)", Decode: func(path string, n *node) { c.Health = health.Decode(d.Decoder, path, n) }},
		{Name: "policy", Help: "which surrogate serves a client (default: the nearest)",
			Decode: func(path string, n *node) { c.Policy = policyconfig.Decode(d.Decoder, path, n) }},
		{Name: "neighbourhood", Help: "native mode: length of the prefixes in which clients share a zone", Decode: func(path string, n *node) {
			d.Fields(path, n, []key{
				{Name: "ipv4", Default: "24", Help: "of IPv4", Decode: func(path string, n *node) { c.Bits4 = d.Integer(path, n, 8, 32) }},
				{Name: "ipv6", Default: "64", Help: "of IPv6", Decode: func(path string, n *node) { c.Bits6 = d.Integer(path, n, 16, 128) }},
			})
		}},
	})
	d.Require(path, n, "services", "surrogates")
	if !d.Given(document.Join(path, "policy")) {
		c.Policy = nearest(c.Surrogates)
	}
	return c
}

// nearest is the policy when none is given: the nearest surrogate that is up.
func nearest(all []Surrogate) policy.Config {
	site := policy.Site{Name: onlySite}
	for _, s := range all {
		site.Surrogates = append(site.Surrogates, policy.Surrogate{Name: s.Name, Weight: 1, Addresses: []netip.Addr{s.Address.Addr()}})
	}
	return policy.Config{Default: onlySite, Sites: []policy.Site{site}, Rules: policy.Rules{Spread: policy.ByNearest}}
}

func (d *decoder) service(path string, n *node) Service {
	var s Service
	d.Fields(path, n, []key{
		{Name: "address", Help: "address and port", Decode: func(path string, n *node) { s.Address = d.AddrPort(path, n) }},
		{Name: "routers", Help: "addresses from which its request routers open legs (default: the service's)", Decode: func(path string, n *node) {
			d.AtMost(path, n, maxServices)
			s.Routers = document.Distinct(d.Decoder, path, n, d.Address)
		}},
	})
	d.Require(path, n, "address")
	return s
}

func (d *decoder) surrogate(path, name string, n *node) Surrogate {
	s := Surrogate{Name: d.Label(path, &node{Place: d.Place(path), Kind: document.Scalar, Text: name})}
	d.Fields(path, n, []key{
		{Name: "address", Help: "address and port", Decode: func(path string, n *node) { s.Address = d.AddrPort(path, n) }},
		{Name: "host", Help: "for the Host field of requests (default: unchanged)", Decode: func(path string, n *node) { s.Host = d.host(path, n) }},
	})
	d.Require(path, n, "address")
	return s
}

// authority is what a Host field may be: a name or an address, with or without a port.
var authority = regexp.MustCompile(`^([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(:[0-9]{1,5})?$`)

func (d *decoder) host(path string, n *node) string {
	text := d.Text(path, n)
	if d.Err() == nil && !authority.MatchString(text) {
		d.WrongText(n, path, text, "cannot be in a Host field", "such as se1.cdn.example.net")
	}
	return text
}

// checkCDN refuses what does not fit together: two services or surrogates with one address, and surrogates that the policy does not have.
func (d *decoder) checkCDN(c *CDN) {
	names := d.unique(c)
	var sited []string
	for _, site := range c.Policy.Sites {
		for _, u := range site.Surrogates {
			sited = append(sited, u.Name)
			if !slices.Contains(names, u.Name) {
				valid := "its address under cdn.surrogates." + u.Name
				if document.Nearest(u.Name, names) != "" {
					valid = document.Meant(u.Name, names)
				}
				d.Refuse(document.Join("cdn.policy.sites", site.Name)+".surrogates."+u.Name, "is not in cdn.surrogates", valid)
			}
		}
	}
	for _, s := range c.Surrogates {
		if !slices.Contains(sited, s.Name) {
			d.Refuse("cdn.surrogates."+s.Name, "is at no site of cdn.policy", "the surrogate at one of the sites")
		}
	}
}

// unique returns the surrogates' names, and refuses addresses that are used twice.
func (d *decoder) unique(c *CDN) (names []string) {
	used := map[netip.AddrPort]string{}
	take := func(path string, a netip.AddrPort) {
		if by, ok := used[a]; ok {
			d.Refuse(path, "has the address of "+by+", "+a.String(), "another address")
		}
		used[a] = path
	}
	for i, s := range c.Services {
		take(document.Index("cdn.services", i)+".address", s.Address)
	}
	for _, s := range c.Surrogates {
		names = append(names, s.Name)
		take("cdn.surrogates."+s.Name+".address", s.Address)
	}
	return names
}
