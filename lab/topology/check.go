package topology

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"baton/document"
)

func linkPath(i int) string { return "links[" + strconv.Itoa(i) + "]" }

// ends calls f for each end of each link, in order, with its key path.
func (t *Topology) ends(f func(path string, k *Link, e *End)) {
	for i, k := range t.Links {
		f(linkPath(i)+".a", k, &k.A)
		f(linkPath(i)+".b", k, &k.B)
	}
}

// checkNames looks after names that are odd, taken, or nobody's, and names the links that have none.
func (d *decoder) checkNames(t *Topology) {
	kinds := make(map[string]string)
	var names []string
	declare := func(kind, section, name string) {
		path := document.Join(section, name)
		d.key(path, name, hostName, hostNameForm)
		if other, taken := kinds[name]; taken {
			d.Refuse(path, "is the name of a "+other+" too", "a name of its own")
		}
		kinds[name] = kind
		names = append(names, name)
	}
	for _, h := range t.Hosts {
		declare("host", "hosts", h.Name)
	}
	for _, b := range t.Bridges {
		declare("bridge", "bridges", b.Name)
	}
	for _, s := range t.Switches {
		declare("switch", "switches", s.Name)
	}
	if len(names) == 0 {
		d.Refuse("hosts", "has no host", "at least one")
	}
	if len(names) > maxNodeN {
		d.Refuse("hosts", fmt.Sprintf("%d hosts, bridges and switches", len(names)), fmt.Sprintf("at most %d", maxNodeN))
	}
	if len(t.Links) > maxLinks {
		d.Refuse("links", fmt.Sprintf("%d links", len(t.Links)), fmt.Sprintf("at most %d", maxLinks))
	}
	known := func(path, name string) bool {
		if kinds[name] != "" {
			return true
		}
		valid := ""
		if best := document.Nearest(name, names); best != "" {
			valid = "did you mean " + best + "?"
		}
		d.Refuse(path, fmt.Sprintf("there is no host %q", document.Clip(name)), valid)
		return false
	}
	t.ends(func(path string, k *Link, e *End) {
		at := path
		if d.Given(path + ".host") {
			at += ".host"
		}
		if known(at, e.Host) && kinds[e.Host] == "bridge" && e.addressed {
			d.Refuse(path+".addresses", e.Host+" is a bridge, whose ports have no addresses", "leave them out")
		}
	})
	for _, a := range t.Anycast {
		path := document.Join("anycast", a.Address.String())
		for _, name := range a.Hosts {
			if known(path, name) && kinds[name] != "host" {
				d.Refuse(path, fmt.Sprintf("%s is a %s", name, kinds[name]), "hosts")
			}
		}
		if sorted := slices.Sorted(slices.Values(a.Hosts)); len(slices.Compact(sorted)) != len(a.Hosts) {
			d.Refuse(path, "names a host twice", "two hosts")
		}
		if len(a.Hosts) == 0 {
			d.Refuse(path, "is an empty list", "the hosts that have the address")
		}
	}
	d.nameLinks(t)
}

func (d *decoder) nameLinks(t *Topology) {
	taken := make(map[string]bool)
	for i, k := range t.Links {
		if k.Name == "" {
			continue
		}
		if taken[k.Name] {
			d.Refuse(linkPath(i)+".name", fmt.Sprintf("%q is the name of an earlier link", k.Name), "a name of its own")
		}
		taken[k.Name] = true
	}
	for _, k := range t.Links {
		if k.Name != "" {
			continue
		}
		k.Name = k.A.Host + "-" + k.B.Host
		for n := 2; taken[k.Name]; n++ {
			k.Name = fmt.Sprintf("%s-%s-%d", k.A.Host, k.B.Host, n)
		}
		taken[k.Name] = true
	}
	used := make(map[string]string)
	t.ends(func(path string, k *Link, e *End) {
		if e.Interface == "" {
			return
		}
		if slices.Contains([]string{"lo", "all", "default", bridgePort}, e.Interface) {
			d.Refuse(path+".interface", fmt.Sprintf("%q is taken", e.Interface), "such as eth0 or wan")
		}
		at := e.Host + "/" + e.Interface
		if other, taken := used[at]; taken {
			d.Refuse(path+".interface", fmt.Sprintf("%s has %q at link %s already", e.Host, e.Interface, other), "a name of its own")
		}
		used[at] = k.Name
	})
}

// bridgePort is a bridge's own interface in its namespace.
const bridgePort = "br0"

// nameInterfaces gives each end without a name the first of eth0, eth1, … that its host has free.
func (t *Topology) nameInterfaces() {
	used := make(map[string]bool)
	t.ends(func(_ string, _ *Link, e *End) { used[e.Host+"/"+e.Interface] = true })
	next := make(map[string]int)
	t.ends(func(_ string, _ *Link, e *End) {
		for e.Interface == "" {
			name := "eth" + strconv.Itoa(next[e.Host])
			next[e.Host]++
			if !used[e.Host+"/"+name] {
				e.Interface = name
			}
		}
	})
}

// claim is an address or a prefix, and where in the file it is given.
type claim struct {
	prefix  netip.Prefix
	path    string
	segment int // the prefix's; -1 for an address on a loopback
}

