package legs

import (
	"context"
	"errors"
	"sync"
	"time"

	"baton/datapath"
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

// Run maintains the pools until ctx is done. It closes the events.
func (m *Manager) Run(ctx context.Context, events *kernel.Events) {
	var reading sync.WaitGroup
	reading.Go(func() { m.readEvents(events) })
	defer reading.Wait()
	defer events.Close()

	routes, err := changes(ctx)
	if err != nil {
		m.o.Log.Warn("route changes are noticed late", "after", routeEvery, "err", err)
	}
	timer := time.NewTimer(tickEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case _, open := <-routes:
			if !open {
				routes = nil
			}
			m.RoutesChanged()
		case <-timer.C:
			timer.Reset(max(tickEvery, m.Tick().Sub(m.o.Now())))
		}
	}
}

// RoutesChanged makes the next tick look up all routes.
func (m *Manager) RoutesChanged() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.routed = time.Time{}
}

// Tick does all work that is due, and returns the time of the next.
func (m *Manager) Tick() (next time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.o.Now()
	next = now.Add(restEvery)
	for _, p := range m.pools {
		if !now.Before(p.due) {
			m.tick(p, now)
		}
		next = earlier(next, p.due)
	}
	if now.Sub(m.renewed) >= renewEvery {
		m.renewed = now
		for _, p := range m.pools {
			m.renew(p, now)
		}
	}
	if now.Sub(m.routed) >= routeEvery {
		m.routed = now
		for _, p := range m.pools {
			if err := m.route(p); err != nil {
				m.o.Log.Debug("surrogate is unreachable", "surrogate", p.name, "err", err)
			}
		}
	}
	return next
}

// tick opens missing legs and retransmits SYNs.
func (m *Manager) tick(p *pool, now time.Time) {
	counted, err := m.o.Kernel.Surrogate(p.id)
	if err != nil {
		m.o.Log.Error("cannot maintain leg pool", "surrogate", p.name, "err", err)
		return
	}
	p.due = now.Add(restEvery)
	m.repeatSYNs(p, now)
	m.completeDue(p, now)
	if !p.usable || p.local {
		return
	}
	for id := range counted.Missed {
		if counted.Missed[id] > 0 && p.classes[uint8(id)] == nil && (!p.noTS || id&1 == 0) {
			p.class(uint8(id)).missed = counted.Missed[id] - 1
		}
	}
	for id, c := range p.classes {
		u := c.since(counted, id)
		if u.missed > 0 {
			c.lastUsed = now
		}
		short, busy := c.size(now, u, p.floor(id, m.defaultClass(p.server.Addr()), now), p.bounds.Max, p.reuse)
		if busy {
			p.due = now // again at the next tick
		}
		if now.Before(p.retryAt) {
			continue
		}
		if short > 0 {
			p.due = now
		}
		for i := range min(short-p.openingOf(id), openBatch) {
			if p.legs >= p.bounds.Max && p.reuse == config.ReuseSafe {
				m.evict(p) // which new clients cannot use
			}
			if err := m.open(p, id, now); err != nil {
				m.o.Log.Debug("cannot open leg", "surrogate", p.name, "err", err)
				if i == 0 && u.popped == 0 && u.missed == 0 {
					p.due = now.Add(restEvery) // nothing has changed
				}
				break
			}
		}
	}
}

// floor is the number of idle legs of a class kept without demand.
func (p *pool) floor(id, usual uint8, now time.Time) int {
	if p.noTS {
		usual &^= 1
	}
	switch {
	case id == usual:
		return p.bounds.Min
	case now.Sub(p.classes[id].lastUsed) < rareClassLife:
		return min(p.bounds.Min, 1+p.bounds.Min/4)
	}
	return 0
}

// repeatSYNs retransmits unanswered SYNs and finally gives up.
func (m *Manager) repeatSYNs(p *pool, now time.Time) {
	for number, o := range p.opening {
		held := !o.answered.IsZero() && !o.completed
		since := o.sent
		if o.completed {
			since = o.answered.Add(p.bounds.Handshake)
		}
		if held || now.Sub(since) < synTimeout<<(o.tries-1) || m.caughtUp(p, number, now) {
			continue
		}
		if o.tries < synTries {
			o.tries++
			o.sent = now
			_ = m.o.Wire.SYN(o.leg, m.o.MSS[o.leg.Class>>1])
			continue
		}
		m.release(p, number, o.leg.Server, o.leg.Router)
		p.failed(now)
		m.o.Event(p.name, "timeout")
		go m.o.Failed(p.name, "timeout") // without the lock
	}
}

