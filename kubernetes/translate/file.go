package translate

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"baton/router/config"
)

// File is router.yaml.
type File struct {
	Control string          `json:"control,omitempty"`
	Metrics string          `json:"metrics,omitempty"`
	State   string          `json:"state,omitempty"`
	Saved   string          `json:"saved,omitempty"`
	VIPs    []VIP           `json:"vips"`
	Pools   map[string]Pool `json:"pools"`
}

// VIP is an address that listeners have.
type VIP struct {
	Address    string   `json:"address"`
	Mode       string   `json:"mode,omitempty"`
	Protocol   string   `json:"protocol,omitempty"`
	Interfaces []string `json:"interfaces,omitempty"`
	Routes     []Route  `json:"routes"`
}

// Route sends requests to a pool.
type Route struct {
	Match   *Match   `json:"match,omitempty"`
	Rewrite *Rewrite `json:"rewrite,omitempty"`
	Pool    string   `json:"pool"`
}

// Match is a route's conditions.
type Match struct {
	Host       string   `json:"host,omitempty"`
	PathPrefix string   `json:"path_prefix,omitempty"`
	PathRegex  string   `json:"path_regex,omitempty"`
	Methods    []string `json:"methods,omitempty"`
	Headers    []Header `json:"headers,omitempty"`
	SNI        string   `json:"sni,omitempty"`
	NoSNI      bool     `json:"no_sni,omitempty"`
}

// Header is a condition on a header.
type Header struct {
	Name  string `json:"name"`
	Value string `json:"value,omitempty"`
	Regex string `json:"regex,omitempty"`
}

// Rewrite is what of a request changes for its surrogates.
type Rewrite struct {
	Host       string `json:"host,omitempty"`
	PathPrefix string `json:"path_prefix,omitempty"`
}

// Pool is a pool whose surrogates are in a file of their own, which changes without a reload.
type Pool struct {
	Policy        string   `json:"policy,omitempty"`
	ClientAddress string   `json:"client_address,omitempty"`
	Discover      Discover `json:"discover"`
}

// Discover is the source of a pool's surrogates.
type Discover struct {
	File string `json:"file,omitempty"`
	API  bool   `json:"api,omitempty"`
}

// Surrogate is an endpoint.
type Surrogate struct {
	Name    string `json:"name"`
	Address string `json:"address"`
	Weight  int    `json:"weight"`
}

// nowhere is a host that no request has (RFC 6761): a VIP needs a route, and without a matching one the router answers 404.
const nowhere = "nowhere.invalid"

// Complete adds what a file needs that has no Gateway, or a Gateway without routes.
func (f *File) Complete() {
	if f.Pools == nil {
		f.Pools = map[string]Pool{}
	}
	if len(f.VIPs) == 0 {
		f.VIPs = []VIP{{Address: "127.0.0.1:9465", Mode: string(config.Proxy), Routes: []Route{{Match: &Match{Host: nowhere}, Pool: nowhere}}}}
	}
	for _, v := range f.VIPs {
		for _, r := range v.Routes {
			if strings.HasSuffix(r.Pool, nowhere) {
				f.Pools[r.Pool] = Pool{Discover: Discover{API: true}}
			}
		}
	}
}

// Text is the file's content.
func (f *File) Text() ([]byte, error) {
	body, err := yaml.Marshal(f)
	if err != nil {
		return nil, fmt.Errorf("encode the router's configuration: %w", err)
	}
	return append([]byte("# Written by baton-kubernetes. Do not edit: it is replaced when objects of the Gateway API change.\n"), body...), nil
}

// pathKind orders kinds of path matches: exact ones first.
type pathKind int

const (
	anyPath pathKind = iota
	prefixPath
	regexPath
	exactPath
)

// entry is a route of the router with what the Gateway API orders routes by.
type entry struct {
	host    string // "": all
	path    pathKind
	length  int // of the path
	method  bool
	headers int
	age     *metav1.ObjectMeta
	order   [3]int // rule, match, and which of the match's routes

	match   Match
	rewrite Rewrite
	pool    string
}

// before orders routes: the most specific host, then as HTTPRouteRule.matches says.
func before(a, b entry) int {
	return cmp.Or(
		compareHosts(a.host, b.host),
		cmp.Compare(b.path, a.path), cmp.Compare(b.length, a.length),
		cmp.Compare(number(b.method), number(a.method)), cmp.Compare(b.headers, a.headers),
		older(a.age, b.age), slices.Compare(a.order[:], b.order[:]),
	)
}