// checkAddresses: an address belongs to one host, a prefix to one segment, and the ends of a segment agree on it.
func (d *decoder) checkAddresses(t *Topology) {
	owner := make(map[netip.Addr]string)
	own := func(path string, a netip.Addr, what string) {
		if other, taken := owner[a]; taken {
			d.Refuse(path, fmt.Sprintf("%v is the address of %s already", a, other), "see anycast for one address on several hosts")
		}
		owner[a] = what
	}
	var claims []claim
	for _, h := range t.Hosts {
		for i, a := range h.Addresses {
			path := fmt.Sprintf("%s.addresses[%d]", document.Join("hosts", h.Name), i)
			own(path, a, "host "+h.Name)
			claims = append(claims, claim{netip.PrefixFrom(a, a.BitLen()), path, -1})
		}
	}
	for _, a := range t.Anycast {
		path := document.Join("anycast", a.Address.String())
		own(path, a.Address, "anycast")
		claims = append(claims, claim{netip.PrefixFrom(a.Address, a.Address.BitLen()), path, -1})
	}
	for s, members := range t.segments() {
		for _, m := range members {
			for i, p := range m.end.Addresses {
				path := fmt.Sprintf("%s.addresses[%d]", m.path, i)
				own(path, p.Addr(), "host "+m.end.Host)
				claims = append(claims, claim{p.Masked(), path, s})
				d.checkNeighbours(members, m, p, path)
			}
			if v6 := slices.IndexFunc(m.end.Addresses, func(p netip.Prefix) bool { return p.Addr().Is6() }); v6 >= 0 && m.link.MTU > 0 && m.link.MTU < 1280 {
				d.Refuse(fmt.Sprintf("%s.addresses[%d]", m.path, v6), fmt.Sprintf("the link's mtu, %d, is too small for IPv6", m.link.MTU), "1280 at least")
			}
		}
	}
	d.checkOverlaps(t, claims)
	for i := range t.Anycast {
		a := &t.Anycast[i]
		for _, name := range a.Hosts {
			h := t.Host(name)
			h.Addresses = append(h.Addresses, a.Address)
		}
	}
}

// checkNeighbours refuses an address whose prefix no other end of its segment has, when others have one of the family.
func (d *decoder) checkNeighbours(members []member, m member, p netip.Prefix, path string) {
	if p.Bits() == p.Addr().BitLen() {
		return
	}
	var other *netip.Prefix
	var owner string
	for _, n := range members {
		if n.end == m.end {
			continue
		}
		for i := range n.end.Addresses {
			q := &n.end.Addresses[i]
			if q.Addr().Is4() != p.Addr().Is4() || q.Bits() == q.Addr().BitLen() {
				continue
			}
			if q.Masked() == p.Masked() {
				return
			}
			other, owner = q, n.end.Host
		}
	}
	if other != nil {
		d.Refuse(path, fmt.Sprintf("%v and %v of %s are not of one prefix", p, *other, owner), "both ends of a link have the same")
	}
}

// checkOverlaps refuses prefixes of different segments that share addresses, and loopback addresses within them. Sorted,
// whatever overlaps with a prefix follows it.
func (d *decoder) checkOverlaps(t *Topology, claims []claim) {
	slices.SortStableFunc(claims, func(a, b claim) int {
		return cmp.Or(a.prefix.Addr().Compare(b.prefix.Addr()), cmp.Compare(a.prefix.Bits(), b.prefix.Bits()))
	})
	for i, a := range claims {
		for _, b := range claims[i+1:] {
			if !a.prefix.Overlaps(b.prefix) {
				break
			}
			if a.segment == b.segment {
				continue
			}
			if a.segment < 0 {
				a, b = b, a
			}
			d.Refuse(b.path, fmt.Sprintf("%v overlaps with %v of %s", b.prefix, a.prefix, t.linkAt(a.path)), "a prefix belongs to one link")
			return
		}
	}
}

// linkAt names the link that a key path leads into.
func (t *Topology) linkAt(path string) string {
	number, _, _ := strings.Cut(strings.TrimPrefix(path, "links["), "]")
	if i, err := strconv.Atoi(number); err == nil && i < len(t.Links) {
		return "link " + t.Links[i].Name
	}
	return path
}

// checkLoops: a Linux bridge without spanning tree, which these are, would send a frame around for ever. Loops with
// switches in them are the business of a controller.
func (d *decoder) checkLoops(t *Topology) {
	isBridge := make(map[string]bool)
	parent := make(map[string]string)
	for _, b := range t.Bridges {
		isBridge[b.Name], parent[b.Name] = true, b.Name
	}
	root := func(name string) string {
		for parent[name] != name {
			name = parent[name]
		}
		return name
	}
	for i, k := range t.Links {
		if !isBridge[k.A.Host] || !isBridge[k.B.Host] {
			continue
		}
		a, b := root(k.A.Host), root(k.B.Host)
		if a == b {
			d.Refuse(linkPath(i), fmt.Sprintf("closes a loop of bridges: %s and %s are joined already", k.A.Host, k.B.Host), "a tree")
		}
		parent[a] = b
	}
}

// checkRoutes: a gateway is on a link of its host.
func (d *decoder) checkRoutes(t *Topology) {
	for _, h := range t.Hosts {
		seen := make(map[netip.Prefix]bool)
		for i, r := range h.Routes {
			path := fmt.Sprintf("%s.routes[%d]", document.Join("hosts", h.Name), i)
			if r.To.Addr().Is4() != r.Via.Is4() {
				d.Refuse(path+".via", fmt.Sprintf("%v leads to %v, which is of the other family", r.Via, r.To), "a gateway of the destination's family")
			}
			if seen[r.To] {
				d.Refuse(path+".to", fmt.Sprintf("%v has a route already", r.To), "one route to each destination")
			}
			seen[r.To] = true
			reached := false
			for _, e := range t.At(h.Name) {
				for _, p := range e.Addresses {
					reached = reached || p.Contains(r.Via) && p.Addr() != r.Via
				}
			}
			if !reached {
				d.Refuse(path+".via", fmt.Sprintf("no link of %s reaches %v", h.Name, r.Via), "a gateway is the far end of a link")
			}
		}
	}
}