// caughtUp reports whether a seemingly unanswered leg has a newer state in the data path: its event may still be queued or may
// have been lost. A leg that already serves a client must not be freed.
func (m *Manager) caughtUp(p *pool, number uint32, now time.Time) bool {
	s, err := m.o.Kernel.Splice(number)
	if err != nil {
		return true // unknown: leave it
	}
	e := kernel.Event{Splice: number, Surrogate: p.id, Class: s.Class}
	switch s.State {
	case kernel.Opening:
		return false
	case kernel.Answered:
		m.answered(e, now)
	case kernel.Dead: // the kernel will report it again
	default:
		m.up(e)
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
	case end == kernel.Malformed, end == kernel.Expired, end == kernel.Cut, end == kernel.Abandoned && s.SndUna != s.SndBase:
		_ = m.o.Wire.Reset(s.VIP, s.Client, s.RcvNxt-s.ToServerAck)
	}
}

// renew retires legs that have been idle too long, surplus ones, and those of disabled surrogates.
func (m *Manager) renew(p *pool, now time.Time) {
	counted, err := m.o.Kernel.Surrogate(p.id)
	if err != nil {
		return
	}
	if p.requests.tick(now) {
		m.limitRequests(p)
	}
	due := !now.Before(p.renewAt)
	for id, c := range p.classes {
		m.look(p, id, c)
		due = due || p.surplus(c, counted.Idle[id]) > 0
	}
	if due {
		p.fresh.round()
		p.used.round()
		// legs that become idle later are due later
		p.renewAt = now.Add(min(p.fresh.limit(p.bounds.Idle), p.used.limit(p.bounds.Idle)))
	}
	for id, c := range p.classes {
		if due {
			m.renewClass(p, id, counted.Idle[id], counted.Fresh[id], now)
		}
		if c.floor == 0 && counted.Idle[id] == 0 && len(c.waiters) == 0 && now.Sub(c.lastUsed) > rareClassLife {
			delete(p.classes, id)
		}
	}
	if p.legs == 0 && p.bounds.Min == 0 && !p.usable {
		delete(m.pools, p.id)
	}
}

// surplusAbove is the number of idle legs tolerated for a target.
func surplusAbove(want int) int { return want + want/2 }

// surplus is the number of a class's idle legs to retire.
func (p *pool) surplus(c *class, idle int) int {
	if !p.usable {
		return idle
	}
	if p.reuse == config.ReuseAlways {
		return max(0, idle-surplusAbove(max(c.sizer.target, c.fresh.target)))
	}
	return max(0, idle-surplusAbove(c.sizer.target)-surplusAbove(c.fresh.target)) // fresh and used legs count separately
}

// renewClass checks the legs that have been idle longest.
func (m *Manager) renewClass(p *pool, id uint8, idle, fresh int, now time.Time) {
	c := p.classes[id]
	for _, band := range c.queues() {
		legs, surplus := idle-fresh, p.surplus(c, idle)
		if band == kernel.BandFresh {
			legs = fresh
			if p.usable {
				surplus = max(0, min(surplus, fresh-surplusAbove(c.fresh.target)))
			}
		}
		idle -= m.renewQueue(p, id, band, legs, surplus, now)
	}
}

// renewQueue retires surplus legs of a queue of at most so many, and those idle too long. It returns the number retired.
func (m *Manager) renewQueue(p *pool, id, band uint8, legs, surplus int, now time.Time) (retired int) {
	if legs > renewBatch {
		p.renewAt = now // the rest follows next time
	}
	first, kept := uint32(0), 0
	for range min(legs, renewBatch) {
		s, ok, err := m.popIdle(p, id, band)
		if err != nil && !p.unread {
			p.unread = true
			m.o.Log.Error("cannot renew idle legs", "surrogate", p.name, "err", err)
		}
		if err != nil || !ok {
			break
		}
		again := kept > 0 && s.Number == first
		limit := p.idle(s.Requests)
		learnt := limit.learnt
		keep := again || limit.keep(s.Number, s.Quiet, p.bounds.Idle, now)
		if learnt != 0 && limit.learnt == 0 {
			m.o.Log.Info("surrogate keeps idle connections again", "surrogate", p.name, "served", s.Requests > 0, "renewing after", p.bounds.Idle)
		}
		if keep && retired >= surplus {
			if err := m.o.Kernel.PushIdle(p.id, id, band, s.Number); err != nil {
				m.retire(p, s)
			}
			if again {
				break // all have been seen
			}
			if until := now.Add(limit.limit(p.bounds.Idle) - s.Quiet); until.Before(p.renewAt) {
				p.renewAt = until // already past for a scout
			}
			if kept == 0 {
				first = s.Number
			}
			kept++
			continue
		}
		retired++
		m.retire(p, s)
	}
	return retired
}

