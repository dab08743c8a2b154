package topology

import (
	"bytes"
	"net/netip"
	"slices"
	"time"

	"baton/packet"
)

// Verdict is what became of a frame of a host.
type Verdict int

// The verdicts.
const (
	Refused Verdict = iota // the frame must not be forwarded on its sender's word
	Known                  // nothing new
	Learnt                 // a new host, address or place
	Probing                // another place or owner is known, which must be asked: see Probe
)

// Probe is a question to a host at the place where it is known: an ARP request or a neighbour solicitation for Address from there. Its answer
// is told to [Graph.SeeHost] like every frame of a host.
type Probe struct {
	At      Point
	MAC     packet.MAC // of the host that is asked
	Address netip.Addr // invalid: the host has none, so that it cannot be asked and is believed to be gone only if its port is down
}

// subject is what a probe is about: a host's place, or an address's owner.
type subject struct {
	mac     packet.MAC // of the host that is asked
	address netip.Addr // invalid: the place of mac
}

// probe is a claim that waits for the host it contradicts.
type probe struct {
	until    time.Time
	claimant packet.MAC // that claims the address, or mac itself
	at       Point      // where it was seen
	asked    bool       // the host had an address to be asked for
}

// SeeHost notes a frame of a host at a port: its MAC and, if the frame says so, its IP address. Probe is to be sent if the verdict is Probing and
// Probe.MAC is not zero; frames of the same claim while a probe runs send none.
func (g *Graph) SeeHost(now time.Time, mac packet.MAC, address netip.Addr, at Point) (Change, Verdict, Probe) {
	p := g.port(at)
	switch {
	case mac[0]&1 != 0 || mac == (packet.MAC{}):
		g.counts.InvalidAddress++
		return Change{}, Refused, Probe{}
	case p == nil || !p.Up:
		g.counts.HostUnknown++
		return Change{}, Refused, Probe{}
	case g.linked(at):
		g.counts.HostAtLink++
		return Change{}, Refused, Probe{}
	case !p.Edge && now.Sub(p.since) < g.rules.Settle:
		g.counts.HostTooEarly++
		return Change{}, Refused, Probe{}
	}
	p.faced = now
	h := g.hosts[mac]
	if h == nil {
		return g.learn(now, mac, address, at, p)
	}
	if h.At != at {
		return g.move(now, h, address, at)
	}
	h.Seen, h.Presumed = now, false
	if refused := g.answered(mac, netip.Addr{}); refused {
		g.counts.MovesRefused++
	}
	return g.bind(now, h, address, Known)
}

// learn adds a host.
func (g *Graph) learn(now time.Time, mac packet.MAC, address netip.Addr, at Point, p *port) (Change, Verdict, Probe) {
	if len(g.hosts) >= g.rules.Hosts || p.hosts >= g.rules.PortHosts {
		g.counts.HostFull++
		return Change{}, Refused, Probe{}
	}
	h := &Host{MAC: mac, At: at, Seen: now}
	g.hosts[mac] = h
	p.hosts++
	c, v, probe := g.bind(now, h, address, Learnt)
	if len(c.Hosts) == 0 {
		c.Hosts = append(c.Hosts, *h)
	}
	return c, v, probe
}

// move decides a host that is seen elsewhere.
func (g *Graph) move(now time.Time, h *Host, address netip.Addr, at Point) (Change, Verdict, Probe) {
	if old := g.port(h.At); old == nil || !old.Up || g.linked(h.At) || h.Presumed {
		return g.moveTo(now, h, address, at)
	}
	key := subject{mac: h.MAC}
	if running := g.probes[key]; running != nil {
		return Change{}, Probing, Probe{}
	}
	q := Probe{At: h.At, MAC: h.MAC, Address: address.Unmap().WithZone("")}
	if len(h.Addresses) > 0 {
		q.Address = h.Addresses[0]
	}
	g.probes[key] = &probe{now.Add(g.rules.Probe), h.MAC, at, q.Address.IsValid()}
	return Change{}, Probing, q
}

