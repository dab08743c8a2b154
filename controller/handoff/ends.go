package handoff

import (
	"context"
	"fmt"
	"strings"
	"time"

	"baton/api"
	"baton/controller/sessions"
	"baton/controller/switches"
	"baton/openflow"
	"baton/packet"
)

// over ends a session that was handed over: its entries go, and it is forgotten. The lock is held.
func (m *Manager) over(h *handoff, why string) {
	if m.handoffs[h.id] != h {
		return
	}
	for sw := range h.switches() {
		if m.o.Network.Send(sw, remove(h.id)) != nil {
			m.remember(sw, h.id)
		}
	}
	m.counts.Ended++
	m.o.Log.Debug("a handed-over session is over", "client", h.client.From, "surrogate", h.record.Surrogate, "why", why)
	m.forget(h)
	m.o.Forget(h.id)
}

// finished takes a client's FIN, or its RST, which may come before the controller has heard of the surrogate's acknowledgement. The lock is held.
func (m *Manager) finished(h *handoff) {
	if h.closed || h.plan == nil {
		return
	}
	h.closed = true
	if h.stage == handedOver {
		m.endSoon(h)
	}
}

// endSoon has the entries of a session that its client has closed end soon after its last packet. What still comes from the surrogate keeps them: the client
// may have closed one direction alone, and a RST may be somebody else's. The lock is held.
func (m *Manager) endSoon(h *handoff) { m.send(h.plan.Core, h.plan.ending(m.timeouts().Idle)) }

// retire ends what a session was that a new one with the same addresses has replaced. The lock is held.
func (m *Manager) retire(s *sessions.Session) {
	h := m.byClient[s]
	if h == nil {
		h = m.byLeg[s]
	}
	if h != nil && h.stage == sent && s == h.client { // the client has ended its session before the controller has heard of the acknowledgement
		m.finish(h)
	}
	switch {
	case h == nil:
	case h.stage == handedOver:
		m.over(h, "its addresses are used again")
		return
	default:
		m.fail(h, failure{"reused", "the addresses are used again"})
	}
	m.gone(s)
}

// FlowGone notes that an entry has ended. It returns false for an entry of another module.
func (m *Manager) FlowGone(sw uint64, r *openflow.FlowRemoved) bool {
	if r.Cookie&switches.ModuleMask != cookie(0) {
		return false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.counts.Packets += r.Packets
	m.counts.Bytes += r.Octets
	h := m.handoffs[uint32(r.Cookie)]
	if h == nil || r.Reason != openflow.RemovedIdleTimeout && r.Reason != openflow.RemovedHardTimeout {
		return true
	}
	if h.stage == handedOver {
		m.over(h, "idle")
	}
	return true
}

// SwitchUp removes what is left in a switch of handoffs that were undone while it was not connected.
func (m *Manager) SwitchUp(ctx context.Context, sw uint64) error {
	m.mu.Lock()
	var messages []openflow.Message
	ids := m.leftover[sw]
	for id := range ids {
		messages = append(messages, remove(id))
	}
	delete(m.leftover, sw)
	m.mu.Unlock()
	if len(messages) == 0 {
		return nil
	}
	err := m.o.Network.Commit(ctx, sw, messages...)
	if err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		for id := range ids {
			m.remember(sw, id)
		}
	}
	return err
}

// Wanted are the entries of handed-over sessions that a switch should have, for a switch that has come back with an empty table.
func (m *Manager) Wanted(sw uint64) []*openflow.FlowMod {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []*openflow.FlowMod
	for _, h := range m.handoffs {
		if h.stage != handedOver || h.plan == nil {
			continue
		}
		for _, mod := range h.plan.Mods {
			if mod.Switch == sw && mod.lasting() {
				all = append(all, mod.FlowMod)
			}
		}
	}
	return all
}

// lasting reports whether an entry is needed as long as the session lasts.
func (m Mod) lasting() bool {
	return (m.Priority == switches.PriorityHanded || m.Priority == switches.PriorityEnd) && len(m.Instructions) > 0
}

// Reroute brings handed-over sessions to the paths of the moment, after the topology has changed.
func (m *Manager) Reroute(ctx context.Context) {
	m.mu.Lock()
	var all []*handoff
	for _, h := range m.handoffs {
		if h.stage == handedOver {
			all = append(all, h)
		}
	}
	m.mu.Unlock()
	for _, h := range all {
		m.reroute(ctx, h)
	}
}