// retire closes an idle leg from popIdle.
func (m *Manager) retire(p *pool, s kernel.Splice) {
	was, err := m.o.Kernel.Retire(s.Number, p.id)
	if err != nil || !was {
		return // it has died; its event will follow
	}
	_ = m.o.Wire.End(s)
	m.release(p, s.Number, s.Server, s.Router)
	m.o.Event(p.name, "retired")
}

func (m *Manager) readEvents(events *kernel.Events) {
	for {
		e, err := events.Next()
		if errors.Is(err, datapath.ErrClosed) {
			return
		}
		if err != nil {
			m.o.Log.Error("cannot read event", "err", err)
			continue
		}
		m.Handle(e)
	}
}

// Handle handles an event from the data path.
func (m *Manager) Handle(e kernel.Event) {
	m.mu.Lock()
	defer m.mu.Unlock()
	switch {
	case e.Answered:
		m.answered(e, m.o.Now())
	case e.Up:
		m.up(e)
	default:
		m.down(e, m.o.Now())
	}
}

func (m *Manager) up(e kernel.Event) {
	p := m.owner[e.Splice]
	if p == nil {
		return
	}
	s, err := m.o.Kernel.Splice(e.Splice)
	if err != nil || p.id != e.Surrogate || s.Surrogate != e.Surrogate || s.State == kernel.Opening || s.State == kernel.Answered {
		return // of an earlier leg with this splice, which was freed before the event was read
	}
	o := p.opening[e.Splice]
	delete(p.opening, e.Splice)
	p.backoff, p.retryAt = 0, time.Time{}
	m.o.Event(p.name, "opened")
	if o != nil && (p.serverMSS == 0 || o.leg.Class != s.Class) {
		m.learn(p, s, o.leg.Class)
	}
	if c := p.classes[s.Class]; c != nil && len(c.waiters) > 0 {
		c.waiters[0] <- nil
		c.waiters = c.waiters[1:]
	}
}

// learn records the surrogate's properties from an established leg.
func (m *Manager) learn(p *pool, s kernel.Splice, class uint8) {
	p.serverMSS = s.ServerMSS
	if class&1 != 0 && s.Class&1 == 0 {
		p.noTS = true
		delete(p.classes, class)
		p.class(s.Class)
	}
	go m.o.Changed()
}

func (m *Manager) down(e kernel.Event, now time.Time) {
	p := m.owner[e.Splice]
	if p == nil {
		m.freeOrphan(e)
		return
	}
	s, err := m.o.Kernel.Splice(e.Splice)
	if err != nil || s.State != kernel.Dead {
		return // already freed and reused
	}
	m.o.Event(p.name, e.End.String())
	switch e.End {
	case kernel.Refused:
		p.failed(now)
		go m.o.Failed(p.name, "refused")
	case kernel.Failed:
		m.o.Event(p.name, "failed handoff")
		go m.o.Doubted(p.name)
	case kernel.ClosedIdle, kernel.ResetIdle:
		if limit := p.idle(e.Requests); limit.closed(e.Idle, p.bounds.Idle, now) {
			m.o.Log.Info("surrogate closes idle connections", "surrogate", p.name, "after", e.Idle, "served", e.Requests > 0,
				"renewing after", limit.learnt)
			p.renewAt = now
		}
	case kernel.ClientReset:
		if s.SndUna != s.SndNxt { // the client's RST fits only one of two possible states
			_ = m.o.Wire.End(s)
		}
	case kernel.Expired, kernel.Replaced, kernel.Abandoned, kernel.Retired, kernel.Cut,
		kernel.Malformed:
		if e.Band < kernel.BandFar { // perhaps for lack of a queue
			if err := m.makeQueue(p, e.Class, e.Band); err != nil {
				m.o.Log.Error("legs are not reused", "surrogate", p.name, "err", err)
			}
		}
		_ = m.o.Wire.End(s)
		m.notifyClient(s, e.End)
	}
	learnt := p.requests.learnt
	if p.requests.ended(e.Requests, e.Announced, now) {
		m.limitRequests(p)
	}
	if p.requests.learnt != learnt {
		m.o.Log.Info("surrogate closes after a number of requests", "surrogate", p.name, "renewing after", p.requests.learnt, "before", learnt)
	}
	m.release(p, e.Splice, s.Server, s.Router)
}

// limitRequests writes a surrogate's request limit to the kernel.
func (m *Manager) limitRequests(p *pool) {
	if err := m.o.Kernel.LimitRequests(p.id, p.requests.limit()); err != nil {
		m.o.Log.Error("cannot set request limit", "surrogate", p.name, "err", err)
	}
}

// freeOrphan frees a splice of a removed surrogate.
func (m *Manager) freeOrphan(e kernel.Event) {
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
