package legs

import (
	"slices"
	"time"

	kernel "baton/datapath/router"
)

// A surrogate measures its first RTT from its SYN-ACK to our ACK. If we answered at once, that would be microseconds: BBR would
// compute its window from that for ten seconds, and a client beyond the 200 ms minimum RTO would be sent everything twice. So we
// delay our ACK as if from a distant client (legs.handshake).

// mostHeld bounds the delayed ACKs per surrogate, as each connection sits in its SYN queue. Beyond that, the earliest are sent
// ahead of time.
const mostHeld = openBatch

// answered handles a SYN-ACK.
func (m *Manager) answered(e kernel.Event, now time.Time) {
	p := m.owner[e.Splice]
	if p == nil || p.id != e.Surrogate {
		return
	}
	o := p.opening[e.Splice]
	if o == nil {
		return // of an earlier leg with this splice
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

// held lists the legs whose ACK is delayed, earliest first.
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

// completeDue completes the legs whose delay is over.
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

// complete acknowledges a SYN-ACK and makes the leg idle.
func (m *Manager) complete(p *pool, o *opening) {
	o.completed = true
	s, err := m.o.Kernel.Splice(o.leg.Number)
	if err != nil || s.State != kernel.Answered {
		return // it was reset; its event will follow
	}
	if err := m.o.Wire.ACK(s, m.o.Timestamp()); err != nil {
		m.o.Log.Debug("cannot acknowledge leg", "surrogate", p.name, "err", err) // the surrogate retransmits its SYN-ACK
	}
	if _, err := m.o.Kernel.CompleteLeg(s.Number, p.id); err != nil {
		m.o.Log.Error("cannot complete leg", "surrogate", p.name, "err", err)
	}
}
