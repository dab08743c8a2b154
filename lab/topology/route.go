package topology

import (
	"cmp"
	"container/heap"
	"net/netip"
	"slices"
	"time"
)

// hop leads from one host to a neighbour on a segment.
type hop struct {
	from, to int // hosts
	delay    time.Duration
	via      netip.Addr // of the neighbour
}

// destination is a prefix and the hosts that have it.
type destination struct {
	prefix  netip.Prefix
	own     bool // an address of the holders themselves, not a prefix of their link
	holders []int
}

// route gives the hosts without routes of their own those of the shortest paths: fewest hops, then least delay, then the
// order of the file. Only hosts that forward are passed through. A host that does not forward and has one way out gets a
// default route, which also leads to what the file does not know of.
func (t *Topology) route() {
	if t.explicit {
		return
	}
	index := make(map[string]int)
	for i, h := range t.Hosts {
		index[h.Name] = i
	}
	for _, is4 := range []bool{true, false} {
		into := make([][]hop, len(t.Hosts)) // by the host that they lead to
		for _, members := range t.segments() {
			members = slices.DeleteFunc(members, func(m member) bool { return t.Host(m.end.Host) == nil }) // a switch routes nothing
			for _, h := range t.hops(index, members, is4) {
				into[h.to] = append(into[h.to], h)
			}
		}
		routes := make([][]Route, len(t.Hosts))
		for _, d := range t.destinations(index, is4) {
			for host, h := range t.shortest(into, d) {
				if h != nil && !slices.Contains(d.holders, host) {
					routes[host] = append(routes[host], Route{d.prefix, h.via})
				}
			}
		}
		for i, h := range t.Hosts {
			if !h.ownRoutes {
				h.Routes = append(h.Routes, aggregate(h, routes[i], is4)...)
			}
		}
	}
}

// aggregate makes a default route of routes that all have the same next hop, from a host that does not forward.
func aggregate(h *Host, routes []Route, is4 bool) []Route {
	if h.Forward || len(routes) == 0 || slices.ContainsFunc(routes, func(r Route) bool { return r.Via != routes[0].Via }) {
		return routes
	}
	to := netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	if is4 {
		to = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	return []Route{{to, routes[0].Via}}
}

// hops are those between each two ends of a segment that share a prefix of the family.
func (t *Topology) hops(index map[string]int, members []member, is4 bool) []hop {
	var all []hop
	for _, m := range members {
		delays := t.delaysFrom(m)
		for _, n := range members {
			if n.end == m.end || n.end.Host == m.end.Host {
				continue
			}
			if via := neighbour(m.end, n.end, is4); via.IsValid() {
				all = append(all, hop{index[m.end.Host], index[n.end.Host], delays[n.end], via})
			}
		}
	}
	return all
}

// neighbour is the first address of an end that the other one reaches over the segment.
func neighbour(from, to *End, is4 bool) netip.Addr {
	for _, p := range from.Addresses {
		for _, q := range to.Addresses {
			if q.Addr().Is4() == is4 && p.Contains(q.Addr()) {
				return q.Addr()
			}
		}
	}
	return netip.Addr{}
}

// delaysFrom adds up the delays from an end to all others of its segment, along the fastest paths through bridges.
func (t *Topology) delaysFrom(m member) map[*End]time.Duration {
	delays := make(map[*End]time.Duration)
	best := make(map[string]time.Duration) // to each bridge and switch
	isPort := t.ports()
	type step struct {
		link  *Link
		end   *End // sends into the link
		delay time.Duration
	}
	queue := []step{{m.link, m.end, 0}}
	for len(queue) > 0 {
		s := queue[0]
		queue = queue[1:]
		far, delay := &s.link.B, s.delay+s.link.AToB.Delay
		if s.end == &s.link.B {
			far, delay = &s.link.A, s.delay+s.link.BToA.Delay
		}
		if !isPort(far) {
			if d, known := delays[far]; !known || delay < d {
				delays[far] = delay
			}
			continue
		}
		if d, known := best[far.Host]; known && d <= delay {
			continue
		}
		best[far.Host] = delay
		for _, k := range t.Links {
			for _, e := range []*End{&k.A, &k.B} {
				if e.Host == far.Host && e != far && isPort(e) {
					queue = append(queue, step{k, e, delay})
				}
			}
		}
	}
	return delays
}

// destinations are all prefixes of links and addresses on loopbacks, in the order of the file.
func (t *Topology) destinations(index map[string]int, is4 bool) []destination {
	var all []destination
	at := make(map[netip.Prefix]int)
	add := func(p netip.Prefix, host string) {
		if p.Addr().Is4() != is4 {
			return
		}
		i, known := at[p]
		if !known {
			i = len(all)
			at[p] = i
			all = append(all, destination{prefix: p, own: p.Bits() == p.Addr().BitLen()})
		}
		if h := index[host]; !slices.Contains(all[i].holders, h) {
			all[i].holders = append(all[i].holders, h)
		}
	}
	for _, members := range t.segments() {
		for _, m := range members {
			for _, p := range m.end.Addresses {
				if t.Host(m.end.Host) != nil {
					add(p.Masked(), m.end.Host)
				}
			}
		}
	}
	for _, h := range t.Hosts {
		for _, a := range h.Addresses {
			add(netip.PrefixFrom(a, a.BitLen()), h.Name)
		}
	}
	return all
}

// shortest finds each host's first hop on its best path to a holder of the destination: Dijkstra's algorithm from the
// holders against the direction of the packets.
func (t *Topology) shortest(into [][]hop, d destination) []*hop {
	first := make([]*hop, len(t.Hosts))
	done := make([]bool, len(t.Hosts))
	var q pathQueue
	for _, h := range d.holders {
		heap.Push(&q, path{host: h})
	}
	for order := 1; q.Len() > 0; {
		p := heap.Pop(&q).(path)
		if done[p.host] {
			continue
		}
		done[p.host], first[p.host] = true, p.first
		if !t.Hosts[p.host].Forward && !(p.hops == 0 && d.own) {
			continue // it has a path, and is on nobody else's
		}
		for i := range into[p.host] {
			h := &into[p.host][i]
			if !done[h.from] {
				heap.Push(&q, path{h.from, p.hops + 1, p.delay + h.delay, order, h})
				order++
			}
		}
	}
	return first
}

// path is one from a host to a holder.
type path struct {
	host  int
	hops  int
	delay time.Duration
	order int
	first *hop
}

type pathQueue []path

func (q pathQueue) Len() int { return len(q) }
func (q pathQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].hops, q[j].hops), cmp.Compare(q[i].delay, q[j].delay), cmp.Compare(q[i].order, q[j].order)) < 0
}
func (q pathQueue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }
func (q *pathQueue) Push(x any)   { *q = append(*q, x.(path)) }
func (q *pathQueue) Pop() any {
	old := *q
	p := old[len(old)-1]
	*q = old[:len(old)-1]
	return p
}
