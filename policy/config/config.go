// Package config decodes the request-routing policy from YAML: a file of its own, or a section of another part's configuration. All mistakes are
// reported at once, with their places.
package config

import (
	"fmt"
	"maps"
	"net/netip"
	"os"
	"regexp"
	"slices"
	"strings"

	"baton/document"
	"baton/policy"
)

type (
	node = document.Node
	key  = document.Key
)

// Upper bounds, which protect memory from typing errors.
const (
	maxSites      = 1024
	maxSurrogates = 4096 // of a site
	maxClients    = 1 << 16
	maxServices   = 1024
	maxSessions   = 1 << 30
	maxWeight     = 1 << 16
)

var rules = document.Rules{Bytes: 4 << 20, Nodes: 1 << 20, Empty: "sites are needed", Root: "a mapping with sites"}

// Load reads and checks a file that is a policy and nothing else. It does not read the files that it names: policy.Load does.
func Load(path string) (*policy.Config, error) {
	return document.Load(path, rules, decode)
}

// LoadSection is Load of a file that is a policy, or has one as its section policy. Other sections are not looked at: beside has their keys, by which a
// caller knows whose file it is. It refuses files that the policy names and that cannot be opened.
func LoadSection(path string) (cfg *policy.Config, beside []string, err error) {
	at := ""
	cfg, err = document.Load(path, rules, func(d *document.Decoder, root *node) *policy.Config {
		i := slices.IndexFunc(root.Fields, func(f document.Field) bool { return f.Key == "policy" })
		if i < 0 {
			return decode(d, root)
		}
		at, beside = "policy", nil
		for _, f := range root.Fields {
			beside = append(beside, f.Key)
		}
		cfg := Decode(d, at, root.Fields[i].Value)
		return &cfg
	}, func(d *document.Decoder, cfg *policy.Config) {
		for key, file := range map[string]string{"coverage": cfg.Coverage, "geo": cfg.GeoDatabase} {
			if file == "" {
				continue
			}
			f, err := os.Open(file)
			if err != nil {
				d.RefuseFile(document.Join(at, key), file, err)
				continue
			}
			f.Close()
		}
	})
	return cfg, beside, err
}

// Parse is Load of a content that is there already; name stands for the file in messages.
func Parse(name string, data []byte) (*policy.Config, error) {
	return document.ParseAs(name, data, rules, decode)
}

func decode(d *document.Decoder, root *node) *policy.Config {
	cfg := Decode(d, "", root)
	return &cfg
}

// decoder decodes a policy that begins at the key path at.
type decoder struct {
	*document.Decoder
	at string
}

// Decode decodes the policy at a node, which has the key path at, and refuses its mistakes at the decoder: if there are some, what it returns is of no use.
// The mapping may have more keys, those of the caller.
func Decode(d *document.Decoder, at string, n *document.Node, more ...document.Key) policy.Config {
	p := &decoder{d, at}
	cfg := policy.Config{}
	keys := append([]key{
		{Name: "sites", Help: "by name", Decode: func(path string, n *node) {
			p.AtMost(path, n, maxSites)
			p.Entries(path, n, func(path, name string, n *node) { cfg.Sites = append(cfg.Sites, p.site(path, name, n)) })
		}},
		{Name: "default", Help: "site of a client that no method locates: one of them, or none (default: the only site)",
			Decode: func(path string, n *node) { cfg.Default = p.noneOr(path, n) }},
		{Name: "locate", Default: "[zone, distance, geo]", Help: "order of methods", Decode: func(path string, n *node) {
			cfg.Locate = document.Distinct(d, path, n, func(path string, n *node) policy.Method {
				return policy.Method(p.Choice(path, n, "is no way to find a client's site", "zone", "distance", "geo"))
			})
		}},
		{Name: "coverage", Help: "path of a zone file, at most 256 MiB", Decode: func(path string, n *node) { cfg.Coverage = p.FilePath(path, n) }},
		{Name: "geo", Help: "path of a database", Decode: func(path string, n *node) { cfg.GeoDatabase = p.FilePath(path, n) }},
		{Name: "countries", Help: "site by ISO 3166-1 code", Decode: func(path string, n *node) { cfg.Countries = p.countries(path, n) }},
		{Name: "resume", Default: "90%", Help: "of the capacity, at which a full site gets clients again",
			Decode: func(path string, n *node) { cfg.Resume = p.Percent(path, n, 1, 100) }},
		{Name: "bypass", Help: "where to send a client that nothing can serve (default: refuse)", Decode: func(path string, n *node) { cfg.Bypass = p.Text(path, n) }},
		{Name: "services", Help: "rules by name, for some hosts", Decode: func(path string, n *node) {
			p.AtMost(path, n, maxServices)
			p.List(path, n, func(path string, n *node) { cfg.Services = append(cfg.Services, p.service(path, n)) })
		}},
	}, p.spreading(&cfg.Rules)...)
	p.Fields(at, n, append(keys, more...))
	p.Require(at, n, "sites")
	if len(cfg.Sites) > 1 {
		p.Require(at, n, "default")
	}
	if !p.Given(document.Join(at, "default")) && len(cfg.Sites) == 1 {
		cfg.Default = cfg.Sites[0].Name
	}
	p.references(&cfg)
	return cfg
}

