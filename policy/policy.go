// Package policy decides which surrogate serves a client: one request-routing policy for answers in DNS, redirects and handoffs.
//
// A Config says what the operator wants; Load compiles it, with the files that it names, to a Policy, which never changes. What changes (health,
// load, weights, distances) is given to Policy.State, which returns a State: a snapshot that never changes either. State.Decide is a function of the
// snapshot and the Query alone: it has no clock, no lock and no random numbers of its own, so equal questions have equal answers on all hosts.
package policy

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"baton/document"
)

// Config is what an operator has decided. Package config decodes it from YAML and checks it; New checks references alone.
type Config struct {
	Sites       []Site
	Default     string            // site of clients that nothing else places; "": they are refused
	Locate      []Method          // how the site of a client is found, in this order; nil: DefaultLocate
	Coverage    string            // path of a coverage-zone file; "": none
	GeoDatabase string            // path of a MaxMind-format database; "": none
	Countries   map[string]string // site by ISO 3166-1 code, "AT"; before the nearest site by coordinates
	Rules       Rules             // for hosts that no service names
	Services    []Service
	Resume      float64 // share of its capacity below which a full site or surrogate takes clients again; 0: DefaultResume
	Bypass      string  // where clients are sent when nothing can serve them, in the caller's terms; "": they are refused
}

// DefaultResume keeps a site that is about full from taking and refusing clients in turns.
const DefaultResume = 0.9

// Site is a place with surrogates.
type Site struct {
	Name        string
	Location    Coordinates // zero: unknown, or that of the coverage-zone file
	Capacity    int         // sessions of all its surrogates together; 0: no limit
	Maintenance bool
	Clients     []netip.Prefix // coverage zones besides the file, which they override
	Spill       []string       // sites that take its clients when it cannot, in this order; nil: all others, nearest first; empty: none
	Surrogates  []Surrogate
}

// Surrogate is a server of a site. Names are unique in a policy.
type Surrogate struct {
	Name        string
	Weight      int // 0: it gets no clients
	Capacity    int // sessions; 0: no limit
	Maintenance bool
	Addresses   []netip.Addr // for answers in DNS; not used in the decision
	Host        string       // authority of redirects, "se1.example.org:8080"; not used in the decision
}

// Method is a way to find the site of a client.
type Method string

// The methods.
const (
	ByZone     Method = "zone"     // coverage zones
	ByDistance Method = "distance" // measured distances
	ByGeo      Method = "geo"      // database: country, then coordinates
	ByDefault  Method = "default"  // what is left; always the last, never in Config.Locate
	BySteering Method = "steering" // Rules.Steer; before all others, never in Config.Locate
)

// DefaultLocate is the order of methods: what operators know, what was measured, what was bought.
var DefaultLocate = []Method{ByZone, ByDistance, ByGeo}

// Spread is how requests are spread over the surrogates of a site.
type Spread string

// The ways to spread requests.
const (
	ByObject  Spread = "object"  // consistent hash of host, path and chosen query parameters
	ByClient  Spread = "client"  // consistent hash of the client's prefix
	ByKey     Spread = "key"     // consistent hash of Query.Sticky; of the client's prefix if it is empty
	ByWeight  Spread = "weight"  // by weight alone, with Query.Random
	ByNearest Spread = "nearest" // the smallest measured distance; equal ones as object
	ByLoad    Spread = "load"    // the smallest number of sessions for its weight; equal ones as object
)

// Rules say how requests for a host are spread.
type Rules struct {
	Spread     Spread   // "": object
	AllQuery   bool     // the whole query is a part of the object's name
	Query      []string // parameters that are a part of it, if not all are; empty and not nil: none, also if the policy has some
	Dispersion int      // how many surrogates of a site share an object; 0: one
	Prefix4    int      // length of a client's prefix for stickiness; 0: 24
	Prefix6    int      // 0: 48
	Sites      []string // that have the content; nil: all
	// Steer shares the clients among sites by weight, wherever they are: a client, or a Query.Sticky, stays at its site while that can serve. nil: the site is
	// found by Config.Locate. Sites that are not in it, or with weight 0, get none.
	Steer map[string]int
}

// Service has rules of its own for some hosts. What is not set (the zero value) is as in Config.Rules.
type Service struct {
	Hosts []string // "cdn.example.org", or "*.example.org" for all names below
	Rules Rules
}

// Policy is a compiled Config. It never changes.
type Policy struct {
	config     Config
	sites      []site
	surrogates []surrogate
	zones      table // values: indices of zoneList
	zoneList   []Zone
	countries  map[string]int
	fallback   int // site of Config.Default; -1: none
	locate     []Method
	rules      rules
	byHost     map[string]*rules // "cdn.example.org" and ".example.org"
	resume     float64
	files      files
	warnings   []string
}

type site struct {
	Site
	index       int
	id          uint64 // hash of the name
	first, past int    // its surrogates
	next        []int  // sites that take its clients, in order
}

