package handoff

import (
	"context"
	"net/netip"
	"time"

	"baton/controller/network"
	"baton/controller/sessions"
	"baton/controller/switches"
	"baton/controller/topology"
	"baton/openflow"
	"baton/packet"
)

// On is a network and its switches, as the manager needs them.
func On(n *network.Network, s *switches.Server) Network { return &attached{n, s} }

type attached struct {
	network *network.Network
	sw      *switches.Server
}

func (a *attached) Locate(address netip.Addr, mac packet.MAC) (Place, bool) {
	h, ok := a.network.Locate(address)
	if !ok {
		h, ok = a.network.Host(mac)
	}
	return Place{sessions.Point(h.At), h.MAC}, ok
}

func (a *attached) Path(from, to Place) ([]Hop, error) {
	hops, err := a.network.Path(from.host(), to.host())
	if err != nil {
		return nil, err
	}
	all := make([]Hop, len(hops))
	for i, h := range hops {
		all[i] = Hop(h)
	}
	return all, nil
}

func (p Place) host() topology.Host { return topology.Host{MAC: p.MAC, At: topology.Point(p.Point)} }

func (a *attached) Core(sw uint64) bool {
	s, ok := a.sw.Switch(sw)
	return ok && s.Core
}

func (a *attached) Ensure(ctx context.Context, from, to Place) error {
	return a.network.Ensure(ctx, from.host(), to.host())
}

func (a *attached) Commit(ctx context.Context, sw uint64, messages ...openflow.Message) error {
	return a.sw.Commit(ctx, sw, messages...)
}

func (a *attached) Send(sw uint64, m openflow.Message) error { return a.sw.Send(sw, m) }

// Attach adds the manager to a server's handlers and watchers. It must be called before Serve, behind the network's New and before its Forward
// is added.
func (m *Manager) Attach(s *switches.Server) {
	s.Handle(func(p switches.Packet) bool {
		return p.Whole && m.Packet(sessions.Point{Switch: p.Switch, Port: p.Port}, p.Data)
	})
	s.Watch(func(e switches.Event) {
		switch {
		case e.Kind == switches.FlowGone:
			m.FlowGone(e.Switch.ID, e.Flow)
		case (e.Kind == switches.Up || e.Kind == switches.RoleState) && e.Switch.Role != openflow.RoleSlave:
			m.run.Go(func() { m.prepare(e.Switch.ID) })
		}
	})
}

// preparing bounds the entries of a switch that has come.
const preparing = 5 * time.Second

// prepare gives a switch that has come its entries: those that watch, and those of sessions that were handed over.
func (m *Manager) prepare(sw uint64) {
	ctx, cancel := context.WithTimeout(m.ctx, preparing)
	defer cancel()
	err := m.SwitchUp(ctx, sw)
	if err == nil {
		var all []openflow.Message
		for _, e := range append(m.Watched(), m.Wanted(sw)...) {
			all = append(all, e)
		}
		err = m.o.Network.Commit(ctx, sw, all...)
	}
	if err != nil && m.ctx.Err() == nil {
		m.o.Log.Error("a switch does not send the sessions of services to the controller", "switch", sw, "err", err)
	}
}