// compareHosts puts whole names before wildcards, and longer ones before shorter ones.
func compareHosts(a, b string) int {
	wild := func(s string) int { return number(strings.HasPrefix(s, "*")) }
	return cmp.Or(cmp.Compare(number(a == ""), number(b == "")), cmp.Compare(wild(a), wild(b)), cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// routes are entries in the router's form.
func (e *entry) routes(protocol config.Protocol) []Route {
	r := Route{Pool: e.pool}
	m := e.match
	if protocol == config.TLS {
		m.SNI = e.host
	} else {
		m.Host = e.host
	}
	if !m.empty() {
		r.Match = &m
	}
	if e.rewrite != (Rewrite{}) {
		r.Rewrite = &e.rewrite
	}
	if protocol == config.TLS && e.host == "" { // a listener for all names: also for hellos without one
		return []Route{r, {Match: &Match{NoSNI: true}, Pool: e.pool}}
	}
	return []Route{r}
}

// routesOf are the routes of entries in the order in which the router looks at them, without those that are never reached: of two that match the
// same, the Gateway API has the first one apply, and the router refuses the second.
func routesOf(protocol config.Protocol, entries []entry) []Route {
	sorted := slices.Clone(entries)
	slices.SortStableFunc(sorted, before)
	var out []Route
	for _, e := range sorted {
		for _, r := range e.routes(protocol) {
			if !slices.ContainsFunc(out, func(earlier Route) bool { return covers(deref(earlier.Match, Match{}), deref(r.Match, Match{})) }) {
				out = append(out, r)
			}
		}
	}
	return out
}

// covers reports whether a matches all that b does. In the order of before, that can only be if they differ in nothing but methods.
func covers(a, b Match) bool {
	if len(a.Methods) > 0 && !slices.Equal(a.Methods, b.Methods) {
		return false
	}
	return a.Host == b.Host && a.PathPrefix == b.PathPrefix && a.PathRegex == b.PathRegex && a.SNI == b.SNI && a.NoSNI == b.NoSNI && slices.Equal(a.Headers, b.Headers)
}

func (m *Match) empty() bool {
	return m.Host == "" && m.PathPrefix == "" && m.PathRegex == "" && len(m.Methods) == 0 && len(m.Headers) == 0 && m.SNI == "" && !m.NoSNI
}

// maxRewrites is the router's: at a reload the kernel has those of two configurations.
const maxRewrites = 100

// afford counts the rewrites of a route; it says why they are too many.
func (t *translation) afford(entries []entry) string {
	more := map[Rewrite]bool{}
	for _, e := range entries {
		if e.rewrite != (Rewrite{}) && !t.rewrites[e.rewrite] {
			more[e.rewrite] = true
		}
	}
	if len(more) > 0 && len(t.rewrites)+len(more) > maxRewrites {
		return fmt.Sprintf("filters: the router has %d different rewrites, and all are in use by older routes", maxRewrites)
	}
	maps.Copy(t.rewrites, more)
	return ""
}

// refusedByRouter is what the router says of a route, so that one that it refuses is refused alone and not with all others.
func refusedByRouter(protocol config.Protocol, entries []entry) string {
	if len(entries) == 0 {
		return ""
	}
	f := File{Pools: map[string]Pool{}, VIPs: []VIP{{Address: "192.0.2.1:80", Interfaces: []string{"eth0"}, Protocol: string(protocol), Routes: routesOf(protocol, entries)}}}
	for _, e := range entries {
		f.Pools[e.pool] = Pool{Discover: Discover{API: true}}
	}
	text, err := f.Text()
	if err == nil {
		_, err = config.Parse("rules", text)
	}
	var wrong *config.Error
	if errors.As(err, &wrong) {
		return fmt.Sprintf("the router refuses it: %s: %s", wrong.Key, wrong.Problem)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// assemble makes VIPs of the listeners that this host serves. Listeners of a port are one VIP.
func (t *translation) assemble() {
	type vip struct {
		protocol config.Protocol
		entries  []entry
	}
	vips := map[netip.AddrPort]*vip{}
	for _, g := range t.ordered {
		for _, l := range g.listeners {
			if !l.serves() {
				continue
			}
			for _, a := range t.here(g) {
				at := netip.AddrPortFrom(a, uint16(l.spec.Port))
				if vips[at] == nil {
					vips[at] = &vip{protocol: l.protocol}
				}
				vips[at].entries = append(vips[at].entries, l.entries...)
			}
		}
	}
	used := map[string]bool{}
	for _, at := range slices.SortedFunc(maps.Keys(vips), netip.AddrPort.Compare) {
		v := vips[at]
		out := VIP{Address: at.String(), Interfaces: t.host.Interfaces, Routes: routesOf(v.protocol, v.entries)}
		if v.protocol == config.TLS {
			out.Protocol = string(config.TLS)
		}
		for _, r := range out.Routes {
			used[r.Pool] = true
		}
		if len(out.Routes) == 0 {
			nothing := entry{host: nowhere, pool: nowhere}
			if v.protocol == config.TLS { // a pool is of one protocol
				nothing.pool = "tls/" + nowhere
			}
			out.Routes = nothing.routes(v.protocol)
		}
		t.result.VIPs = append(t.result.VIPs, out)
	}
	for pool := range t.result.Pools {
		if !used[pool] {
			delete(t.result.Pools, pool)
			delete(t.result.Surrogates, pool)
		}
	}
}
