package route

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
	"unicode/utf8"

	"baton/router/config"
	"baton/router/head"
)

// Bounds of the kernel's tables.
const (
	MaxKernelHost   = 63        // bytes of a host name that the kernel looks up
	MaxKernelPrefix = 128       // bytes of a target that the kernel matches
	MaxPrefixes     = 1 << 16   // entries of the prefix table
	MaxHosts        = 1<<16 - 1 // of the host table
)

// A host's id is at most the number of hosts, and 0 is none.
const _ uint16 = MaxHosts

// Kernel is the tables in which the kernel program looks up a request, in two steps:
//
//  1. host id = Hosts[VIP, host], the host in lower case without port; 0 if it is not in the table or the request has none. A
//     host longer than MaxKernelHost, or in brackets, means Upcall if the VIP has hosts at all;
//  2. the entry of Prefixes with the longest Prefix of the target's first MaxKernelPrefix bytes, for this VIP, host id and
//     method. No entry means Upcall.
//
// The program looks up only requests that head.Parse accepts and for which Unread returns ""; all others are upcalls. The target
// includes the query: no prefix contains a "?", so a prefix of the target is always a prefix of the path.
type Kernel struct {
	Hosts    []HostEntry
	Prefixes []PrefixEntry
	LeftOut  int // groups of VIP, host and method beyond MaxPrefixes, left to upcalls
}

// HostEntry maps a host to its id in the prefix table. Ids start at 1 for each VIP.
type HostEntry struct {
	VIP  uint16 // index in Config.VIPs
	Host string // lower case, no port, at most MaxKernelHost bytes; of an encrypted VIP: or "*." and the rest of a name
	ID   uint16
}

// PrefixEntry applies to targets for which Prefix is the longest match.
type PrefixEntry struct {
	VIP     uint16 // index in Config.VIPs
	HostID  uint16 // 0: not in the host table
	Method  uint8  // see MethodID; NoMethod for hellos
	Prefix  string // at most MaxKernelPrefix bytes; "" for every target
	Pool    uint16 // index in Config.Pools, when Upcall is false; the same for the next
	Rewrite config.Rewrite
	Upcall  bool   // user space decides
	Why     string // why it does, for people
}

// methodIDs are the methods known to the kernel; the id is the index plus one.
var methodIDs = [...]string{"GET", "HEAD", "POST", "PUT", "DELETE"}

// MethodID returns the id of a method in the prefix table: GET 1, HEAD 2, POST 3, PUT 4, DELETE 5, 0 for all others, which the
// kernel does not look up.
func MethodID(method []byte) uint8 {
	for i, m := range methodIDs {
		if m == string(method) {
			return uint8(i + 1)
		}
	}
	return 0
}

// Kernel compiles the tables of VIPs in mode handoff. The result is deterministic.
func (t *Table) Kernel() Kernel {
	var k Kernel
	for i := range t.vips {
		switch {
		case t.vips[i].handoff && t.vips[i].encrypted:
			k.addNames(uint16(i), t.vips[i].routes)
		case t.vips[i].handoff:
			k.addVIP(uint16(i), t.vips[i].routes)
		}
	}
	return k
}

func (k *Kernel) addVIP(vip uint16, routes []rule) {
	hosts := []string{""} // by id; 0: all other hosts
	known := make(map[string]bool)
	for i := range routes {
		host := routes[i].match.Host
		if host != "" && host[0] != '*' && len(host) <= MaxKernelHost && !known[host] && len(k.Hosts) < MaxHosts {
			known[host] = true
			k.Hosts = append(k.Hosts, HostEntry{VIP: vip, Host: host, ID: uint16(len(hosts))})
			hosts = append(hosts, host)
		}
	}
	of := indexHosts(routes)
	all := allOf(routes)
	for id, host := range hosts {
		mayMatch := all // of "", which stands for all hosts that are not in the kernel's table
		if host != "" {
			mayMatch = of.routesFor(host)
		}
		for method := range methodIDs {
			var under []candidate
			for _, i := range mayMatch {
				if c, ok := routes[i].candidate(host, known, methodIDs[method]); ok {
					under = append(under, c)
				}
			}
			k.addGroup(PrefixEntry{VIP: vip, HostID: uint16(id), Method: uint8(method + 1)}, under)
		}
	}
}

