// Package route finds a request's pool: that of the first route, in the file's order, of which all conditions hold.
// It also compiles the routes into the kernel program's tables (kernel.go); a test on random routes checks that
// both agree.
package route

import (
	"bytes"
	"fmt"
	"strings"

	"baton/router/config"
	"baton/router/head"
)

// Table is the compiled routes of a configuration. It is immutable and safe for concurrent use.
type Table struct {
	vips  []vip
	pools []string // by pool: why the kernel cannot choose a surrogate, "" if it can
}

type vip struct {
	handoff   bool
	encrypted bool
	routes    []rule
	index     index // of the routes, by host or by name in hellos
}

type rule struct {
	match   config.Match
	pool    int    // index in Config.Pools
	name    string // of the pool
	rewrite config.Rewrite
	unaided string // why the kernel cannot choose from the pool, "" if it can
	line    int
	reason  string // the conditions, for people
}

// Result is the route that matches a request.
type Result struct {
	Route    int    // index in the VIP's routes
	Line     int    // of the route in the file
	Pool     int    // index in Config.Pools
	PoolName string // its name
	Rewrite  config.Rewrite
	Reason   string // the conditions that held, such as "host a.net, path_prefix /video/"; "every request" when there are none
}

// Compile compiles the routes of each VIP. The configuration must not change afterwards; a route to an unknown pool
// is an error.
func Compile(cfg *config.Config) (*Table, error) {
	pools := make(map[string]int, len(cfg.Pools))
	for i, p := range cfg.Pools {
		pools[p.Name] = i
	}
	t := &Table{vips: make([]vip, len(cfg.VIPs)), pools: unchosen(cfg)}
	for i, v := range cfg.VIPs {
		t.vips[i].handoff, t.vips[i].encrypted = v.Mode == config.Handoff && v.Protocol != config.QUIC, v.Protocol.Encrypted()
		text := describe
		if v.Protocol.Encrypted() {
			text = describeHello
		}
		unaided := make(map[int]string) // by pool
		for j := range v.Routes {
			r := &v.Routes[j]
			pool, ok := pools[r.Pool]
			if !ok {
				return nil, fmt.Errorf("compile routes: %s:%d: no pool %q", cfg.File, r.Line, r.Pool)
			}
			if _, known := unaided[pool]; !known {
				unaided[pool] = t.unaided(&v, &cfg.Pools[pool], pool)
			}
			t.vips[i].routes = append(t.vips[i].routes, rule{
				match: r.Match, pool: pool, name: r.Pool, rewrite: r.Rewrite, line: r.Line,
				unaided: unaided[pool], reason: text(r.Match),
			})
		}
		t.vips[i].index = indexRoutes(v.Protocol, t.vips[i].routes)
	}
	return t, nil
}

func indexRoutes(p config.Protocol, routes []rule) index {
	if p.Encrypted() {
		return indexNames(routes)
	}
	return indexHosts(routes)
}

// Match returns the first matching route of the VIP, by its index in Config.VIPs; false if none matches, which
// means 404.
func (t *Table) Match(vip int, req *head.Request) (Result, bool) {
	v := &t.vips[vip]
	may := v.index.findRoutes(req.Host)
	for i, ok := may.nextRoute(); ok; i, ok = may.nextRoute() {
		if r := &v.routes[i]; r.mismatch(req) == "" {
			return r.result(i), true
		}
	}
	return Result{}, false
}

func (r *rule) result(i int) Result {
	return Result{Route: i, Line: r.line, Pool: r.pool, PoolName: r.name, Rewrite: r.rewrite, Reason: r.reason}
}

// Miss is a route that did not match, and its first condition that failed.
type Miss struct {
	Route int
	Line  int // of the route in the file
	Why   string
}

// Misses returns how many routes are before the one that Match returns, or all if it returns none, and the first of
// them, at most so many.
func (t *Table) Misses(vip int, req *head.Request, most int) (first []Miss, count int) {
	matched, ok := t.Match(vip, req)
	return t.listMisses(vip, matched.Route, ok, most, func(r *rule) string { return r.mismatch(req) })
}

func (t *Table) listMisses(vip, matched int, ok bool, most int, mismatch func(r *rule) string) (first []Miss, count int) {
	count = matched
	if !ok {
		count = len(t.vips[vip].routes)
	}
	for i := range min(count, most) {
		r := &t.vips[vip].routes[i]
		first = append(first, Miss{Route: i, Line: r.line, Why: "no match on " + mismatch(r)})
	}
	return first, count
}

// mismatch returns the first condition that fails, "" if all hold.
func (r *rule) mismatch(req *head.Request) string {
	m := &r.match
	switch {
	case !hostHolds(m.Host, req.Host):
		return "host"
	case !prefixHolds(m.PathPrefix, req.Path):
		return "path_prefix"
	case !methodHolds(m.Methods, req.Method):
		return "methods"
	case m.PathRegex != nil && !m.PathRegex.Match(req.Path):
		return "path_regex"
	}
	for i := range m.Headers {
		if !headerHolds(&m.Headers[i], req.Fields) {
			return "headers"
		}
	}
	return ""
}

// hostHolds compares names in lower case; "*.example.net" matches any name below example.net.
func hostHolds(pattern string, host []byte) bool {
	if pattern == "" {
		return true
	}
	if pattern[0] == '*' {
		suffix := pattern[1:]
		return len(host) > len(suffix) && string(host[len(host)-len(suffix):]) == suffix
	}
	return string(host) == pattern
}

func prefixHolds(prefix string, path []byte) bool {
	return len(path) >= len(prefix) && string(path[:len(prefix)]) == prefix
}

func methodHolds(methods []string, method []byte) bool {
	for _, m := range methods {
		if m == string(method) {
			return true
		}
	}
	return len(methods) == 0
}

// headerHolds checks each line of that name; values are not split at commas.
func headerHolds(m *config.HeaderMatch, fields head.Fields) bool {
	for name, value := range fields.All() {
		if len(name) != len(m.Name) || !bytes.EqualFold(name, []byte(m.Name)) {
			continue
		}
		switch {
		case m.Regex != nil:
			if m.Regex.Match(value) {
				return true
			}
		case m.Value == "" || string(value) == m.Value:
			return true
		}
	}
	return false
}

func describe(m config.Match) string {
	var parts []string
	if m.Host != "" {
		parts = append(parts, "host "+m.Host)
	}
	if m.PathPrefix != "" {
		parts = append(parts, "path_prefix "+m.PathPrefix)
	}
	if m.PathRegex != nil {
		parts = append(parts, "path_regex "+m.PathRegex.String())
	}
	if len(m.Methods) > 0 {
		parts = append(parts, "methods "+strings.Join(m.Methods, " "))
	}
	for _, h := range m.Headers {
		switch {
		case h.Regex != nil:
			parts = append(parts, fmt.Sprintf("header %s ~ %s", h.Name, h.Regex))
		case h.Value != "":
			parts = append(parts, fmt.Sprintf("header %s = %s", h.Name, h.Value))
		default:
			parts = append(parts, "header "+h.Name)
		}
	}
	if len(parts) == 0 {
		return "every request"
	}
	return strings.Join(parts, ", ")
}