// moveTo accepts a move.
func (g *Graph) moveTo(now time.Time, h *Host, address netip.Addr, at Point) (Change, Verdict, Probe) {
	if old := g.port(h.At); old != nil {
		old.hosts--
	}
	h.At, h.Seen, h.Presumed = at, now, false
	g.port(at).hosts++
	g.counts.Moves++
	delete(g.probes, subject{mac: h.MAC})
	c, v, probe := g.bind(now, h, address, Learnt)
	if len(c.Hosts) == 0 {
		c.Hosts = append(c.Hosts, *h)
	}
	return c, v, probe
}

// bind notes that a host, which is at its place, uses an address.
func (g *Graph) bind(now time.Time, h *Host, address netip.Addr, v Verdict) (Change, Verdict, Probe) {
	address = address.Unmap().WithZone("")
	if !address.IsValid() || address.IsUnspecified() || address.IsMulticast() {
		return Change{}, v, Probe{}
	}
	owner, taken := g.owners[address]
	if taken && owner == h.MAC {
		if g.answered(h.MAC, address) {
			g.counts.ClaimsRefused++
		}
		return Change{}, v, Probe{}
	}
	if taken {
		if other := g.hosts[owner]; other != nil && g.port(other.At) != nil && g.port(other.At).Up {
			return g.claim(now, h, other, address)
		}
		g.unbind(address)
		g.counts.Claims++
	}
	if len(h.Addresses) >= g.rules.Addresses {
		g.counts.HostFull++
		return Change{}, v, Probe{}
	}
	g.owners[address] = h.MAC
	h.Addresses = insert(h.Addresses, address)
	return Change{Hosts: []Host{*h}}, Learnt, Probe{}
}

// claim begins to ask the owner of an address that another host uses.
func (g *Graph) claim(now time.Time, h, owner *Host, address netip.Addr) (Change, Verdict, Probe) {
	key := subject{owner.MAC, address}
	if g.probes[key] != nil {
		return Change{}, Probing, Probe{}
	}
	g.probes[key] = &probe{now.Add(g.rules.Probe), h.MAC, h.At, true}
	return Change{}, Probing, Probe{owner.At, owner.MAC, address}
}

// answered ends a probe because the host that it asked was heard at its place.
func (g *Graph) answered(mac packet.MAC, address netip.Addr) bool {
	key := subject{mac, address}
	if g.probes[key] == nil {
		return false
	}
	delete(g.probes, key)
	return true
}

// decide accepts the claims whose probes nobody has answered.
func (g *Graph) decide(now time.Time) Change {
	var c Change
	for _, key := range g.sortedProbes() {
		p := g.probes[key]
		if now.Before(p.until) {
			continue
		}
		delete(g.probes, key)
		h, at := g.hosts[p.claimant], g.port(p.at)
		if h == nil || at == nil || !at.Up || g.linked(p.at) {
			continue
		}
		if !key.address.IsValid() {
			if !p.asked {
				continue // a host that cannot be asked moves when its port is down
			}
			moved, _, _ := g.moveTo(now, h, netip.Addr{}, p.at)
			c.add(moved)
			continue
		}
		if h.At != p.at {
			continue // the claimant has moved itself
		}
		if g.owners[key.address] == key.mac {
			c.Hosts = append(c.Hosts, g.unbind(key.address)...)
		}
		bound, _, _ := g.bind(now, h, key.address, Learnt)
		g.counts.Claims++
		c.add(bound)
	}
	return c
}

func (g *Graph) sortedProbes() []subject {
	all := make([]subject, 0, len(g.probes))
	for key := range g.probes {
		all = append(all, key)
	}
	slices.SortFunc(all, func(a, b subject) int {
		if c := bytes.Compare(a.mac[:], b.mac[:]); c != 0 {
			return c
		}
		return a.address.Compare(b.address)
	})
	return all
}

// unbind takes an address from its owner, whose new state it returns.
func (g *Graph) unbind(address netip.Addr) []Host {
	h := g.hosts[g.owners[address]]
	delete(g.owners, address)
	if h == nil {
		return nil
	}
	h.Addresses = slices.DeleteFunc(slices.Clone(h.Addresses), func(a netip.Addr) bool { return a == address })
	return []Host{*h}
}

