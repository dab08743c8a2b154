package legs

import (
	"context"
	"sync"
	"time"

	kernel "baton/datapath/router"
	"baton/router/config"
)

const (
	// Used-up legs are replaced at each tick: the shorter it is, the fewer must be kept ready. Apache's queue holds 511
	// connections without data; each more takes a thread.
	tickEvery  = 4 * time.Millisecond
	restEvery  = 100 * time.Millisecond // for a pool at rest
	renewEvery = 250 * time.Millisecond
	routeEvery = 5 * time.Second
)

const renewBatch = 128 // legs of a queue checked at once

// Run maintains the pools until ctx is done. It closes the events. No goroutine of it remains when it returns.
func (m *Manager) Run(ctx context.Context, events *kernel.Events) {
	var running sync.WaitGroup
	defer running.Wait()
	running.Go(func() {
		<-ctx.Done()
		events.Close() // makes a blocked Next return
	})
	running.Go(func() { m.watchRoutes(ctx) })
	m.maintain(ctx, events.Next)
}

// maintain is Run with any source of events, which ends with datapath.ErrClosed.
func (m *Manager) maintain(ctx context.Context, next nextEvent) {
	var reporting sync.WaitGroup
	defer reporting.Wait()
	reporting.Go(m.reports.deliverReports)
	defer m.reports.close()
	for ctx.Err() == nil {
		// one wake-up for what is due and for the events since the last: at thousands of legs a second each costs more
		// than a leg
		rest := max(tickEvery, m.Tick().Sub(m.o.Now()))
		if !m.readEvents(next, time.Now().Add(rest)) {
			return
		}
	}
}

// Tick does all work that is due, and returns the time of the next.
func (m *Manager) Tick() (next time.Time) {
	next = m.tickOnce()
	for m.makeQueues() { // whose legs can be opened now
		next = m.tickOnce()
	}
	return next
}

func (m *Manager) tickOnce() (next time.Time) {
	next, isDue := m.tickPools()
	if isDue != nil {
		m.refreshRoutes(isDue)
	}
	return next
}

// tickPools does the work on the pools. isDue tells whose routes are due to be looked up; nil: none.
func (m *Manager) tickPools() (next time.Time, isDue func(*pool) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Now()
	next = now.Add(restEvery)
	for _, p := range m.pools {
		if !now.Before(p.due) {
			m.tickPoolLocked(p, now)
			m.flushWireLocked(p)
			if p.lacksRoute() {
				isDue = (*pool).lacksRoute
			}
		}
		next = earlierTime(next, p.due)
	}
	if now.Sub(m.renewed) >= renewEvery {
		m.renewed = now
		m.endShortageLocked(now)
		for _, p := range m.pools {
			m.renewPoolLocked(p, now)
		}
	}
	if now.Sub(m.routed) >= routeEvery {
		m.routed = now // before the lookups: RoutesChanged may be called meanwhile
		isDue = func(*pool) bool { return true }
	}
	return next, isDue
}

// tickPoolLocked opens missing legs and retransmits SYNs.
func (m *Manager) tickPoolLocked(p *pool, now time.Time) {
	p.due = now.Add(restEvery)
	m.repeatSYNsLocked(p, now)
	m.completeDueLocked(p, now) // before the idle legs are counted
	counted, err := m.o.Kernel.Surrogate(p.id)
	if err != nil {
		m.o.Log.Error("cannot maintain leg pool", "surrogate", p.name, "err", err)
		return
	}
	if !p.usable || p.local {
		return
	}
	for id := range counted.Missed {
		if counted.Missed[id] > 0 && p.classes[uint8(id)] == nil && (!p.noTS || id&1 == 0) {
			p.ensureClass(uint8(id)).missed = counted.Missed[id] - 1
		}
	}
	usual := p.usualClass(m.defaultClass(p.server.Addr()))
	for id, c := range p.classes {
		u := c.countUsage(counted, id)
		if u.missed > 0 {
			c.lastUsed = now
		}
		since := now.Sub(c.spentAt)
		short, busy := c.countMissing(now, u, p.idleFloor(id, usual, now), p.bounds.Max, p.reuse)
		if p.reuse != config.ReuseAlways && !p.isOnDemand() { // else used legs come back
			m.completeEarlyLocked(p, id, countLacking(u, since))
		}
		underway := c.countUnderway(p.bounds.Handshake)
		if p.isOnDemand() {
			if short, underway, busy = 0, 0, false; id == usual && p.early.takeTest(now) {
				short = 1
			}
		}
		if busy {
			p.due = now // again at the next tick
		}
		if now.Before(p.retryAt) {
			continue
		}
		if short > 0 {
			p.due = now
		}
		for i := range min(short+underway-p.openings[id], openBatch) {
			if p.legs >= p.bounds.Max && p.reuse == config.ReuseSafe {
				m.evictIdleLocked(p) // which new clients cannot use
			}
			if err := m.openLegLocked(p, id, p.bounds.Handshake, now); err != nil {
				m.o.Log.Debug("cannot open leg", "surrogate", p.name, "err", err)
				if i == 0 && u.popped == 0 && u.missed == 0 {
					p.due = now.Add(restEvery) // nothing has changed
				}
				break
			}
		}
	}
}