// noneOr decodes a name, or "" for the word none.
func (p *decoder) noneOr(path string, n *node) string {
	if n.Text == "none" {
		return ""
	}
	return p.Label(path, n)
}

func (p *decoder) site(path, name string, n *node) policy.Site {
	s := policy.Site{Name: p.Label(path, &node{Place: p.Place(path), Kind: document.Scalar, Text: name})}
	p.Fields(path, n, []key{
		{Name: "location", Help: "of the site (default: that of the zone file)", Decode: func(path string, n *node) { s.Location = p.location(path, n) }},
		{Name: "capacity", Help: "sessions of all its surrogates (default: no limit)", Decode: func(path string, n *node) { s.Capacity = p.Integer(path, n, 1, maxSessions) }},
		{Name: "state", Default: "in-service", Help: "maintenance: no new sessions", Decode: func(path string, n *node) { s.Maintenance = p.maintenance(path, n) }},
		{Name: "clients", Help: "coverage zones: prefixes or addresses", Decode: func(path string, n *node) {
			p.AtMost(path, n, maxClients)
			s.Clients = document.Distinct(p.Decoder, path, n, p.AddressOrPrefix)
		}},
		{Name: "spill", Help: "sites that take over, in order, or none (default: all others, nearest first)", Decode: func(path string, n *node) {
			if s.Spill = []string{}; n.Text == "none" {
				return
			}
			p.AtMost(path, n, maxSites)
			s.Spill = document.Distinct(p.Decoder, path, n, p.Label)
		}},
		{Name: "surrogates", Help: "by name, which is unique in the policy", Decode: func(path string, n *node) {
			p.AtMost(path, n, maxSurrogates)
			p.Entries(path, n, func(path, name string, n *node) { s.Surrogates = append(s.Surrogates, p.surrogate(path, name, n)) })
		}},
	})
	return s
}

func (p *decoder) maintenance(path string, n *node) bool {
	return p.Choice(path, n, "is no state", "in-service", "maintenance") == "maintenance"
}

func (p *decoder) location(path string, n *node) policy.Coordinates {
	var c policy.Coordinates
	p.Fields(path, n, []key{
		{Name: "latitude", Help: "degrees", Decode: func(path string, n *node) { c.Latitude = p.degrees(path, n, 90) }},
		{Name: "longitude", Help: "degrees", Decode: func(path string, n *node) { c.Longitude = p.degrees(path, n, 180) }},
	})
	p.Require(path, n, "latitude", "longitude")
	return c
}