func (m *Manager) reroute(ctx context.Context, h *handoff) {
	m.mu.Lock()
	client, surrogate, old := placeOf(&h.client.Opener), placeOf(&h.leg.Other), h.plan
	m.mu.Unlock()
	path, err := m.o.Network.Path(client, surrogate)
	if err != nil {
		return // a later change brings a path
	}
	plan, err := h.pair.Plan(h.id, path, m.o.Network.Core, m.timeouts(), m.o.Pin)
	if err != nil {
		m.o.Log.Warn("a handed-over session has no path with the actions that it needs", "client", h.client.From, "err", err)
		return
	}
	had := map[string]Mod{}
	if old != nil { // else another controller has made it: all entries are sent, and are there already unless the path is another
		for _, mod := range old.Mods {
			if mod.lasting() {
				had[mod.key()] = mod
			}
		}
	}
	var changed []Mod
	for _, mod := range plan.Mods {
		if !mod.lasting() {
			continue
		}
		if before, ok := had[mod.key()]; !ok || !switches.SameInstructions(before.Instructions, mod.Instructions) {
			changed = append(changed, mod)
		}
		delete(had, mod.key())
	}
	if len(changed)+len(had) == 0 {
		return
	}
	for _, mod := range had {
		changed = append(changed, Mod{mod.Label, mod.Switch, strictly(mod.FlowMod)})
	}
	m.mu.Lock()
	m.unwatch(h)
	h.plan = plan
	m.mu.Unlock()
	for sw, messages := range bySwitch(changed) {
		if err := m.o.Network.Commit(ctx, sw, messages...); err != nil {
			m.o.Log.Warn("cannot bring a handed-over session to its path", "client", h.client.From, "err", err)
		}
	}
}

func (m Mod) key() string { return fmt.Sprintf("%x %x", m.Switch, []byte(m.Match)) }

// passSeconds is how long the entries of a session that the request router serves itself outlive its last packet.
const passSeconds = 60

// pass has a session's packets meet the controller no more: the request router serves it itself. The lock is held.
func (m *Manager) pass(s *sessions.Session) {
	m.counts.Proxied++
	if s.Closed() || !s.Other.Seen {
		return
	}
	a, b, w, id := placeOf(&s.Opener), placeOf(&s.Other), s.Way, m.number()
	m.run.Go(func() {
		path, err := m.o.Network.Path(a, b)
		if err != nil {
			return // its packets pass the controller
		}
		ctx, cancel := context.WithTimeout(m.ctx, cleaning)
		defer cancel()
		for i := len(path) - 1; i >= 0; i-- { // the last first: no packet comes to the controller half-way
			hop := path[i]
			err := m.o.Network.Commit(ctx, hop.Switch,
				passing(id, matches(openflow.Match{}.Port(hop.In), tupleOf(w)), outputFrom(hop.In, hop.Out)),
				passing(id, matches(openflow.Match{}.Port(hop.Out), tupleOf(w.Back())), outputFrom(hop.Out, hop.In)))
			if err != nil {
				m.o.Log.Debug("a proxied session passes the controller", "session", w.String(), "err", err)
				return
			}
		}
	})
}

func passing(id uint32, match openflow.Match, actions ...openflow.Action) *openflow.FlowMod {
	e := entry(switches.PriorityPassed, id, match, actions...)
	e.Idle = passSeconds
	return e
}

// mostTrail is how many packets before a handoff are in its sequence diagram.
const mostTrail = 16

// trail notes a packet of a client's session. The lock is held.
func (m *Manager) trail(now time.Time, seen sessions.Seen, f packet.Frame) {
	s := seen.Session
	if s.Kind != sessions.Client || len(s.Trail) >= mostTrail || m.byClient[s] != nil {
		return
	}
	from, to := "client", "router"
	if seen.Back {
		from, to = to, from
	}
	label := strings.ReplaceAll(f.TCP().Flags().String(), "|", ", ")
	if n := len(f.Payload()); n > 0 {
		label = fmt.Sprintf("%d bytes", n)
	}
	at := now.Sub(s.Since)
	s.Trail = append(s.Trail, api.ControllerStep{At: at, Kind: "packet", From: from, To: "controller", Label: label})
	if seen.Fate == sessions.Forward {
		s.Trail = append(s.Trail, api.ControllerStep{At: at, Kind: "packet-out", From: "controller", To: to, Label: label})
	}
}
