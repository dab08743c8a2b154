package legs

import (
	"slices"
	"time"

	kernel "baton/datapath/router"
)

// A surrogate takes the time from its SYN-ACK to our ACK for the round trip to its peer. At once is some microseconds, and then
// BBR computes its window from them for ten seconds, and a client further away than the 200 ms of the least timeout is sent
// everything twice. So our ACK comes when that of a client far away would (legs.handshake).

// mostHeld is how many SYN-ACKs of a surrogate wait for their ACK at most: each is in its queue of half-open connections. When
// more legs are opened, the earliest are acknowledged before their time.
const mostHeld = openBatch

// answered tells of a SYN-ACK.
func (m *Manager) answered(e kernel.Event, now time.Time) {
	p := m.owner[e.Splice]
	if p == nil || p.id != e.Surrogate {
		return
	}
	o := p.opening[e.Splice]
	if o == nil {
		return // of the leg that had this splice before
	}
	o.answered, o.completed = now, false
	if c := p.classes[e.Class]; c != nil && len(c.waiters) > 0 {
		m.complete(p, o)
		return
	}
	p.due = earlier(p.due, now.Add(p.bounds.Handshake))
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// held are the legs whose SYN-ACK waits, the earliest first.
func (p *pool) held() []*opening {
	var held []*opening
	for _, o := range p.opening {
		if !o.answered.IsZero() && !o.completed {
			held = append(held, o)
		}
	}
	slices.SortFunc(held, func(a, b *opening) int { return a.answered.Compare(b.answered) })
	return held
}

// completeDue takes up the legs whose time has come.
func (m *Manager) completeDue(p *pool, now time.Time) {
	held := p.held()
	for i, o := range held {
		due := o.answered.Add(p.bounds.Handshake)
		if len(held)-i <= mostHeld && now.Before(due) {
			p.due = earlier(p.due, due)
			return
		}
		m.complete(p, o)
	}
}

// complete acknowledges a SYN-ACK, and has the leg idle.
func (m *Manager) complete(p *pool, o *opening) {
	o.completed = true
	s, err := m.o.Kernel.Splice(o.leg.Number)
	if err != nil || s.State != kernel.Answered {
		return // it was reset, and its event is on the way
	}
	if err := m.o.Wire.ACK(s, m.o.Timestamp()); err != nil {
		m.o.Log.Debug("leg is not acknowledged", "surrogate", p.name, "err", err) // the surrogate repeats its SYN-ACK
	}
	if _, err := m.o.Kernel.CompleteLeg(s.Number, p.id); err != nil {
		m.o.Log.Error("leg is not taken up", "surrogate", p.name, "err", err)
	}
}