type surrogate struct {
	Surrogate
	site int
	id   uint64 // hash of the name
}

type rules struct {
	Rules
	allowed []bool // by site; nil: all
	steer   []int  // weights by site; nil: no steering
}

// New compiles a configuration without reading the files that it names.
func New(cfg Config) (*Policy, error) { return compile(cfg, files{}) }

func compile(cfg Config, f files) (*Policy, error) {
	p := &Policy{config: cfg, fallback: -1, locate: cfg.Locate, resume: cfg.Resume, files: f, warnings: slices.Clone(f.warnings)}
	if p.locate == nil {
		p.locate = DefaultLocate
	}
	if p.resume <= 0 {
		p.resume = DefaultResume
	}
	if err := p.compileSites(); err != nil {
		return nil, err
	}
	if cfg.Default != "" {
		if p.fallback = p.siteIndex(cfg.Default); p.fallback < 0 {
			return nil, unknownSite("the default", cfg.Default)
		}
	}
	p.countries = make(map[string]int, len(cfg.Countries))
	for country, name := range cfg.Countries {
		i := p.siteIndex(name)
		if i < 0 {
			return nil, unknownSite("country "+country, name)
		}
		p.countries[strings.ToUpper(country)] = i
	}
	if err := p.compileRules(); err != nil {
		return nil, err
	}
	return p, p.compileZones()
}

func unknownSite(of, name string) error {
	return fmt.Errorf("%s names site %q, which there is not", of, name)
}

func (p *Policy) siteIndex(name string) int {
	return slices.IndexFunc(p.sites, func(s site) bool { return s.Name == name })
}

func (p *Policy) compileSites() error {
	if len(p.config.Sites) == 0 {
		return errors.New("there is no site")
	}
	seen := make(map[string]bool)
	for i, s := range p.config.Sites {
		if p.siteIndex(s.Name) >= 0 {
			return fmt.Errorf("site %q is there twice", s.Name)
		}
		if at, ok := p.files.locations[s.Name]; ok && s.Location.zero() {
			s.Location = at
		}
		one := site{Site: s, index: i, id: hashName(s.Name), first: len(p.surrogates)}
		for _, u := range s.Surrogates {
			if seen[u.Name] {
				return fmt.Errorf("surrogate %q is there twice", u.Name)
			}
			seen[u.Name] = true
			p.surrogates = append(p.surrogates, surrogate{Surrogate: u, site: i, id: hashName(u.Name)})
		}
		one.past = len(p.surrogates)
		p.sites = append(p.sites, one)
	}
	for i := range p.sites {
		if err := p.compileSpill(&p.sites[i]); err != nil {
			return err
		}
	}
	return nil
}

// compileSpill orders the sites that take the clients of s. Sites without coordinates come last, in the configuration's order.
func (p *Policy) compileSpill(s *site) error {
	if s.Spill != nil {
		for _, name := range s.Spill {
			i := p.siteIndex(name)
			if i < 0 {
				return unknownSite("spill of "+s.Name, name)
			}
			if i != s.index && !slices.Contains(s.next, i) {
				s.next = append(s.next, i)
			}
		}
		return nil
	}
	for i := range p.sites {
		if i != s.index {
			s.next = append(s.next, i)
		}
	}
	slices.SortStableFunc(s.next, func(a, b int) int {
		return compareDistance(s.Location, p.sites[a].Location, p.sites[b].Location)
	})
	return nil
}

func (p *Policy) compileRules() error {
	one := func(r Rules) (rules, error) {
		out := rules{Rules: r.withDefaults()}
		if r.Sites != nil {
			out.allowed = make([]bool, len(p.sites))
		}
		for _, name := range r.Sites {
			i := p.siteIndex(name)
			if i < 0 {
				return out, unknownSite("a service", name)
			}
			out.allowed[i] = true
		}
		if r.Steer != nil {
			out.steer = make([]int, len(p.sites))
		}
		for name, weight := range r.Steer {
			i := p.siteIndex(name)
			if i < 0 {
				return out, unknownSite("steering", name)
			}
			out.steer[i] = weight
		}
		return out, nil
	}
	var err error
	if p.rules, err = one(p.config.Rules); err != nil {
		return err
	}
	p.byHost = make(map[string]*rules)
	for _, s := range p.config.Services {
		r, err := one(s.Rules.or(p.config.Rules))
		if err != nil {
			return err
		}
		for _, host := range s.Hosts {
			host = strings.TrimPrefix(canonicalHost(host), "*")
			if p.byHost[host] != nil {
				return fmt.Errorf("host %q is in two services", host)
			}
			p.byHost[host] = &r
		}
	}
	return nil
}

