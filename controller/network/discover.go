package network

import (
	"context"
	"errors"
	"slices"
	"time"

	"baton/controller/lldp"
	"baton/controller/neighbour"
	"baton/controller/switches"
	"baton/controller/topology"
	"baton/openflow"
	"baton/packet"
)

// basics are the entries that every switch has: what hosts and switches ask and announce goes to the controller, and so does what meets no entry.
func basics() []*openflow.FlowMod {
	entry := func(priority uint16, match openflow.Match) *openflow.FlowMod {
		m := openflow.NewFlowMod(openflow.FlowAdd)
		m.Priority, m.Match, m.Cookie = priority, match, switches.Cookie(switches.ModuleDiscovery, 0)
		m.Instructions = []openflow.Instruction{openflow.InstructionApplyActions{Actions: []openflow.Action{
			openflow.ActionOutput{Port: openflow.PortController, MaxLen: openflow.MaxLenNoBuffer},
		}}}
		return m
	}
	kind := func(t packet.EtherType) openflow.Match {
		return openflow.Match{}.Uint(openflow.FieldEthType, uint64(t))
	}
	nd := func(t uint64) openflow.Match {
		return kind(packet.EtherTypeIPv6).Uint(openflow.FieldIPProto, 58).Uint(openflow.FieldICMPv6Type, t)
	}
	return []*openflow.FlowMod{
		entry(switches.PriorityMiss, nil),
		entry(switches.PriorityDiscovery, kind(lldp.EtherType)),
		entry(switches.PriorityDiscovery, kind(neighbour.EtherTypeARP)),
		entry(switches.PriorityDiscovery, nd(neighbour.NeighbourSolicit)),
		entry(switches.PriorityDiscovery, nd(neighbour.NeighbourAdvertise)),
	}
}

// prepare reads what a switch has of this network and changes the difference.
func (n *Network) prepare(ctx context.Context, sw switches.Switch) error {
	flows, err := n.sw.Flows(ctx, sw.ID, switches.Owner, switches.OwnerMask)
	if err != nil {
		return err
	}
	var own, installed []openflow.FlowStats
	for _, f := range flows {
		switch f.Cookie & switches.ModuleMask {
		case switches.Cookie(switches.ModuleDiscovery, 0):
			own = append(own, f)
		case switches.Cookie(switches.ModulePaths, 0):
			installed = append(installed, f)
		}
	}
	messages := switches.Difference(own, basics(), nil)
	n.mu.Lock()
	lost, remove := n.table.Adopt(sw.ID, installed)
	n.mu.Unlock()
	messages = append(messages, remove...)
	for _, s := range lost {
		messages = append(messages, s.Message())
	}
	n.o.Log.Info("flow entries of a switch", "switch", sw.Name, "found", len(flows), "changed", len(messages))
	if len(messages) > 0 {
		if err := n.sw.Commit(ctx, sw.ID, messages...); err != nil {
			return err
		}
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range lost {
		n.table.Done(s)
	}
	return nil
}

// event follows the switches.
func (n *Network) event(e switches.Event) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	id := e.Switch.ID
	switch e.Kind {
	case switches.Up, switches.RoleState:
		if e.Switch.Role == openflow.RoleSlave {
			n.g.SwitchDown(id)
			return
		}
		ports := make([]topology.Port, 0, len(e.Switch.Ports))
		for _, p := range e.Switch.Ports {
			if p.No < openflow.PortMax {
				ports = append(ports, n.port(id, p))
			}
		}
		n.changed(n.g.SwitchUp(now, id, ports))
		n.mark(n.table.All()) // what the switch was not there for
		n.awake()
		n.announce(now, id, ports...)
	case switches.Down:
		n.g.SwitchDown(id)
	case switches.PortState:
		p := n.port(id, e.Port.Port)
		if e.Port.Reason == openflow.PortDelete {
			n.changed(n.g.PortRemoved(now, id, p.Number))
			delete(n.limits, topology.Point{Switch: id, Port: p.Number})
			return
		}
		n.changed(n.g.PortChanged(now, id, p))
		n.announce(now, id, p)
	}
}

