package health

import (
	"time"
)

// Phase is what is known of a surrogate.
type Phase string

// The phases. Only Up takes new sessions.
const (
	Checking Phase = "checking" // active checks, none has ended yet
	Up       Phase = "up"
	Down     Phase = "down"
)

// State is what the router knows of a surrogate.
type State struct {
	Up        bool // new sessions may go there, unless Draining
	Draining  bool // the operator takes it out: sessions stay, new ones go elsewhere
	Phase     Phase
	Since     time.Time // of the phase
	LastError string    // of the last failure, "" when there was none yet
	Successes int       // in a row, of active checks
	Failures  int       // in a row, of active checks; without them, failures reported within the window
}

// Usable says whether new sessions may be sent there.
func (s State) Usable() bool { return s.Up && !s.Draining }

// Passive says what reported failures do. A zero field means its default.
type Passive struct {
	Failures   int           // this many, default 3, ...
	Window     time.Duration // ... within this, default 10 s, take the surrogate down
	Backoff    time.Duration // for how long, when nothing checks it actively; default 5 s, doubled at each relapse
	MaxBackoff time.Duration // default 2 min
}

func (p Passive) withDefaults() Passive {
	if p.Failures == 0 {
		p.Failures = 3
	}
	if p.Window == 0 {
		p.Window = 10 * time.Second
	}
	if p.Backoff == 0 {
		p.Backoff = 5 * time.Second
	}
	if p.MaxBackoff == 0 {
		p.MaxBackoff = 2 * time.Minute
	}
	return p
}

// machine is one surrogate's state as pure code: events and the time in, the state out. It is not safe for concurrent
// use.
type machine struct {
	active     bool
	rise, fall int
	passive    Passive

	state    State
	reported []time.Time // failures within the window, oldest first
	passedBy bool        // down for reported failures: one active success lifts it
	downAt   time.Time
	backoff  time.Duration // of the last passive fall
	retry    time.Time     // without active checks: when it is up again
}

// newMachine starts a surrogate. With active checks it starts in Checking, which takes no session: a surrogate that
// nobody has seen alive must not cost the first clients a failed handoff. The first check is made at once, and its
// success is enough, whatever rise says, because rise guards against flapping and there is nothing to flap yet; its
// failure is enough too. Without active checks it starts up: nothing else would ever bring it there.
func newMachine(active bool, rise, fall int, p Passive, now time.Time) *machine {
	m := &machine{active: active, rise: max(rise, 1), fall: max(fall, 1), passive: p.withDefaults()}
	m.enter(Up, now)
	if active {
		m.enter(Checking, now)
	}
	return m
}

func (m *machine) enter(p Phase, now time.Time) {
	m.state.Phase, m.state.Up, m.state.Since = p, p == Up, now
}

// checked takes the outcome of an active check that began at started; failure is "" for a success.
func (m *machine) checked(failure string, started, now time.Time) {
	if failure != "" {
		m.state.Successes, m.state.LastError = 0, failure
		m.state.Failures++
		if m.state.Phase == Checking || (m.state.Up && m.state.Failures >= m.fall) {
			m.enter(Down, now)
			m.passedBy = false
		}
		return
	}
	m.state.Failures = 0
	m.state.Successes++
	switch {
	case m.state.Up:
	case m.state.Phase == Checking,
		m.passedBy && started.After(m.downAt), // a check under way when it fell proves nothing
		!m.passedBy && m.state.Successes >= m.rise:
		m.enter(Up, now)
		m.passedBy, m.reported = false, nil
	}
}

// failed takes a failure that a session met.
func (m *machine) failed(kind string, now time.Time) {
	m.state.LastError = kind
	if !m.state.Up {
		return // sessions that were on their way there
	}
	m.forgetOld(now)
	m.reported = append(m.reported, now)
	m.countReported()
	if len(m.reported) < m.passive.Failures {
		return
	}
	m.reported = nil
	m.passedBy = true
	m.downAt = now
	m.state.Successes = 0
	if !m.active {
		relapse := !m.retry.IsZero() && now.Sub(m.retry) < 2*max(m.backoff, m.passive.Window)
		if relapse {
			m.backoff = min(2*m.backoff, m.passive.MaxBackoff)
		} else {
			m.backoff = m.passive.Backoff
		}
		m.retry = now.Add(m.backoff)
	}
	m.enter(Down, now)
}

// tick lets time pass.
func (m *machine) tick(now time.Time) {
	m.forgetOld(now)
	m.countReported()
	if !m.active && m.state.Phase == Down && !now.Before(m.retry) {
		m.enter(Up, now)
		m.passedBy = false
	}
}

// next is when tick has work to do; zero for never.
func (m *machine) next() time.Time {
	if !m.active && m.state.Phase == Down {
		return m.retry
	}
	return time.Time{}
}

func (m *machine) drain(on bool) { m.state.Draining = on }

func (m *machine) forgetOld(now time.Time) {
	for len(m.reported) > 0 && now.Sub(m.reported[0]) >= m.passive.Window {
		m.reported = m.reported[1:]
	}
}

func (m *machine) countReported() {
	if !m.active && m.state.Up {
		m.state.Failures = len(m.reported)
	}
}