// or fills in what is not set from other rules, except the sites.
func (r Rules) or(other Rules) Rules {
	if !r.AllQuery && r.Query == nil {
		r.AllQuery, r.Query = other.AllQuery, other.Query
	}
	if r.Steer == nil {
		r.Steer = other.Steer
	}
	r.Spread = cmp.Or(r.Spread, other.Spread)
	r.Dispersion = cmp.Or(r.Dispersion, other.Dispersion)
	r.Prefix4 = cmp.Or(r.Prefix4, other.Prefix4)
	r.Prefix6 = cmp.Or(r.Prefix6, other.Prefix6)
	return r
}

func (r Rules) withDefaults() Rules {
	r.Dispersion = max(r.Dispersion, 1)
	return r.or(Rules{Spread: ByObject, Prefix4: 24, Prefix6: 48})
}

// compileZones makes one table of the zones of the configuration and of the file.
func (p *Policy) compileZones() error {
	own := make(map[netip.Prefix]string)
	for i := range p.sites {
		for _, prefix := range p.sites[i].Clients {
			if other, twice := own[prefix.Masked()]; twice && other != p.sites[i].Name {
				return fmt.Errorf("coverage zone %v is of site %s and of site %s", prefix, other, p.sites[i].Name)
			}
			own[prefix.Masked()] = p.sites[i].Name
			p.zoneList = append(p.zoneList, Zone{prefix.Masked(), p.sites[i].Name, i})
		}
	}
	var sites []string
	for i := range p.sites {
		sites = append(sites, p.sites[i].Name)
	}
	unknown := make(map[string]int)
	for _, z := range p.files.zones {
		if _, overridden := own[z.Prefix]; overridden {
			continue
		}
		if z.site = p.siteIndex(z.Site); z.site < 0 {
			z.site = p.nearest(p.files.locations[z.Site])
		}
		if z.site < 0 {
			unknown[z.Site]++
			continue
		}
		p.zoneList = append(p.zoneList, z)
	}
	for i, name := range slices.Sorted(maps.Keys(unknown)) {
		if i == maxWarnings {
			p.warnings = append(p.warnings, fmt.Sprintf("%s: and the zones of %d more", p.config.Coverage, len(unknown)-i))
			break
		}
		text := fmt.Sprintf("%s: %d zones of %q are not used: the policy has no such site, and no site near it is known", p.config.Coverage, unknown[name], document.Clip(name))
		if document.Nearest(name, sites) != "" {
			text += " (" + document.Meant(name, sites) + ")"
		}
		p.warnings = append(p.warnings, text)
	}
	prefixes := make([]netip.Prefix, len(p.zoneList))
	for i := range p.zoneList {
		prefixes[i] = p.zoneList[i].Prefix
	}
	p.zones = newTable(prefixes)
	return nil
}

// nearest returns the site that is nearest to a place; -1 if that is not known.
func (p *Policy) nearest(at Coordinates) int {
	best := -1
	for i := range p.sites {
		here := p.sites[i].Location
		if !at.zero() && !here.zero() && (best < 0 || compareDistance(at, here, p.sites[best].Location) < 0) {
			best = i
		}
	}
	return best
}

// Zone is a coverage zone.
type Zone struct {
	Prefix netip.Prefix
	Site   string // as it is written: also a place that has no site, whose clients go to the nearest one
	site   int
}

// Config returns what the policy was compiled from. It is not to be changed.
func (p *Policy) Config() *Config { return &p.config }

// Warnings say what works, but not as one might expect; a line each.
func (p *Policy) Warnings() []string { return p.warnings }

// Zones returns the coverage zones, of the configuration and of the file. They are not to be changed.
func (p *Policy) Zones() []Zone { return p.zoneList }

// Surrogate returns a surrogate and its site by name; nil if there is none.
func (p *Policy) Surrogate(name string) (*Surrogate, *Site) {
	for i := range p.surrogates {
		if u := &p.surrogates[i]; u.Name == name {
			return &u.Surrogate, &p.sites[u.site].Site
		}
	}
	return nil, nil
}

// Surrogates returns the names of all surrogates.
func (p *Policy) Surrogates() (names []string) {
	for i := range p.surrogates {
		names = append(names, p.surrogates[i].Name)
	}
	return names
}

// maxHost is the length of the longest name in DNS. What strangers send may be longer, and have a label for each second byte.
const maxHost = 253

// rulesOf returns the rules of a canonical host: its own, those of the nearest name above with a star, or the policy's.
func (p *Policy) rulesOf(host string) *rules {
	if len(p.byHost) == 0 || len(host) > maxHost {
		return &p.rules
	}
	if r := p.byHost[host]; r != nil {
		return r
	}
	for {
		dot := strings.IndexByte(host, '.')
		if dot < 0 {
			return &p.rules
		}
		if r := p.byHost[host[dot:]]; r != nil {
			return r
		}
		host = host[dot+1:]
	}
}

// Index returns the index of a surrogate in Query.Distances; -1: there is none.
func (p *Policy) Index(name string) int {
	return slices.IndexFunc(p.surrogates, func(u surrogate) bool { return u.Name == name })
}