func (n *Network) port(id uint64, p openflow.Port) topology.Port {
	return topology.Port{
		Number: p.No, Name: p.Name, MAC: p.MAC, Edge: n.o.Edge(topology.Point{Switch: id, Port: p.No}),
		Up: p.Config&openflow.PortConfigPortDown == 0 && p.State&openflow.PortStateLinkDown == 0,
	}
}

// announce sends discovery frames out of ports that may face switches.
func (n *Network) announce(now time.Time, id uint64, ports ...topology.Port) {
	for _, p := range ports {
		if p.Up && !p.Edge && p.Number < openflow.PortMax {
			n.counts.discovery.Add(1)
			n.out(topology.Point{Switch: id, Port: p.Number}, n.o.Key.Frame(id, p.Number, p.MAC, now, n.o.Rules.LinkTimeout))
		}
	}
}

// orphanLife is how long entries stay whose destination has not been seen since this controller started.
const orphanLife = 10 * time.Minute

// beat sends the discovery frames of all switches, and looks after hosts that have been silent.
func (n *Network) beat() {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.g.Switches(now) {
		if !s.Up {
			continue
		}
		for _, p := range s.Ports {
			n.announce(now, s.ID, p.Port)
		}
	}
	for _, p := range n.g.Silent(now, mostProbes) {
		n.probe(p)
	}
	n.orphans(now)
}

// mostProbes is how many silent hosts are asked at a time.
const mostProbes = 100

// orphans derives the places of hosts from entries of a controller before this one, and removes entries whose hosts do not appear.
func (n *Network) orphans(now time.Time) {
	known := func(m packet.MAC) bool { _, ok := n.g.Host(m); return ok }
	edges := map[topology.Point]bool{}
	for _, at := range n.g.Edges(now) {
		edges[at] = true
	}
	n.earlier = slices.DeleteFunc(n.earlier, func(h topology.Host) bool {
		if !known(h.MAC) && (!edges[h.At] || !n.g.Mature(now, h.At)) {
			return false
		}
		n.changed(n.g.Presume(now, h.MAC, h.At, h.Addresses...))
		return true
	})
	for k, since := range n.table.Orphans(now, known) {
		switch {
		case now.Sub(since) > orphanLife:
			n.gone = append(n.gone, k)
			n.awake()
		case now.Sub(since) > 2*n.o.Interval: // the links are known by then
			if at, ok := n.table.Leaf(k, func(p topology.Point) bool { return edges[p] }); ok {
				n.changed(n.g.Presume(now, k.Dst, at))
			}
		}
	}
}

// beacon takes a discovery frame.
func (n *Network) beacon(p switches.Packet) {
	now := time.Now()
	n.mu.Lock()
	defer n.mu.Unlock()
	b, err := n.reader.Read(p.Data, now)
	if err != nil {
		n.refuse(p, err)
		return
	}
	from, to := topology.Point{Switch: b.Switch, Port: b.Port}, point(p)
	c, why := n.g.SeeLink(now, from, to)
	if why != "" {
		n.o.Log.Warn("a link is refused", "from", from.String(), "to", to.String(), "why", why)
		return
	}
	n.changed(c)
	if len(c.Added) > 0 && !c.Usable { // the other direction need not wait for the next round
		if back, ok := n.g.PortAt(to); ok {
			n.announce(now, to.Switch, back)
		}
	}
}

func (n *Network) refuse(p switches.Packet, err error) {
	switch {
	case errors.Is(err, lldp.ErrForged):
		n.counts.forged.Add(1)
	case errors.Is(err, lldp.ErrReplayed):
		n.counts.replayed.Add(1)
	case errors.Is(err, lldp.ErrOld):
		n.counts.old.Add(1)
	case errors.Is(err, lldp.ErrUnsigned):
		n.counts.unsigned.Add(1)
		return // of an ordinary neighbour
	default:
		n.counts.malformed.Add(1)
	}
	if n.limit(point(p)).log.take(time.Now()) {
		n.o.Log.Warn("a discovery frame is refused", "at", point(p).String(), "err", err)
	}
}
