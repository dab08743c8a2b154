package route

import (
	"fmt"
	"sort"
	"strings"

	"baton/packet/hello"
	"baton/router/head"
)

// Lookup is the kernel program's lookup, as a model for tests and for explanations. It returns the matching entry,
// or one with Upcall and the reason.
func (k *Kernel) Lookup(vip int, req *head.Request) PrefixEntry {
	upcall := func(why string) PrefixEntry { return PrefixEntry{VIP: uint16(vip), Upcall: true, Why: why} }
	if why := Unread(req, 0); why != "" {
		return upcall(why)
	}
	method := MethodID(req.Method)
	if pool, ok := k.OnePool(vip); ok {
		return PrefixEntry{VIP: uint16(vip), Method: method, Pool: uint16(pool)}
	}
	ids := k.vips[vip].ids
	switch {
	case len(ids) > 0 && len(req.Host) > MaxKernelHost:
		return upcall(fmt.Sprintf("the host has more than %d bytes", MaxKernelHost))
	case len(ids) > 0 && len(req.Host) > 0 && req.Host[0] == '[':
		return upcall("the host is an address in brackets")
	}
	host := string(req.Host)
	id, known := ids[host]
	if !known && isLookedUp(host) && k.isNamed(vip, host) {
		return upcall("the kernel's tables have no room for host " + host)
	}
	if !known {
		host = ""
	}
	target := string(req.Target[:min(len(req.Target), MaxKernelPrefix)])
	entry := k.findLongest(entryKey{uint16(vip), id, method}, target)
	if entry == nil {
		entry = k.findLongest(entryKey{uint16(vip), id, AnyMethod}, target)
	}
	if entry == nil || entry.Upcall {
		return upcall(k.explainUpcall(vip, host, string(req.Method), target))
	}
	return *entry
}

// findLongest returns the entry with the longest prefix of a target; nil if there is none.
func (k *Kernel) findLongest(key entryKey, target string) *PrefixEntry {
	span := k.under[key]
	entries := k.Prefixes[span[0]:span[1]] // in the order of their prefixes
	for n := len(target); n >= 0 && len(entries) > 0; n-- {
		prefix := target[:n]
		at := sort.Search(len(entries), func(i int) bool { return entries[i].Prefix >= prefix })
		if at < len(entries) && entries[at].Prefix == prefix {
			return &entries[at]
		}
	}
	return nil
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
	ids, name := k.vips[vip].ids, h.ServerName
	id, known := ids[name]
	if !known && k.isNamed(vip, name) {
		return upcall("the kernel's tables have no room for name " + name)
	}
	if !known {
		_, rest, _ := strings.Cut(name, ".")
		name = "*." + rest
		id, known = ids[name]
	}
	if !known {
		name = ""
	}
	entry := k.findLongest(entryKey{uint16(vip), id, NoMethod}, "")
	if entry == nil || entry.Upcall {
		return upcall(k.explainUpcall(vip, name, "", ""))
	}
	return *entry
}

// isNamed reports whether a route of a VIP names a host, or a name in hellos.
func (k *Kernel) isNamed(vip int, host string) bool {
	return len(k.table.vips[vip].index.exact[host]) > 0
}

// explainUpcall says why user space decides what the kernel looks up under a host in its table, "" if it is not
// there.
func (k *Kernel) explainUpcall(vip int, host, method, target string) string {
	for _, c := range k.candidatesFor(vip, host) {
		if (k.table.vips[vip].encrypted || methodHolds(c.methods, []byte(method))) && strings.HasPrefix(target, c.prefix) {
			if c.upcall != "" {
				return c.upcall
			}
			return "the kernel's tables have no room for the routes of this host"
		}
	}
	return "no route matches for certain"
}
