package route

import (
	"encoding/binary"
	"strings"

	"baton/router/config"
)

// Bounds of the kernel's tables.
const (
	MaxKernelHost   = 63      // bytes of a host name that the kernel looks up
	MaxKernelPrefix = 128     // bytes of a target that the kernel matches
	MaxPrefixes     = 1 << 20 // entries of the prefix table
	LeastHosts      = 1 << 16 // of the host table, whose size is chosen when the data path is made: see HostRoom
	MaxHosts        = 1 << 20
)

// Ids of hosts in the prefix table. Hosts with the same entries share one.
const (
	unknownHosts = 0               // that are not in the host table
	upcallHosts  = 1<<16 - 1       // without any entry
	maxClasses   = upcallHosts - 1 // of hosts of a VIP with different entries
)

// Kernel is the tables in which the kernel program looks up a request, in two steps:
//
//  1. host id = Hosts[VIP, host], the host in lower case without port; 0 if it is not in the table or the request has none. A
//     host longer than MaxKernelHost, or in brackets, means Upcall if the VIP has hosts at all;
//  2. the entry of Prefixes with the longest Prefix of the target's first MaxKernelPrefix bytes, for this VIP, host id and
//     method, or for any method. No entry means Upcall.
//
// The program looks up only requests that head.Parse accepts and for which Unread returns ""; all others are
// upcalls. The target includes the query: no prefix contains a "?", so a prefix of the target is always a prefix of
// the path.
type Kernel struct {
	Hosts    []HostEntry
	Prefixes []PrefixEntry
	LeftOut  []LeftOut // in the order of the VIPs

	table *Table
	room  Room
	vips  []kernelVIP
	under map[entryKey][2]int // from and to which of Prefixes are one host's
}

// kernelVIP is a VIP of a Kernel.
type kernelVIP struct {
	onePool int               // to which all requests go as they are; -1: there is none
	ids     map[string]uint16 // of the hosts in the table
	unknown []int             // routes that may match requests to other hosts, in the file's order
	classes map[string]uint16 // ids by their entries
	missing map[string][]int  // routes of names in hellos that have no room, by the wildcard that stands for the name
}

type entryKey struct {
	vip, host uint16
	method    uint8
}

// HostEntry maps a host to its id in the prefix table. Ids are per VIP.
type HostEntry struct {
	VIP  uint16 // index in Config.VIPs
	Host string // lower case, no port, at most MaxKernelHost bytes; of an encrypted VIP: or "*." and the rest of a name
	ID   uint16
}

// PrefixEntry applies to targets for which Prefix is the longest match.
type PrefixEntry struct {
	VIP     uint16 // index in Config.VIPs
	HostID  uint16
	Method  uint8  // see MethodID; AnyMethod, which needs Prefix ""; NoMethod for hellos
	Prefix  string // at most MaxKernelPrefix bytes; "" for every target
	Pool    uint16 // index in Config.Pools, when Upcall is false; the same for the next
	Rewrite config.Rewrite
	Upcall  bool   // user space decides
	Why     string // why it does, for people; only in the answers of lookups
}

// Methods of entries that are not of one method.
const (
	NoMethod  = 0   // of hellos
	AnyMethod = 255 // applies where no entry of the method does
)

// methodIDs are the methods known to the kernel; the id is the index plus one.
var methodIDs = [...]string{"GET", "HEAD", "POST", "PUT", "DELETE"}

// MethodID returns the id of a method in the prefix table: GET 1, HEAD 2, POST 3, PUT 4, DELETE 5, 0 for all
// others, which the kernel does not look up.
func MethodID(method []byte) uint8 {
	for i, m := range methodIDs {
		if m == string(method) {
			return uint8(i + 1)
		}
	}
	return 0
}

// Kernel compiles the tables of VIPs in mode handoff that need a lookup, as far as there is room. The result is
// deterministic.
func (t *Table) Kernel(room Room) *Kernel {
	k := &Kernel{table: t, room: room, vips: make([]kernelVIP, len(t.vips)), under: make(map[entryKey][2]int)}
	for i := range t.vips {
		k.vips[i] = kernelVIP{onePool: -1}
		if !t.vips[i].handoff {
			continue
		}
		if k.vips[i].onePool = t.vips[i].onePool(); k.vips[i].onePool < 0 {
			k.addVIP(i)
		}
	}
	return k
}

// isLookedUp reports whether the kernel looks up a host, if it has room for it.
func isLookedUp(host string) bool { return host != "" && host[0] != '*' && len(host) <= MaxKernelHost }

// lookedUp returns the name that a route puts into the kernel's table, "" if it puts none there.
func (v *vip) lookedUp(r *rule) string {
	switch {
	case v.encrypted && len(r.match.SNI) <= MaxKernelHost:
		return r.match.SNI
	case !v.encrypted && isLookedUp(r.match.Host):
		return r.match.Host
	}
	return ""
}

// addVIP adds the hosts of a VIP with their entries, first those of all hosts that are not in the table.
func (k *Kernel) addVIP(i int) {
	from := len(k.Hosts)
	left := LeftOut{VIP: i, Hosts: k.addHosts(i)}
	fits := k.addEntries(uint16(i), unknownHosts, k.entriesFor(i, ""))
	left.Others = !fits || left.Hosts > 0
	of := &k.vips[i]
	for j := from; j < len(k.Hosts); j++ {
		h := &k.Hosts[j]
		id, fits := k.addClass(uint16(i), k.entriesFor(i, h.Host))
		if !fits {
			left.Hosts++
		}
		h.ID, of.ids[h.Host] = id, id
	}
	of.classes = nil
	if left.Hosts > 0 || left.Others {
		k.LeftOut = append(k.LeftOut, left)
	}
}