// hostIndex is the routes, by index, of each host or wildcard ("*.example.net") that they name; "": of those that name
// none.
type hostIndex map[string][]int

func indexHosts(routes []rule) hostIndex {
	of := make(hostIndex)
	for i := range routes {
		host := routes[i].match.Host
		of[host] = append(of[host], i)
	}
	return of
}

// routesFor returns the routes, in the file's order, whose host holds for a request to this one.
func (of hostIndex) routesFor(host string) []int {
	found := slices.Concat(of[host], of[""], of["*"])
	for at := strings.IndexByte(host, '.'); at >= 0; {
		found = append(found, of["*"+host[at:]]...)
		next := strings.IndexByte(host[at+1:], '.')
		if next < 0 {
			break
		}
		at += 1 + next
	}
	slices.Sort(found)
	return found
}

// allOf returns the indexes of all routes.
func allOf(routes []rule) []int {
	all := make([]int, len(routes))
	for i := range all {
		all[i] = i
	}
	return all
}

// candidate is a route that matches, or may match, targets that begin with prefix.
type candidate struct {
	prefix  string
	pool    int
	rewrite config.Rewrite
	upcall  string // why user space must decide if this is the first; "" if the kernel is sure that it matches
}

// candidate converts a route for requests of that host and method; host "" means all unknown hosts. Not ok if the route cannot
// match any of them.
func (r *rule) candidate(host string, known map[string]bool, method string) (candidate, bool) {
	m := &r.match
	c := candidate{prefix: m.PathPrefix, pool: r.pool, rewrite: r.rewrite, upcall: r.unaided}
	if !methodHolds(m.Methods, []byte(method)) || strings.Contains(m.PathPrefix, "?") {
		return c, false
	}
	switch {
	case host != "":
		if !hostHolds(m.Host, []byte(host)) {
			return c, false
		}
	case known[m.Host]:
		return c, false
	case m.Host != "":
		c.upcall = fmt.Sprintf("the route on line %d matches host %s", r.line, m.Host)
	}
	if len(m.Headers) > 0 {
		c.upcall = fmt.Sprintf("the route on line %d matches headers", r.line)
	}
	if m.PathRegex != nil {
		c.upcall = fmt.Sprintf("the route on line %d matches by path_regex", r.line)
		literal := anchoredLiteral(m.PathRegex.String())
		switch {
		case strings.HasPrefix(literal, c.prefix):
			c.prefix = literal
		case !strings.HasPrefix(c.prefix, literal):
			return c, false // no path has both prefixes
		}
	}
	if len(c.prefix) > MaxKernelPrefix {
		c.prefix = c.prefix[:MaxKernelPrefix]
		c.upcall = fmt.Sprintf("the route on line %d matches more than %d bytes of the path", r.line, MaxKernelPrefix)
	}
	return c, true
}

// anchoredLiteral returns a prefix of every path that the expression matches; "" if it finds none.
func anchoredLiteral(expression string) string {
	re, err := syntax.Parse(expression, syntax.Perl)
	if err != nil {
		return ""
	}
	re = re.Simplify()
	if re.Op != syntax.OpConcat || len(re.Sub) < 2 || re.Sub[0].Op != syntax.OpBeginText {
		return ""
	}
	literal := re.Sub[1]
	if literal.Op != syntax.OpLiteral || literal.Flags&syntax.FoldCase != 0 {
		return ""
	}
	text := string(literal.Rune)
	// U+FFFD in an expression matches any invalid byte, and a path contains no "?": the rest is unused.
	end := strings.IndexFunc(text, func(r rune) bool { return r == '?' || r >= utf8.RuneSelf })
	if end >= 0 {
		text = text[:end]
	}
	return text
}