func (p *decoder) surrogate(path, name string, n *node) policy.Surrogate {
	u := policy.Surrogate{Name: p.Label(path, &node{Place: p.Place(path), Kind: document.Scalar, Text: name}), Weight: 1}
	p.Fields(path, n, []key{
		{Name: "weight", Default: "1", Help: "share of its site's clients", Decode: func(path string, n *node) { u.Weight = p.Integer(path, n, 0, maxWeight) }},
		{Name: "capacity", Help: "sessions (default: no limit)", Decode: func(path string, n *node) { u.Capacity = p.Integer(path, n, 1, maxSessions) }},
		{Name: "state", Default: "in-service", Help: "maintenance: no new sessions", Decode: func(path string, n *node) { u.Maintenance = p.maintenance(path, n) }},
		{Name: "addresses", Help: "for DNS", Decode: func(path string, n *node) {
			p.AtMost(path, n, 16)
			u.Addresses = document.Distinct(p.Decoder, path, n, p.Address)
		}},
		{Name: "host", Help: "authority for redirects, se1.example.org:8080", Decode: func(path string, n *node) { u.Host = p.Text(path, n) }},
	})
	return u
}

var countryForm = regexp.MustCompile(`^[A-Z]{2}$`)

func (p *decoder) countries(path string, n *node) map[string]string {
	out := make(map[string]string)
	p.AtMost(path, n, 26*26)
	p.Entries(path, n, func(path, name string, n *node) {
		if !countryForm.MatchString(name) {
			p.WrongAt(p.Place(path), path, fmt.Sprintf("%q is no country", document.Clip(name)), "two capital letters of ISO 3166-1, such as AT")
			return
		}
		out[name] = p.Label(path, n)
	})
	return out
}

// spreading has the keys of rules, which the policy and each service have.
func (p *decoder) spreading(r *policy.Rules) []key {
	return []key{
		{Name: "spread", Default: "object", Help: "what decides between the surrogates of a site", Decode: func(path string, n *node) {
			r.Spread = policy.Spread(p.Choice(path, n, "is no way to spread requests", "object", "client", "key", "weight", "nearest", "load"))
		}},
		{Name: "query", Default: "none", Help: "query parameters that belong to an object: a list, or all", Decode: func(path string, n *node) {
			switch n.Text {
			case "all":
				r.AllQuery = true
			case "none":
				r.Query = []string{}
			default:
				p.AtMost(path, n, 64)
				r.Query = document.Distinct(p.Decoder, path, n, p.Text)
			}
		}},
		{Name: "dispersion", Default: "1", Help: "surrogates of a site that share an object",
			Decode: func(path string, n *node) { r.Dispersion = p.Integer(path, n, 1, maxSurrogates) }},
		{Name: "steer", Help: "weights by site; before all ways to locate a client", Decode: func(path string, n *node) {
			r.Steer = make(map[string]int)
			p.AtMost(path, n, maxSites)
			p.Entries(path, n, func(path, name string, n *node) { r.Steer[name] = p.Integer(path, n, 0, maxWeight) })
			if p.Err() == nil && !slices.ContainsFunc(slices.Collect(maps.Values(r.Steer)), func(weight int) bool { return weight > 0 }) {
				p.Wrong(n, path, "has no site with a weight above 0", "such as {wien: 3, bratislava: 1}")
			}
		}},
		{Name: "sticky_prefix", Help: "what counts as one client: prefixes of these lengths", Decode: func(path string, n *node) {
			p.Fields(path, n, []key{
				{Name: "ipv4", Help: "24 if nothing else is given", Decode: func(path string, n *node) { r.Prefix4 = p.Integer(path, n, 1, 32) }},
				{Name: "ipv6", Help: "48 if nothing else is given", Decode: func(path string, n *node) { r.Prefix6 = p.Integer(path, n, 1, 128) }},
			})
		}},
	}
}

var hostForm = regexp.MustCompile(`^(\*\.)?([A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]*[A-Za-z0-9_])?$`)

