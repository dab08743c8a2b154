package topology

import (
	"net/netip"
	"slices"
)

// member is an end on a segment that is no port.
type member struct {
	path string
	link *Link
	end  *End
}

// ports returns a function that reports whether an end forwards frames: those of bridges do, and those of switches without addresses of
// their own. At the others packets end or are routed.
func (t *Topology) ports() func(*End) bool {
	bridges, switches := make(map[string]bool), make(map[string]bool)
	for _, b := range t.Bridges {
		bridges[b.Name] = true
	}
	for _, s := range t.Switches {
		switches[s.Name] = true
	}
	return func(e *End) bool { return bridges[e.Host] || switches[e.Host] && !e.addressed }
}

// segments are what frames reach without a router: the host ends of a link, or of the links of joined bridges and
// switches. They are in the order of their first link.
func (t *Topology) segments() [][]member {
	isPort := t.ports()
	parent := make(map[string]string)
	root := func(name string) string {
		for parent[name] != "" {
			name = parent[name]
		}
		return name
	}
	for _, k := range t.Links {
		if isPort(&k.A) && isPort(&k.B) {
			if a, b := root(k.A.Host), root(k.B.Host); a != b {
				parent[b] = a
			}
		}
	}
	var all [][]member
	at := make(map[string]int) // root bridge → segment
	t.ends(func(path string, k *Link, e *End) {
		if isPort(e) {
			return
		}
		other := &k.A
		if e == &k.A {
			other = &k.B
		}
		m := member{path, k, e}
		switch i, known := at[root(other.Host)]; {
		case isPort(other) && known:
			all[i] = append(all[i], m)
		case isPort(other):
			at[root(other.Host)] = len(all)
			all = append(all, []member{m})
		case e == &k.A:
			all = append(all, []member{m})
		default:
			all[len(all)-1] = append(all[len(all)-1], m) // its a was the last
		}
	})
	return all
}

// addressLinks numbers the segments of which no end says anything about addresses: 10.0.n.0/24 and fd00:0:0:n::/64.
func (d *decoder) addressLinks(t *Topology) {
	var taken []netip.Prefix
	for _, h := range t.Hosts {
		for _, a := range h.Addresses {
			taken = append(taken, netip.PrefixFrom(a, a.BitLen()))
		}
	}
	t.ends(func(_ string, _ *Link, e *End) {
		for _, p := range e.Addresses {
			taken = append(taken, p.Masked())
		}
	})
	number := 0
	for _, members := range t.segments() {
		if slices.ContainsFunc(members, func(m member) bool { return m.end.addressed }) {
			continue
		}
		v4, v6, ok := free(&number, taken)
		if !ok {
			d.Refuse(members[0].path, "gets no addresses, as those of others fill 10.0.0.0/8 or fd00::/48", "addresses of its own")
			return
		}
		if len(members) > 254 {
			v4 = netip.Prefix{}
		}
		tooSmall := slices.ContainsFunc(members, func(m member) bool { return m.link.MTU > 0 && m.link.MTU < 1280 })
		a4, a6 := v4.Addr(), v6.Addr()
		for _, m := range members {
			if a4, a6 = a4.Next(), a6.Next(); v4.IsValid() {
				m.end.Addresses = append(m.end.Addresses, netip.PrefixFrom(a4, 24))
			}
			if !tooSmall {
				m.end.Addresses = append(m.end.Addresses, netip.PrefixFrom(a6, 64))
			}
		}
	}
}

// free gives the prefixes of the next number that nothing overlaps with. Not ok: there is none.
func free(number *int, taken []netip.Prefix) (v4, v6 netip.Prefix, ok bool) {
	for *number < 1<<16-1 {
		*number++
		hi, lo := byte(*number>>8), byte(*number)
		v4 = netip.PrefixFrom(netip.AddrFrom4([4]byte{10, hi, lo, 0}), 24)
		v6 = netip.PrefixFrom(netip.AddrFrom16([16]byte{0: 0xfd, 6: hi, 7: lo}), 64)
		if !slices.ContainsFunc(taken, func(p netip.Prefix) bool { return p.Overlaps(v4) || p.Overlaps(v6) }) {
			return v4, v6, true
		}
	}
	return netip.Prefix{}, netip.Prefix{}, false
}