// addGroup adds the entries of one VIP, host and method. A node of the prefix tree yields the first route, in the file's order,
// whose prefix is on the path from the root to the node; a node that equals its parent is omitted.
func (k *Kernel) addGroup(key PrefixEntry, routes []candidate) {
	first := make(map[string]int) // prefix to the first route that has it
	for i, c := range routes {
		if _, ok := first[c.prefix]; !ok {
			first[c.prefix] = i
		}
	}
	nodes := make([]string, 0, len(first))
	for prefix := range first {
		nodes = append(nodes, prefix)
	}
	slices.Sort(nodes) // a prefix sorts before longer ones

	type ancestor struct {
		prefix string
		route  int
		answer PrefixEntry
	}
	none := key
	none.Upcall, none.Why = true, "no route matches for certain"
	root := ancestor{route: len(routes), answer: none}
	way := []ancestor{root}
	var entries []PrefixEntry
	for _, prefix := range nodes {
		for !strings.HasPrefix(prefix, way[len(way)-1].prefix) {
			way = way[:len(way)-1]
		}
		above := way[len(way)-1]
		here := ancestor{prefix: prefix, route: min(first[prefix], above.route)}
		here.answer = key
		if c := routes[here.route]; c.upcall != "" {
			here.answer.Upcall, here.answer.Why = true, c.upcall
		} else {
			here.answer.Pool, here.answer.Rewrite = uint16(c.pool), c.rewrite
		}
		same := here.answer.Upcall == above.answer.Upcall && here.answer.Pool == above.answer.Pool && here.answer.Rewrite == above.answer.Rewrite
		here.answer.Prefix = prefix
		// An Upcall at the root equals a miss, but the entry keeps its reason.
		if !same || len(way) == 1 {
			entries = append(entries, here.answer)
		}
		way = append(way, here)
	}
	if len(k.Prefixes)+len(entries) > MaxPrefixes {
		k.LeftOut++
		return
	}
	k.Prefixes = append(k.Prefixes, entries...)
}

// OnePool reports whether all requests to a VIP go to the same pool as they are, so that no lookup is needed.
func (k *Kernel) OnePool(vip uint16) (pool uint16, ok bool) {
	if k.LeftOut > 0 {
		return 0, false
	}
	methods := make(map[uint8]bool)
	for _, p := range k.Prefixes {
		if p.VIP != vip {
			continue
		}
		if p.Upcall || p.Rewrite != (config.Rewrite{}) || len(methods) > 0 && p.Pool != pool {
			return 0, false
		}
		if p.Prefix == "" && p.HostID == 0 {
			methods[p.Method] = true
		}
		pool = p.Pool
	}
	return pool, len(methods) == len(methodIDs)
}

// Lookup is the kernel program's lookup, as a model for tests and for explanations. It returns the matching entry, or one with
// Upcall and the reason.
func (k *Kernel) Lookup(vip int, req *head.Request) PrefixEntry {
	upcall := func(why string) PrefixEntry { return PrefixEntry{VIP: uint16(vip), Upcall: true, Why: why} }
	if why := Unread(req, 0); why != "" {
		return upcall(why)
	}
	if pool, ok := k.OnePool(uint16(vip)); ok {
		return PrefixEntry{VIP: uint16(vip), Method: MethodID(req.Method), Pool: pool}
	}
	method := MethodID(req.Method)
	var id uint16
	named := false
	for _, h := range k.Hosts {
		if int(h.VIP) == vip {
			named = true
			if h.Host == string(req.Host) {
				id = h.ID
			}
		}
	}
	switch {
	case named && len(req.Host) > MaxKernelHost:
		return upcall(fmt.Sprintf("the host has more than %d bytes", MaxKernelHost))
	case named && len(req.Host) > 0 && req.Host[0] == '[':
		return upcall("the host is an address in brackets")
	}
	target := req.Target[:min(len(req.Target), MaxKernelPrefix)]
	best := -1
	for i := range k.Prefixes {
		p := &k.Prefixes[i]
		if int(p.VIP) == vip && p.HostID == id && p.Method == method && prefixHolds(p.Prefix, target) &&
			(best < 0 || len(p.Prefix) > len(k.Prefixes[best].Prefix)) {
			best = i
		}
	}
	if best < 0 {
		return upcall("no route matches for certain")
	}
	return k.Prefixes[best]
}
