package legs

import (
	"time"

	kernel "baton/datapath/router"
	"baton/router/config"
)

// With legs.mode on-demand, and for surrogates that close unused connections early, no legs are kept ready: WaitIdle
// opens one when a request finds none.

const (
	// leftIdle is how long mode on-demand keeps a leg whose client has left before it was up, or has gone to another
	// surrogate.
	leftIdle = 500 * time.Millisecond
	// earlyIdle: legs of a surrogate that closes unused connections sooner are opened on demand. Ready ones would have
	// to be renewed every other second, and the sooner they are closed, the more requests meet one that has just been
	// closed.
	earlyIdle = 3 * time.Second
	// earlyCloses is how many legs in a row must be closed early, each opened after the close of the one before, and
	// over at least earlyIdle: a restart closes legs of any age, but all at once.
	earlyCloses = 4
	// earlyTest is how often one leg is kept to see whether the surrogate still closes it.
	earlyTest = 10 * time.Minute
)

// early learns whether a surrogate closes legs that have served nobody before the first byte of a slow client could
// come.
type early struct {
	closes      int           // in a row
	first, last time.Time     // of them
	after       time.Duration // idle time of the last one
	onDemand    bool
	test        time.Time // when to open the next leg that is not needed
}

// noteClose handles the close by the surrogate of an unused leg of that age. It reports whether that is the proof.
func (e *early) noteClose(idle, age time.Duration, now time.Time) bool {
	if idle >= earlyIdle {
		e.closes = 0
		return false
	}
	if now.Add(-age).Before(e.last) {
		return false // opened before the last close, which may have been a restart
	}
	if e.closes == 0 {
		e.first = now
	}
	e.closes++
	e.last, e.after, e.test = now, idle, now.Add(earlyTest)
	if e.onDemand || e.closes < earlyCloses || now.Sub(e.first) < earlyIdle {
		return false
	}
	e.onDemand = true
	return true
}

// noteSurvival handles an unused leg that has been idle for earlyIdle. It reports whether that refutes what was learnt.
func (e *early) noteSurvival() bool {
	was := e.onDemand
	e.closes, e.onDemand = 0, false
	return was
}

// isSuspected reports whether closes so far may turn out to be a habit.
func (e *early) isSuspected() bool { return e.closes > 0 && !e.onDemand }

// takeTest reports whether to open a leg for a test.
func (e *early) takeTest(now time.Time) bool {
	if !e.onDemand || now.Before(e.test) {
		return false
	}
	e.test = now.Add(earlyTest)
	return true
}

func (p *pool) isOnDemand() bool { return p.bounds.Mode == config.LegsOnDemand || p.early.onDemand }

// noteUnusedCloseLocked handles the close by the surrogate of a leg that has served nobody.
func (m *Manager) noteUnusedCloseLocked(p *pool, e kernel.Event, now time.Time) {
	if p.early.noteClose(e.Idle, e.Age, now) {
		m.o.Log.Info("surrogate closes unused connections early: legs are opened on demand",
			"surrogate", p.name, "after", e.Idle)
	}
	if p.early.isSuspected() {
		p.fresh.next = now // the next scout decides
	}
}

// mayKeepLocked reports whether to keep an idle leg.
func (m *Manager) mayKeepLocked(p *pool, s *kernel.Splice, now time.Time) bool {
	if s.Requests == 0 && s.Quiet >= earlyIdle && p.early.noteSurvival() {
		p.fresh = idleLimit{}
		m.o.Log.Info("surrogate keeps unused connections: legs are kept ready", "surrogate", p.name)
	}
	switch {
	case p.retiresSource(s.Router.Addr()):
		return false
	case p.bounds.Mode == config.LegsOnDemand:
		return s.Quiet < leftIdle
	case p.early.onDemand && s.Requests == 0:
		return true // until it is closed, or refutes that
	}
	limit := p.idleLimitOf(s.Requests)
	learnt := limit.learnt
	keep := limit.mayKeepLeg(s.Number, s.Quiet, p.bounds.Idle, now)
	if learnt != 0 && limit.learnt == 0 {
		m.o.Log.Info("surrogate keeps idle connections again",
			"surrogate", p.name, "served", s.Requests > 0, "renewing after", p.bounds.Idle)
	}
	return keep
}

// Mode returns a surrogate's mode, and, if it is learnt, the idle time after which it closes unused legs.
func (m *Manager) Mode(id uint16) (mode config.LegsMode, after time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	p := m.pools[id]
	switch {
	case p == nil:
		return "", 0
	case p.bounds.Mode != config.LegsOnDemand && p.early.onDemand:
		return config.LegsOnDemand, p.early.after
	}
	return p.bounds.Mode, 0
}
