package config

import (
	"slices"
	"strings"

	"baton/packet/hello"
)

// coversMatch reports whether a matches every request, or hello, of the VIP that b matches. It may report false where
// that is true: regular expressions and headers are not compared.
func coversMatch(v *VIP, a, b *Match) bool {
	if v.Protocol.Encrypted() {
		return coversHello(a, b)
	}
	if a.PathRegex != nil || len(a.Headers) > 0 || !strings.HasPrefix(b.PathPrefix, a.PathPrefix) {
		return false
	}
	if a.Host != "" && a.Host != b.Host {
		suffix, wildcard := strings.CutPrefix(a.Host, "*")
		if !wildcard || !strings.HasSuffix(strings.TrimPrefix(b.Host, "*"), suffix) {
			return false
		}
	}
	return coversChoices(a.Methods, b.Methods)
}

// coversHello is covers for routes of an encrypted VIP.
func coversHello(a, b *Match) bool {
	if a.NoSNI != b.NoSNI {
		return false
	}
	if a.SNI != "" && a.SNI != b.SNI && !hello.Match(a.SNI, b.SNI) {
		return false
	}
	return coversChoices(a.ALPN, b.ALPN)
}

// coversChoices reports whether a has each of b, of conditions that hold for one of a list; an empty list always
// holds.
func coversChoices(a, b []string) bool {
	if len(a) == 0 {
		return true
	}
	return len(b) > 0 && !slices.ContainsFunc(b, func(choice string) bool { return !slices.Contains(a, choice) })
}

// coverIndex finds which of a VIP's routes covers a later one. It compares only those whose names, paths and
// choices allow it: to compare each route with all earlier ones takes a minute for 100,000.
type coverIndex struct {
	vip     *VIP
	routes  map[coverKey][]int // in the file's order
	lengths map[string][]int   // of the paths of the routes of a name
}

// coverKey has the conditions by which a route is found that covers another.
type coverKey struct {
	name   string // host or SNI; "" for any
	path   string // that theirs begin with
	choice string // one of their methods or ALPN protocols; "" for any
}

func newCoverIndex(v *VIP) *coverIndex {
	return &coverIndex{vip: v, routes: make(map[coverKey][]int), lengths: make(map[string][]int)}
}

// conditionsOf are those of a route by which it is found.
func (c *coverIndex) conditionsOf(route int) (name, path string, choices []string) {
	m := &c.vip.Routes[route].Match
	if c.vip.Protocol.Encrypted() {
		return m.SNI, "", m.ALPN
	}
	return m.Host, m.PathPrefix, m.Methods
}

// addRoute adds a route, by its index in the VIP's.
func (c *coverIndex) addRoute(route int) {
	name, path, choices := c.conditionsOf(route)
	if strings.HasPrefix(name, "*") && !strings.HasPrefix(name, "*.") {
		name = "" // a mistake, and covers treats it as any ending
	}
	if !slices.Contains(c.lengths[name], len(path)) {
		c.lengths[name] = append(c.lengths[name], len(path))
	}
	if len(choices) == 0 {
		choices = []string{""}
	}
	for _, choice := range choices {
		key := coverKey{name, path, choice}
		c.routes[key] = append(c.routes[key], route)
	}
}

// findFirst returns the first of the added routes that covers this one; -1: none does.
func (c *coverIndex) findFirst(route int) int {
	name, path, choices := c.conditionsOf(route)
	first := -1
	look := func(key coverKey) {
		for _, at := range c.routes[key] {
			if first >= 0 && at >= first {
				return
			}
			if coversMatch(c.vip, &c.vip.Routes[at].Match, &c.vip.Routes[route].Match) {
				first = at
				return
			}
		}
	}
	eachCoveringName(name, func(name string) {
		for _, n := range c.lengths[name] {
			if n > len(path) {
				continue
			}
			look(coverKey{name, path[:n], ""})
			if len(choices) > 0 {
				look(coverKey{name, path[:n], choices[0]})
			}
		}
	})
	return first
}

// eachCoveringName calls f for every name and wildcard that may stand for all that name stands for, and for "",
// which is any.
func eachCoveringName(name string, f func(name string)) {
	f("")
	if name == "" {
		return
	}
	f(name)
	rest := strings.TrimPrefix(name, "*")
	for at, c := range []byte(rest) {
		if wildcard := "*" + rest[at:]; c == '.' && wildcard != name {
			f(wildcard)
		}
	}
}
