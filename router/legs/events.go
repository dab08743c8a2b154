package legs

import (
	"errors"
	"os"
	"time"

	"baton/datapath"
	kernel "baton/datapath/router"
)

// endedBatch is how many legs are freed together.
const endedBatch = 64

// nextEvent waits for an event until then, as kernel.Events.Next does.
type nextEvent func(until time.Time) (kernel.Event, error)

// readEvents handles events until then. False: they are closed.
func (m *Manager) readEvents(next nextEvent, until time.Time) bool {
	defer m.freeEndedLegs()
	for {
		e, err := next(until)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return true
		case errors.Is(err, datapath.ErrClosed):
			return false
		case err != nil:
			m.o.Log.Error("cannot read event", "err", err)
		default:
			m.handleEvent(e)
		}
		if time.Now().After(until) {
			return true // more may be due than can be read
		}
	}
}

// Handle handles an event from the data path.
func (m *Manager) Handle(e kernel.Event) {
	m.handleEvent(e)
	m.freeEndedLegs()
}

// freeEndedLegs frees the legs whose ends have been handled.
func (m *Manager) freeEndedLegs() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.freeEndedLocked()
}

// handleEvent leaves legs that have ended in m.ended.
func (m *Manager) handleEvent(e kernel.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch at := m.o.Now().Add(-e.Ago); {
	case e.TooBig.MTU != 0:
		_ = m.o.Wire.TooBig(e.TooBig) // once more for what the sender repeats
	case e.Answered:
		m.handleAnswerLocked(e, at)
	case e.Up:
		m.handleUpLocked(e)
	case e.Stale:
		m.handleStaleLocked(e, at)
	default:
		m.handleEndLocked(e, at)
	}
	if len(m.ended) >= endedBatch {
		m.freeEndedLocked()
	}
}

func (m *Manager) handleUpLocked(e kernel.Event) {
	p := m.owner[e.Splice]
	if p == nil {
		return
	}
	s, err := m.o.Kernel.Splice(e.Splice)
	if err != nil || p.id != e.Surrogate || s.Surrogate != e.Surrogate ||
		s.State == kernel.Opening || s.State == kernel.Answered {
		return // of an earlier leg with this splice, which was freed before the event was read
	}
	m.noteUpLocked(p, s)
}

// noteUpLocked handles a leg that is up.
func (m *Manager) noteUpLocked(p *pool, s kernel.Splice) {
	o := p.opening[s.Number]
	p.removeOpening(s.Number)
	p.backoff, p.retryAt = 0, time.Time{}
	m.o.Event(p.name, "opened")
	if o != nil && (p.serverMSS != s.ServerMSS || o.leg.Class != s.Class) {
		m.learnFactsLocked(p, s, o.leg.Class)
	}
	if s.Keep {
		m.noteKeptUpLocked(p, o, s)
	} else if c := p.classes[s.Class]; c != nil && len(c.waiters) > 0 {
		c.waiters[0] <- nil
		c.waiters = c.waiters[1:]
		c.granted++
	}
}

// learnFactsLocked records the surrogate's properties from an established leg.
func (m *Manager) learnFactsLocked(p *pool, s kernel.Splice, class uint8) {
	p.serverMSS = s.ServerMSS
	if class&1 != 0 && s.Class&1 == 0 {
		p.noTS = true
		delete(p.classes, class)
		p.ensureClass(s.Class)
	}
	m.reports.addChange()
}

func (m *Manager) handleEndLocked(e kernel.Event, now time.Time) {
	p := m.owner[e.Splice]
	if p == nil {
		m.freeOrphanLocked(e)
		return
	}
	s, err := m.o.Kernel.Splice(e.Splice)
	if err != nil || s.State != kernel.Dead {
		return // already freed and reused
	}
	m.o.Event(p.name, e.End.String())
	if o := p.opening[e.Splice]; o != nil {
		o.answerWaiters(ErrNoLeg)
	}
	switch e.End {
	case kernel.Refused:
		m.noteFailureLocked(p, s.Keep, "refused", now)
	case kernel.Failed:
		m.o.Event(p.name, "failed handoff")
		m.reports.addDoubt(p.name)
	case kernel.ClosedIdle, kernel.ResetIdle:
		if limit := p.idleLimitOf(e.Requests); limit.noteClose(e.Idle, p.bounds.Idle, now) {
			m.o.Log.Info("surrogate closes idle connections",
				"surrogate", p.name, "after", e.Idle, "served", e.Requests > 0, "renewing after", limit.learnt)
			p.renewAt = now
		}
		if e.Requests == 0 {
			m.noteUnusedCloseLocked(p, e, now)
		}
	case kernel.Closed:
		if s.Keep && s.Client.Port() == 0 { // its client has moved, and may come back on the same port
			_ = m.o.Wire.End(s)
		}
	case kernel.ClientReset:
		if s.SndUna != s.SndNxt { // the client's RST fits only one of two possible states
			_ = m.o.Wire.End(s)
		}
	case kernel.Expired, kernel.Replaced, kernel.Abandoned, kernel.Retired, kernel.Cut,
		kernel.Malformed:
		if e.Band < kernel.BandFar { // perhaps for lack of a queue
			m.hasQueueLocked(p, e.Class, e.Band)
		}
		_ = m.o.Wire.End(s)
		m.notifyClient(s, e.End)
	}
	learnt := p.requests.learnt
	if p.requests.noteEnd(e.Requests, e.Announced, now) {
		m.limitRequestsLocked(p)
	}
	if p.requests.learnt != learnt {
		m.o.Log.Info("surrogate closes after a number of requests",
			"surrogate", p.name, "renewing after", p.requests.learnt, "before", learnt)
	}
	m.ended = append(m.ended, kernel.Leg{Number: e.Splice, Server: s.Server, Router: s.Router})
	if s.Keep {
		m.freeEndedLocked() // its client may wait for the next one from the same port
	}
}

// limitRequestsLocked writes a surrogate's request limit to the kernel.
func (m *Manager) limitRequestsLocked(p *pool) {
	if err := m.o.Kernel.LimitRequests(p.id, p.requests.inForce()); err != nil {
		m.o.Log.Error("cannot set request limit", "surrogate", p.name, "err", err)
	}
}

// freeOrphanLocked frees a splice of a removed surrogate.
func (m *Manager) freeOrphanLocked(e kernel.Event) {
	s, err := m.o.Kernel.Splice(e.Splice)
	if err != nil || s.State != kernel.Dead {
		return
	}
	if err := m.o.Kernel.FreeLeg(e.Splice, s.Server, s.Router); err == nil {
		m.free = append(m.free, e.Splice)
	}
}

// Count is the number of a surrogate's legs by state.
type Count struct{ Idle, Active, Opening int }

// Count counts a surrogate's legs.
func (m *Manager) Count(id uint16) (Count, error) {
	counted, err := m.o.Kernel.Surrogate(id)
	if err != nil {
		return Count{}, err
	}
	c := Count{Active: counted.Active}
	for _, n := range counted.Idle {
		c.Idle += n
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if p := m.pools[id]; p != nil {
		c.Opening = len(p.opening)
	}
	return c, nil
}