// usualClass is the class that is always kept ready, of a surrogate that may refuse timestamps.
func (p *pool) usualClass(byDefault uint8) uint8 {
	if p.noTS {
		return byDefault &^ 1
	}
	return byDefault
}

// idleFloor is the number of idle legs of a class kept without demand.
func (p *pool) idleFloor(id, usual uint8, now time.Time) int {
	switch {
	case id == usual:
		return p.bounds.Min
	case now.Sub(p.classes[id].lastUsed) < rareClassLife:
		return min(p.bounds.Min, 1+p.bounds.Min/4)
	}
	return 0
}

// repeatSYNsLocked retransmits unanswered SYNs and finally gives up.
func (m *Manager) repeatSYNsLocked(p *pool, now time.Time) {
	if now.Before(p.repeatAt) {
		return
	}
	p.repeatAt = now.Add(restEvery)
	for number, o := range p.opening {
		held := !o.answered.IsZero() && !o.completed
		since := o.sent
		if o.completed {
			since = o.answered.Add(p.bounds.Handshake)
		}
		if held || now.Sub(since) < synTimeout<<(o.tries-1) || m.catchUpLocked(p, number, now) {
			continue
		}
		if o.tries < synTries {
			o.tries++
			o.sent = now
			_ = m.o.Wire.SYN(o.leg, m.o.MSS[o.leg.Class>>1])
			continue
		}
		o.answerWaiters(ErrNoLeg)
		m.freeLegLocked(p, number, o.leg.Server, o.leg.Router)
		m.o.Event(p.name, "timeout")
		m.noteFailureLocked(p, o.leg.Keep, "timeout", now)
	}
}

// catchUpLocked reports whether a seemingly unanswered leg has a newer state in the data path: its event may still be
// queued or may have been lost. A leg that already serves a client must not be freed.
func (m *Manager) catchUpLocked(p *pool, number uint32, now time.Time) bool {
	s, err := m.o.Kernel.Splice(number)
	if err != nil {
		return true // unknown: leave it
	}
	e := kernel.Event{Splice: number, Surrogate: p.id, Class: s.Class}
	switch s.State {
	case kernel.Opening:
		return false
	case kernel.Answered:
		m.handleAnswerLocked(e, now)
	case kernel.Dead: // the kernel will report it again
	default:
		m.handleUpLocked(e)
	}
	return true
}

// notifyClient sends the client of a leg that was ended here a response or RST, where it would not notice otherwise.
func (m *Manager) notifyClient(s kernel.Splice, end kernel.End) {
	if s.Client.Port() == 0 {
		return
	}
	switch {
	case end == kernel.Malformed && s.Unanswered:
		_ = m.o.Wire.Refuse(s)
	case end == kernel.Malformed, end == kernel.Expired, end == kernel.Cut,
		end == kernel.Abandoned && s.SndUna != s.SndBase:
		_ = m.o.Wire.Reset(s.VIP, s.Client, s.RcvNxt-s.ToServerAck)
	}
}

