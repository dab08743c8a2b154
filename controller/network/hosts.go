package network

import (
	"context"
	"net/netip"
	"time"

	"baton/controller/lldp"
	"baton/controller/neighbour"
	"baton/controller/paths"
	"baton/controller/switches"
	"baton/controller/topology"
	"baton/openflow"
	"baton/packet"
)

// handle takes discovery frames, learns hosts, and answers their questions. What is left for others is unicast, from a host that is where it
// should be or from another switch.
func (n *Network) handle(p switches.Packet) bool {
	if len(p.Data) < packet.EthernetSize {
		return true
	}
	if lldp.Is(p.Data) {
		n.beacon(p)
		return true
	}
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	at, dst := point(p), packet.Ethernet(p.Data).Dst()
	group := dst[0]&1 != 0
	if n.g.Faces(now, at) == topology.FacesSwitch {
		// Groups are flooded by the controller alone, never over links; questions are taken where the host is.
		return group || packet.Ethernet(p.Data).Type() == neighbour.EtherTypeARP
	}
	m, asks := neighbour.Parse(p.Data)
	if !n.learn(now, p, m, asks) {
		n.counts.dropped.Add(1)
		return true
	}
	switch {
	case asks:
		n.resolve(now, p, m)
	case group:
		n.flood(now, at, p.Data)
	default:
		return false
	}
	return true
}

// learn learns the sender of a packet; it reports whether the packet may go on.
func (n *Network) learn(now time.Time, p switches.Packet, m neighbour.Message, asks bool) bool {
	src := packet.Ethernet(p.Data).Src()
	if src == MAC {
		return false // of this controller, from a switch that does not know it yet
	}
	address := m.Address
	if !asks {
		if h, ok := n.g.Host(src); (!ok || h.At != point(p)) && !n.g.Mature(now, point(p)) {
			return true // perhaps from another switch, which will introduce itself
		}
		address = neighbour.Sender(p.Data)
		// A host may forward for others, whose addresses are not its own if they have a host here.
		if owner, ok := n.g.Locate(address); ok && owner.MAC != src {
			address = netip.Addr{}
		}
	}
	c, verdict, probe := n.g.SeeHost(now, src, address, point(p))
	n.changed(c)
	if verdict == topology.Probing {
		if probe.MAC != (packet.MAC{}) {
			n.o.Log.Warn("a host claims the place or the address of another, which is asked", "mac", src.String(), "address", address,
				"at", point(p).String(), "owner", probe.MAC.String(), "owner_at", probe.At.String())
		}
		n.probe(probe)
	}
	return verdict != topology.Refused && verdict != topology.Probing
}

// probe asks a host whether it is still where it is known.
func (n *Network) probe(p topology.Probe) {
	if p.MAC == (packet.MAC{}) || !p.Address.IsValid() {
		return
	}
	n.counts.probes.Add(1)
	n.out(p.At, neighbour.Build(neighbour.Message{MAC: MAC, Target: p.Address, To: p.MAC}))
}

// resolve answers a question for an address, or passes it on.
func (n *Network) resolve(now time.Time, p switches.Packet, m neighbour.Message) {
	at := point(p)
	if m.To == MAC {
		return // the answer of a host that was asked
	}
	if !n.limit(at).neighbour.take(now) {
		n.counts.limited.Add(1)
		return
	}
	if to, ok := n.g.Host(m.To); ok { // an answer, or a host that makes sure of another
		n.counts.forwarded.Add(1)
		n.out(to.At, p.Data)
		return
	}
	host, known := n.g.Locate(m.Target)
	if m.Answer || !known || host.MAC == m.MAC {
		n.flood(now, at, p.Data)
		return
	}
	n.counts.answered.Add(1)
	answer := neighbour.Message{Answer: true, MAC: host.MAC, Address: m.Target, Target: m.Target, To: m.MAC, Asker: m.Address}
	n.out(at, neighbour.Build(answer))
}

// flood sends a frame out of all ports that hosts are at, but for that where it came in. No tree of links is needed, as it passes none.
func (n *Network) flood(now time.Time, from topology.Point, frame []byte) {
	if !n.limit(from).flood.take(now) {
		n.counts.limited.Add(1)
		return
	}
	n.counts.flooded.Add(1)
	var ports []openflow.PortNo
	id := uint64(0)
	send := func() {
		if len(ports) > 0 {
			n.outs(id, frame, ports...)
		}
	}
	for _, at := range n.g.Edges(now) {
		if at == from {
			continue
		}
		if at.Switch != id {
			send()
			id, ports = at.Switch, nil
		}
		ports = append(ports, at.Port)
	}
	send()
}

