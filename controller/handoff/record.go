package handoff

import (
	"time"

	"baton/api"
	"baton/controller/sessions"
)

// Record is a session that was handed over, as another controller needs it: to know it, to bring it to other paths, and to end it. What is not in it
// follows from it and from the network.
type Record struct {
	ID        uint32        `json:"id"`
	Pair      Pair          `json:"pair"`
	Client    Place         `json:"client"`
	Surrogate Place         `json:"surrogate"`
	Name      string        `json:"name"` // of the surrogate
	Request   string        `json:"request,omitempty"`
	Began     time.Time     `json:"began"`
	Took      time.Duration `json:"took_ns"`
	Switches  []uint64      `json:"switches"` // that have entries of it
}

// recorded is the record of a handoff that is complete. The lock is held.
func (h *handoff) recorded() Record {
	r := Record{
		ID: h.id, Pair: h.pair, Client: placeOf(&h.client.Opener), Surrogate: placeOf(&h.leg.Other), Name: h.record.Surrogate, Request: h.record.Request,
		Began: h.record.Began, Took: h.record.Took,
	}
	for sw := range h.switches() {
		r.Switches = append(r.Switches, sw)
	}
	return r
}

// Restore has the manager know the sessions of another one that ruled before it, and no others: sessions that it had itself, and that have no record
// any more, ended when it did not rule. Entries in the switches stay as they are; Reroute compares them with the network.
func (m *Manager) Restore(all []Record) {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := map[uint32]bool{}
	for _, r := range all {
		known[r.ID] = true
	}
	for id, h := range m.handoffs {
		if h.stage == handedOver && !known[id] {
			m.forget(h)
		}
	}
	for _, r := range all {
		if m.handoffs[r.ID] == nil {
			m.adopt(r)
		}
	}
}

// adopt makes a session of its record, unless its addresses are used by another already. The lock is held.
func (m *Manager) adopt(r Record) {
	c, l, now := r.Pair.Client, r.Pair.Leg, time.Now()
	at := func(p Place) sessions.End { return sessions.End{At: p.Point, MAC: p.MAC, Seen: true} }
	client := &sessions.Session{
		Way: sessions.Way{From: c.Peer, To: c.Local}, Kind: sessions.Client, State: api.ControllerHandedOff, Since: r.Began, Last: now, Held: true, Committed: true, Handoff: uint64(r.ID),
		Opener: at(r.Client), Other: at(Place{r.Pair.Router, c.LocalMAC}),
	}
	leg := &sessions.Session{
		Way: sessions.Way{From: l.Local, To: l.Peer}, Kind: sessions.Leg, State: api.ControllerHandedOff, Leg: sessions.Used, Since: r.Began, Last: now,
		Opener: at(Place{r.Pair.Router, l.LocalMAC}), Other: at(r.Surrogate),
	}
	if !m.table.Restore(client) {
		return
	}
	if !m.table.Restore(leg) {
		m.table.Remove(client)
		return
	}
	h := &handoff{
		id: r.ID, stage: handedOver, answered: true, client: client, leg: leg, pair: r.Pair, had: r.Switches, cancel: func(error) {},
		record: api.ControllerHandoff{
			ID: uint64(r.ID), Client: c.Peer, Service: c.Local, Leg: api.RouterLeg{Local: l.Local, Remote: l.Peer}, Surrogate: r.Name, Request: r.Request, Began: r.Began, Took: r.Took,
		},
	}
	m.handoffs[h.id], m.byClient[client], m.byLeg[leg] = h, h, h
	m.remembered(h)
	m.publish(client)
}

// remembered adds a handoff to the history. The lock is held.
func (m *Manager) remembered(h *handoff) {
	m.history = append(m.history, h)
	if most := m.o.History; len(m.history) > most {
		m.history = append(m.history[:0], m.history[len(m.history)-most:]...)
	}
}

// forget has the manager know a handed-over session no more. The lock is held.
func (m *Manager) forget(h *handoff) {
	delete(m.handoffs, h.id)
	delete(m.byClient, h.client)
	delete(m.byLeg, h.leg)
	m.table.Remove(h.client)
	m.table.Remove(h.leg)
	m.gone(h.client)
}