func (p *decoder) service(path string, n *node) policy.Service {
	var s policy.Service
	spreading := p.spreading(&s.Rules)
	for i := range spreading {
		spreading[i].Default, spreading[i].Help = "", spreading[i].Help+" (default: that of the policy)"
	}
	p.Fields(path, n, append([]key{
		{Name: "hosts", Help: "names of the service", Decode: func(path string, n *node) {
			p.AtMost(path, n, 1024)
			s.Hosts = document.Distinct(p.Decoder, path, n, func(path string, n *node) string {
				host := strings.ToLower(p.Text(path, n))
				if p.Err() == nil && (len(host) > 253 || !hostForm.MatchString(host)) {
					p.WrongText(n, path, host, "is no host", "such as cdn.example.org or *.example.org")
				}
				return host
			})
		}},
		{Name: "sites", Help: "that serve it (default: all)", Decode: func(path string, n *node) { s.Rules.Sites = document.Distinct(p.Decoder, path, n, p.Label) }},
	}, spreading...))
	p.Require(path, n, "hosts")
	return s
}

// path joins keys to the policy's own.
func (p *decoder) path(keys ...string) string {
	at := p.at
	for _, k := range keys {
		at = document.Join(at, k)
	}
	return at
}

// references checks names of sites, and what may be there once.
func (p *decoder) references(cfg *policy.Config) {
	var sites []string
	for i := range cfg.Sites {
		sites = append(sites, cfg.Sites[i].Name)
	}
	refer := func(path, name string) { p.Refer(path, name, "is no site", "", p.path("sites"), sites) }
	refer(p.path("default"), cfg.Default)
	for country, name := range cfg.Countries {
		refer(p.path("countries", country), name)
	}
	for name := range cfg.Rules.Steer {
		refer(p.path("steer", name), name)
	}
	for i := range cfg.Services {
		for name := range cfg.Services[i].Rules.Steer {
			refer(document.Join(document.Join(document.Index(p.path("services"), i), "steer"), name), name)
		}
		for j, name := range cfg.Services[i].Rules.Sites {
			refer(document.Index(document.Join(document.Index(p.path("services"), i), "sites"), j), name)
		}
	}
	for i := range cfg.Sites {
		for j, name := range cfg.Sites[i].Spill {
			refer(document.Index(p.path("sites", sites[i], "spill"), j), name)
		}
	}
	if p.Err() == nil {
		p.once(cfg)
	}
}

// once refuses surrogates, zones and hosts that are there twice.
func (p *decoder) once(cfg *policy.Config) {
	surrogates, zones := make(map[string]string), make(map[netip.Prefix]string)
	for i := range cfg.Sites {
		s := &cfg.Sites[i]
		for j := range s.Surrogates {
			name := s.Surrogates[j].Name
			if other, twice := surrogates[name]; twice {
				p.Refuse(p.path("sites", s.Name, "surrogates", name), fmt.Sprintf("%q is a surrogate of %s already", name, other), "a name of its own")
			}
			surrogates[name] = s.Name
		}
		for j, zone := range s.Clients {
			if other, twice := zones[zone]; twice {
				p.Refuse(document.Index(p.path("sites", s.Name, "clients"), j), fmt.Sprintf("%v is a zone of %s already", zone, other), "one site")
			}
			zones[zone] = s.Name
		}
	}
	hosts := make(map[string]int)
	for i := range cfg.Services {
		for j, host := range cfg.Services[i].Hosts {
			if other, twice := hosts[host]; twice {
				p.Refuse(document.Index(document.Join(document.Index(p.path("services"), i), "hosts"), j),
					fmt.Sprintf("%s is in %s already", host, document.Index(p.path("services"), other)), "each host in one service")
			}
			hosts[host] = i
		}
	}
	if slices.Contains(cfg.Locate, policy.ByGeo) && cfg.GeoDatabase == "" {
		p.Refuse(p.path("locate"), "has geo, and there is no database", "geo: /path/to/database.mmdb")
	}
	if len(cfg.Countries) > 0 && cfg.GeoDatabase == "" {
		p.Refuse(p.path("countries"), "are found in a database, and there is none", "geo: /path/to/database.mmdb")
	}
}