// job is a path that is being installed.
type job struct {
	packets []switches.Packet
}

// Bounds of packets that wait, for one path and for paths at the same time; and between repairs of one path.
const (
	mostPackets = 64
	mostJobs    = 1024
	repairPause = 2 * time.Second
)

// Forward sends on a packet that no other handler has taken, and installs its path both ways, so that those behind it do not come here. It
// should be the last handler.
func (n *Network) Forward(p switches.Packet) bool {
	if len(p.Data) < packet.EthernetSize || !p.Whole {
		return true
	}
	e := packet.Ethernet(p.Data)
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	dst, ok := n.g.Host(e.Dst())
	if !ok {
		n.ask(now, p)
		return true
	}
	if dst.At == point(p) || n.ctx.Err() != nil {
		return true // a hub, whose hosts hear each other
	}
	pair := paths.Pair{Src: e.Src(), Dst: e.Dst()}
	if j := n.jobs[pair]; j != nil {
		if len(j.packets) >= mostPackets {
			n.counts.dropped.Add(1)
			return true
		}
		j.packets = append(j.packets, p)
		return true
	}
	// A packet that an entry of another module has sent here says nothing of the path's entries.
	missed := p.Cookie == switches.Cookie(switches.ModuleDiscovery, 0)
	if n.Paths.Caches() && n.table.Cached(pair) && (!missed || now.Sub(n.repairs[pair]) < repairPause) {
		n.counts.forwarded.Add(1)
		n.out(dst.At, p.Data)
		return true
	}
	if len(n.jobs) >= mostJobs {
		n.counts.dropped.Add(1)
		return true
	}
	n.jobs[pair] = &job{[]switches.Packet{p}}
	repair := n.table.Cached(pair) || !n.isAt(pair.Src, point(p))
	n.repairs[pair] = now
	n.tasks.Go(func() { n.connect(pair, point(p), repair) })
	return true
}

// isAt tells whether a host is at a port.
func (n *Network) isAt(mac packet.MAC, at topology.Point) bool {
	h, ok := n.g.Host(mac)
	return ok && h.At == at
}

// patience bounds the installation of a path.
const patience = 5 * time.Second

// connect installs a path and sends the packets that wait for it.
func (n *Network) connect(pair paths.Pair, from topology.Point, repair bool) {
	ctx, cancel := context.WithTimeout(n.ctx, patience)
	defer cancel()
	var err error
	if repair {
		err = n.Paths.Repair(ctx, from, pair.Src, pair.Dst)
	} else {
		err = n.both(ctx, pair)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	packets := n.jobs[pair].packets
	delete(n.jobs, pair)
	dst, ok := n.g.Host(pair.Dst)
	if err != nil || !ok {
		n.o.Log.Debug("no path", "from", pair.Src.String(), "to", pair.Dst.String(), "err", err)
		n.counts.dropped.Add(uint64(len(packets)))
		return
	}
	for _, p := range packets {
		n.counts.forwarded.Add(1)
		n.out(dst.At, p.Data)
	}
}

// both installs a path and the one back, at the same time.
func (n *Network) both(ctx context.Context, pair paths.Pair) error {
	back := make(chan error, 1)
	go func() { back <- n.Paths.Ensure(ctx, pair.Dst, pair.Src) }()
	err := n.Paths.Ensure(ctx, pair.Src, pair.Dst)
	if e := <-back; e != nil {
		n.o.Log.Debug("no path back", "err", e)
	}
	return err
}

// ask asks for a destination that is not known, and keeps the packet for a moment.
func (n *Network) ask(now time.Time, p switches.Packet) {
	target := neighbour.Receiver(p.Data)
	first, kept := n.waiting.add(now, p)
	if !kept {
		n.counts.dropped.Add(1)
		return
	}
	n.counts.held.Add(1)
	if first && target.IsValid() && !target.IsMulticast() {
		n.flood(now, point(p), neighbour.Build(neighbour.Message{MAC: MAC, Target: target}))
	}
}

// release handles the packets that waited for a host.
func (n *Network) release(h topology.Host) {
	packets := n.waiting.take(h.MAC)
	if len(packets) == 0 {
		return
	}
	n.tasks.Go(func() {
		for _, p := range packets {
			n.Forward(p)
		}
	})
}