func insert(list []netip.Addr, a netip.Addr) []netip.Addr {
	i, _ := slices.BinarySearchFunc(list, a, netip.Addr.Compare)
	return slices.Insert(slices.Clone(list), i, a)
}

// forget removes a host.
func (g *Graph) forget(h *Host) {
	for _, a := range h.Addresses {
		delete(g.owners, a)
	}
	if p := g.port(h.At); p != nil {
		p.hosts--
	}
	delete(g.hosts, h.MAC)
	for key := range g.probes {
		if key.mac == h.MAC {
			delete(g.probes, key)
		}
	}
}

// Locate returns the host with an address.
func (g *Graph) Locate(address netip.Addr) (Host, bool) {
	mac, ok := g.owners[address.Unmap().WithZone("")]
	if !ok {
		return Host{}, false
	}
	return g.Host(mac)
}

// Host returns the host with a MAC address.
func (g *Graph) Host(mac packet.MAC) (Host, bool) {
	if h := g.hosts[mac]; h != nil {
		return *h, true
	}
	return Host{}, false
}

// Hosts returns all hosts, in order of their MAC addresses.
func (g *Graph) Hosts() []Host {
	all := make([]Host, 0, len(g.hosts))
	for _, h := range g.hosts {
		all = append(all, *h)
	}
	slices.SortFunc(all, func(a, b Host) int { return bytes.Compare(a.MAC[:], b.MAC[:]) })
	return all
}

func (g *Graph) hostsAt(at Point) []*Host {
	var all []*Host
	for _, h := range g.hosts {
		if h.At == at {
			all = append(all, h)
		}
	}
	slices.SortFunc(all, func(a, b *Host) int { return bytes.Compare(a.MAC[:], b.MAC[:]) })
	return all
}

// Mature tells whether a port has been up for so long that a switch at its other end would have confirmed a link: what comes in there is then from
// a host. Before that, packets that another switch forwards could be taken for a host's.
func (g *Graph) Mature(now time.Time, at Point) bool {
	p := g.port(at)
	return p != nil && (p.Edge || now.Sub(p.since) >= g.rules.LinkTimeout)
}

// Silent returns the probes of hosts that have said nothing for half their life, at most so many. A host whose traffic passes without the
// controller answers, and stays.
func (g *Graph) Silent(now time.Time, most int) []Probe {
	var all []Probe
	for _, h := range g.Hosts() {
		if len(all) == most {
			break
		}
		if len(h.Addresses) > 0 && now.Sub(h.Seen) > g.rules.HostTimeout/2 && g.PortUp(h.At) {
			all = append(all, Probe{h.At, h.MAC, h.Addresses[0]})
		}
	}
	return all
}

// Presume notes that a host was at a port when another controller ruled, with addresses that no other host has. Its first frame corrects that
// without a question. Addresses may come later than the place.
func (g *Graph) Presume(now time.Time, mac packet.MAC, at Point, addresses ...netip.Addr) Change {
	if h := g.hosts[mac]; h != nil && h.Presumed && h.At == at && len(h.Addresses) == 0 && len(addresses) > 0 {
		g.presumed(now, h, addresses)
		return Change{Hosts: []Host{*h}}
	}
	p := g.port(at)
	if g.hosts[mac] != nil || mac[0]&1 != 0 || p == nil || !p.Up || g.linked(at) || len(g.hosts) >= g.rules.Hosts || p.hosts >= g.rules.PortHosts {
		return Change{}
	}
	h := &Host{MAC: mac, At: at, Seen: now, Presumed: true}
	g.hosts[mac] = h
	p.hosts++
	g.presumed(now, h, addresses)
	return Change{Hosts: []Host{*h}}
}

func (g *Graph) presumed(now time.Time, h *Host, addresses []netip.Addr) {
	for _, a := range addresses {
		if _, taken := g.owners[a]; !taken {
			g.bind(now, h, a, Learnt)
		}
	}
}
