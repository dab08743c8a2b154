package route

import (
	"fmt"
	"slices"
	"strings"

	"baton/packet/hello"
	"baton/router/config"
)

// MatchHello is Match for the hello of a VIP with an encrypted protocol; false means an alert.
func (t *Table) MatchHello(vip int, h *hello.Hello) (Result, bool) {
	for i := range t.vips[vip].routes {
		r := &t.vips[vip].routes[i]
		if r.mismatchHello(h) == "" {
			return r.result(i), true
		}
	}
	return Result{}, false
}

// MissesHello is Misses for a hello.
func (t *Table) MissesHello(vip int, h *hello.Hello) []Miss {
	return t.misses(vip, func(r *rule) string { return r.mismatchHello(h) })
}

// mismatchHello returns the first condition that fails, "" if all hold. A hello without a name meets only routes that say so.
func (r *rule) mismatchHello(h *hello.Hello) string {
	m := &r.match
	switch {
	case m.NoSNI != (h.ServerName == ""):
		return "no_sni"
	case m.SNI != "" && !hello.Match(m.SNI, h.ServerName):
		return "sni"
	case len(m.ALPN) > 0 && !slices.ContainsFunc(m.ALPN, h.Protocols.Has):
		return "alpn"
	}
	return ""
}

func describeHello(m config.Match) string {
	var parts []string
	switch {
	case m.NoSNI:
		parts = append(parts, "no sni")
	case m.SNI != "":
		parts = append(parts, "sni "+m.SNI)
	}
	if len(m.ALPN) > 0 {
		parts = append(parts, "alpn "+strings.Join(m.ALPN, " "))
	}
	if len(parts) == 0 {
		return "every hello with a name"
	}
	return strings.Join(parts, ", ")
}

// NoMethod is the method of the entries for hellos.
const NoMethod = 0

// addNames adds the tables of a VIP with an encrypted protocol. The kernel program looks up the name of a whole hello, then the
// wildcard that its first label may stand for; id 0 is for all other names. A hello without a name is an upcall.
func (k *Kernel) addNames(vip uint16, routes []rule) {
	names := []string{""} // by id
	known := make(map[string]bool)
	for i := range routes {
		name := routes[i].match.SNI
		if name != "" && len(name) <= MaxKernelHost && !known[name] && len(k.Hosts) < MaxHosts {
			known[name] = true
			k.Hosts = append(k.Hosts, HostEntry{VIP: vip, Host: name, ID: uint16(len(names))})
			names = append(names, name)
		}
	}
	of, below := indexNames(routes)
	all := allOf(routes)
	for id, name := range names {
		mayMatch := all // of "", which stands for all names that are not in the kernel's table
		if name != "" {
			mayMatch = namesFor(name, of, below)
		}
		var under []candidate
		for _, i := range mayMatch {
			if c, ok := routes[i].candidateHello(name, known); ok {
				under = append(under, c)
			}
		}
		k.addGroup(PrefixEntry{VIP: vip, HostID: uint16(id), Method: NoMethod}, under)
	}
}

// indexNames returns the routes, by index, of each name or wildcard ("": of none), and those of names that a wildcard
// stands for.
func indexNames(routes []rule) (of, below map[string][]int) {
	of, below = make(map[string][]int), make(map[string][]int)
	for i := range routes {
		name := routes[i].match.SNI
		of[name] = append(of[name], i)
		if wildcard := wildcardOf(name); wildcard != "" {
			below[wildcard] = append(below[wildcard], i)
		}
	}
	return of, below
}

// namesFor returns the routes, in the file's order, that may match hellos of a name or wildcard.
func namesFor(name string, of, below map[string][]int) []int {
	found := slices.Concat(of[name], of[""], below[name])
	if wildcard := wildcardOf(name); wildcard != "" {
		found = append(found, of[wildcard]...)
	}
	slices.Sort(found)
	return found
}

// wildcardOf is the wildcard that stands for a name; "" if there is none, as for a wildcard.
func wildcardOf(name string) string {
	_, rest, ok := strings.Cut(name, ".")
	if !ok || name[0] == '*' {
		return ""
	}
	return "*." + rest
}

// candidateHello converts a route for hellos of that name or wildcard; "" means all unknown names. Not ok if the route cannot
// match any of them.
func (r *rule) candidateHello(name string, known map[string]bool) (candidate, bool) {
	m := &r.match
	c := candidate{pool: r.pool, upcall: r.unaided}
	exact := name != "" && name[0] != '*'
	switch {
	case m.NoSNI || len(m.SNI) > MaxKernelHost: // a wildcard matches no shorter names than itself
		return c, false
	case m.SNI == "" || m.SNI == name || exact && hello.Match(m.SNI, name):
	case exact || known[m.SNI] || name != "" && !hello.Match(name, m.SNI):
		return c, false
	default:
		c.upcall = fmt.Sprintf("the route on line %d matches sni %s", r.line, m.SNI)
	}
	if len(m.ALPN) > 0 {
		c.upcall = fmt.Sprintf("the route on line %d matches alpn", r.line)
	}
	return c, true
}

// LookupHello is Lookup for a hello.
func (k *Kernel) LookupHello(vip int, h *hello.Hello) PrefixEntry {
	upcall := func(why string) PrefixEntry { return PrefixEntry{VIP: uint16(vip), Upcall: true, Why: why} }
	switch {
	case h.ServerName == "":
		return upcall("the hello has no name")
	case len(h.ServerName) > MaxKernelHost:
		return upcall(fmt.Sprintf("the name has more than %d bytes", MaxKernelHost))
	}
	id := k.idOf(vip, h.ServerName)
	if id == 0 {
		_, rest, _ := strings.Cut(h.ServerName, ".")
		id = k.idOf(vip, "*."+rest)
	}
	for _, p := range k.Prefixes {
		if int(p.VIP) == vip && p.HostID == id {
			return p
		}
	}
	return upcall("no route matches for certain")
}

// idOf is the number of a name in a VIP's table, 0 if it is not there.
func (k *Kernel) idOf(vip int, name string) uint16 {
	for _, h := range k.Hosts {
		if int(h.VIP) == vip && h.Host == name {
			return h.ID
		}
	}
	return 0
}