// addHosts adds the hosts of a VIP, without their ids, and returns how many have no room.
func (k *Kernel) addHosts(i int) (left int) {
	v := &k.table.vips[i]
	of := &kernelVIP{
		onePool: -1, ids: make(map[string]uint16), classes: make(map[string]uint16), missing: make(map[string][]int),
	}
	missing := make(map[string]bool)
	for j := range v.routes {
		name := v.lookedUp(&v.routes[j])
		if _, known := of.ids[name]; known {
			continue
		}
		if name != "" && len(k.Hosts) < k.room.Hosts {
			of.ids[name] = upcallHosts
			k.Hosts = append(k.Hosts, HostEntry{VIP: uint16(i), Host: name})
			continue
		}
		of.unknown = append(of.unknown, j)
		if name == "" {
			continue
		}
		missing[name] = true
		if wildcard := wildcardOf(name); v.encrypted && wildcard != "" {
			of.missing[wildcard] = append(of.missing[wildcard], j)
		}
	}
	k.vips[i] = *of
	return len(missing)
}

// entriesFor returns the entries of a host in a VIP's table; "": of all others.
func (k *Kernel) entriesFor(vip int, host string) []PrefixEntry {
	if k.table.vips[vip].encrypted {
		nodes := nodesOf(k.candidatesFor(vip, host))
		if len(nodes) == 0 {
			return nil
		}
		return []PrefixEntry{nodes[0].toEntry(NoMethod)}
	}
	return entriesOf(k.candidatesFor(vip, host))
}

// candidatesFor returns the routes for a host in a VIP's table, or of all others, in the file's order.
func (k *Kernel) candidatesFor(vip int, host string) []candidate {
	v, of := &k.table.vips[vip], &k.vips[vip]
	var out []candidate
	add := func(route int) {
		if v.encrypted {
			if c, ok := v.routes[route].candidateHello(host, of.ids); ok {
				out = append(out, c)
			}
		} else if c, ok := v.routes[route].findCandidate(host); ok {
			out = append(out, c)
		}
	}
	if host == "" {
		for _, route := range of.unknown {
			add(route)
		}
		return out
	}
	may := v.index.findRoutes([]byte(host))
	may.addList(of.missing[host])
	for i, ok := may.nextRoute(); ok; i, ok = may.nextRoute() {
		add(i)
	}
	return out
}

// addClass adds the entries of hosts, unless others of the VIP have the same, and returns their id. False: there is
// no room, and all requests to the host are upcalls.
func (k *Kernel) addClass(vip uint16, entries []PrefixEntry) (id uint16, fits bool) {
	if len(entries) == 0 {
		return upcallHosts, true
	}
	classes := k.vips[vip].classes
	key := keyOf(entries)
	if id, known := classes[key]; known {
		return id, true
	}
	id = uint16(len(classes) + 1)
	if id == upcallHosts || !k.addEntries(vip, id, entries) {
		return upcallHosts, false
	}
	classes[key] = id
	return id, true
}

// keyOf returns a text that only the same entries have.
func keyOf(entries []PrefixEntry) string {
	var key []byte
	text := func(s string) { key = append(binary.AppendUvarint(key, uint64(len(s))), s...) }
	for i := range entries {
		e := &entries[i]
		key = binary.BigEndian.AppendUint16(append(key, e.Method), e.Pool)
		text(e.Prefix)
		if e.Upcall {
			key = append(key, 1)
			continue
		}
		key = append(key, 0)
		key = binary.AppendUvarint(key, uint64(e.Rewrite.Strip))
		text(e.Rewrite.Prefix)
		text(e.Rewrite.Host)
	}
	return string(key)
}

// addEntries adds the entries of an id; false: there is no room.
func (k *Kernel) addEntries(vip, id uint16, entries []PrefixEntry) bool {
	if len(k.Prefixes)+len(entries) > k.room.Prefixes {
		return false
	}
	for _, e := range entries {
		e.VIP, e.HostID = vip, id
		key := entryKey{vip, id, e.Method}
		span, ok := k.under[key]
		if !ok {
			span[0] = len(k.Prefixes)
		}
		k.Prefixes = append(k.Prefixes, e)
		k.under[key] = [2]int{span[0], len(k.Prefixes)}
	}
	return true
}

// onePool returns the pool to which all requests to a VIP go as they are; -1: there is none.
func (v *vip) onePool() int {
	if v.encrypted {
		return -1
	}
	all := false
	for i := range v.routes {
		r := &v.routes[i]
		if r.pool != v.routes[0].pool || r.rewrite != (config.Rewrite{}) || r.unaided != "" {
			return -1
		}
		all = all || r.matchesAll()
	}
	if !all {
		return -1
	}
	return v.routes[0].pool
}

// matchesAll reports whether a route matches every request.
func (r *rule) matchesAll() bool {
	m := &r.match
	return m.Host == "" && m.PathPrefix == "" && m.PathRegex == nil && len(m.Methods) == 0 && len(m.Headers) == 0
}

// OnePool reports whether all requests to a VIP go to the same pool as they are, so that no lookup is needed.
func (k *Kernel) OnePool(vip int) (pool int, ok bool) {
	return k.vips[vip].onePool, k.vips[vip].onePool >= 0
}

// wildcardOf is the wildcard that stands for a name; "" if there is none, as for a wildcard.
func wildcardOf(name string) string {
	_, rest, ok := strings.Cut(name, ".")
	if !ok || name[0] == '*' {
		return ""
	}
	return "*." + rest
}
