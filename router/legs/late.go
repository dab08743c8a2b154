package legs

import (
	"time"

	kernel "baton/datapath/router"
)

// A surrogate measures its first RTT from its SYN-ACK to our ACK. If we answered at once, that would be microseconds:
// BBR would compute its window from that for ten seconds, and a client beyond the 200 ms minimum RTO would be sent
// everything twice. So we delay our ACK as if from a distant client (legs.handshake).

// mostHeld bounds the delayed ACKs per surrogate, as each connection sits in its SYN queue. Beyond that, the earliest
// are sent ahead of time.
const mostHeld = openBatch

// handleAnswerLocked handles a SYN-ACK.
func (m *Manager) handleAnswerLocked(e kernel.Event, now time.Time) {
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
		m.completeLegsLocked(p, o)
		return
	}
	p.held = append(p.held, o)
	p.due = earlierTime(p.due, now.Add(p.bounds.Handshake))
}

func earlierTime(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// isHolding reports whether the leg's ACK is still delayed.
func (p *pool) isHolding(o *opening) bool { return !o.completed && p.opening[o.leg.Number] == o }

// completeDueLocked completes the legs whose delay is over.
func (m *Manager) completeDueLocked(p *pool, now time.Time) {
	var due []*opening
	for len(p.held) > 0 {
		o := p.held[0]
		over := o.answered.Add(p.bounds.Handshake)
		if p.isHolding(o) && len(p.held) <= mostHeld && now.Before(over) {
			p.due = earlierTime(p.due, over)
			break
		}
		p.held = p.held[1:]
		if p.isHolding(o) {
			o.completed = true // it may be held twice
			due = append(due, o)
		}
	}
	m.completeLegsLocked(p, due...)
}

// completeFirstLocked completes a leg of the class whose delay is not over. False: there is none.
func (m *Manager) completeFirstLocked(p *pool, classID uint8) bool {
	for _, o := range p.held {
		if o.leg.Class == classID && p.isHolding(o) {
			return m.completeLegsLocked(p, o)
		}
	}
	return false
}

// completeEarlyLocked completes some legs of the class whose delay is not over: the first ones.
func (m *Manager) completeEarlyLocked(p *pool, classID uint8, n int) {
	var first []*opening
	for _, o := range p.held {
		if len(first) >= n {
			break
		}
		if o.leg.Class == classID && p.isHolding(o) {
			first = append(first, o)
		}
	}
	m.completeLegsLocked(p, first...)
}

// completeLegsLocked makes legs idle and acknowledges their SYN-ACKs. False: none was still answered.
func (m *Manager) completeLegsLocked(p *pool, openings ...*opening) (up bool) {
	if len(openings) == 0 {
		return false
	}
	legs := make([]kernel.Leg, len(openings))
	for i, o := range openings {
		o.completed, legs[i] = true, o.leg
	}
	done, err := m.o.Kernel.CompleteLegs(p.id, legs)
	if err != nil {
		m.o.Log.Error("cannot complete legs", "surrogate", p.name, "err", err)
	}
	for _, s := range done {
		if s.State != kernel.Idle {
			continue // it was reset; its event will follow
		}
		if err := m.o.Wire.ACK(s, m.o.Timestamp()); err != nil {
			// the surrogate retransmits its SYN-ACK
			m.o.Log.Debug("cannot acknowledge leg", "surrogate", p.name, "err", err)
		}
		m.noteUpLocked(p, s)
		up = true
	}
	m.flushWireLocked(p)
	return up
}

// flushWireLocked sends SYNs and ACKs that wait.
func (m *Manager) flushWireLocked(p *pool) {
	if err := m.o.Wire.Flush(); err != nil {
		m.o.Log.Debug("cannot send to surrogate", "surrogate", p.name, "err", err) // what is lost is repeated
	}
}