// renewPoolLocked retires legs that have been idle too long, surplus ones, and those of disabled surrogates.
func (m *Manager) renewPoolLocked(p *pool, now time.Time) {
	counted, err := m.o.Kernel.Surrogate(p.id)
	if err != nil {
		return
	}
	if p.requests.liftDue(now) {
		m.limitRequestsLocked(p)
	}
	m.renewKeptLocked(p, false, now)
	due := !now.Before(p.renewAt) || p.isOnDemand()
	for id, c := range p.classes {
		m.findQueuesLocked(p, id, c)
		due = due || p.countSurplus(c, counted.Idle[id]) > 0
	}
	if due {
		p.fresh.startRound()
		p.used.startRound()
		// legs that become idle later are due later
		p.renewAt = now.Add(min(p.fresh.renewAfter(p.bounds.Idle), p.used.renewAfter(p.bounds.Idle)))
	}
	usual := p.usualClass(m.defaultClass(p.server.Addr()))
	for id, c := range p.classes {
		if due {
			m.renewClassLocked(p, id, counted.Idle[id], counted.Fresh[id], now)
		}
		if p.idleFloor(id, usual, now) == 0 && counted.Idle[id] == 0 &&
			len(c.waiters) == 0 && now.Sub(c.lastUsed) > rareClassLife {
			delete(p.classes, id)
		}
	}
	if p.left && p.legs == 0 {
		delete(m.pools, p.id)
	}
}

// tolerateIdle is the number of idle legs tolerated for a target.
func tolerateIdle(want int) int { return want + want/2 }

// countSurplus is the number of a class's idle legs to retire.
func (p *pool) countSurplus(c *class, idle int) int {
	if !p.usable {
		return idle
	}
	if p.isOnDemand() {
		return 0 // each is for a request that is about to take it, or closed soon
	}
	if p.reuse == config.ReuseAlways {
		return max(0, idle-tolerateIdle(max(c.sizer.target, c.fresh.target)))
	}
	// fresh and used legs count separately
	return max(0, idle-tolerateIdle(c.sizer.target)-tolerateIdle(c.fresh.target))
}

// renewClassLocked checks the legs that have been idle longest.
func (m *Manager) renewClassLocked(p *pool, id uint8, idle, fresh int, now time.Time) {
	c := p.classes[id]
	for _, band := range c.listQueues() {
		legs, surplus := idle-fresh, p.countSurplus(c, idle)
		if band == kernel.BandFresh {
			legs = fresh
			if p.usable {
				surplus = max(0, min(surplus, fresh-tolerateIdle(c.fresh.target)))
			}
		}
		idle -= m.renewQueueLocked(p, id, band, legs, surplus, now)
	}
}

// renewQueueLocked retires surplus legs of a queue of at most so many, and those idle too long. It returns the number
// retired.
func (m *Manager) renewQueueLocked(p *pool, id, band uint8, legs, surplus int, now time.Time) (retired int) {
	if legs > renewBatch {
		p.renewAt = now // the rest follows next time
	}
	first, kept := uint32(0), 0
	for range min(legs, renewBatch) {
		s, ok, err := m.popIdleLocked(p, id, band)
		if err != nil && !p.unread {
			p.unread = true
			m.o.Log.Error("cannot renew idle legs", "surrogate", p.name, "err", err)
		}
		if err != nil || !ok {
			break
		}
		again := kept > 0 && s.Number == first
		keep := again || m.mayKeepLocked(p, &s, now)
		if keep && retired >= surplus {
			if err := m.o.Kernel.PushIdle(p.id, id, band, s.Number); err != nil {
				m.retireLegLocked(p, s)
			}
			if again {
				break // all have been seen
			}
			until := now.Add(p.idleLimitOf(s.Requests).renewAfter(p.bounds.Idle) - s.Quiet) // already past for a scout
			p.renewAt = earlierTime(p.renewAt, until)
			if kept == 0 {
				first = s.Number
			}
			kept++
			continue
		}
		retired++
		m.retireLegLocked(p, s)
	}
	return retired
}

// retireLegLocked closes an idle leg from popIdleLocked.
func (m *Manager) retireLegLocked(p *pool, s kernel.Splice) {
	was, err := m.o.Kernel.Retire(s.Number, p.id)
	if err != nil || !was {
		return // it has died; its event will follow
	}
	_ = m.o.Wire.End(s)
	m.freeLegLocked(p, s.Number, s.Server, s.Router)
	m.o.Event(p.name, "retired")
}
