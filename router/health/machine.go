package health

import (
	"slices"
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
	Failures  int       // in a row, of active checks and probes; without checks, failures reported within the window when there are more
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
	backoff  time.Duration // of the last fall without active checks
	retry    time.Time     // without active checks: when it is up again
	failures int           // of checks and probes, in a row

	probeAt  time.Time // an early probe is due then; zero: none is
	probedAt time.Time // the last early probe began
}

// probeEvery is the least time between two early probes of a surrogate.
const probeEvery = time.Second

// lastUsable tells whether nothing of a pool but one surrogate takes new sessions. others are the states of the pool's other members,
// without those that are given nothing new (weight 0).
//
// What is reported of that surrogate then does not take it down: with nowhere else to go, sessions that may fail are better than
// sessions that must. It is probed at once instead, and what a probe finds is believed of any surrogate. A share of the pool in place
// of one member, as Envoy's panic threshold of half, would send clients to surrogates that refuse connections in order to spare
// others the load, although such reports come from our own SYNs alone and no client can cause them.
func lastUsable(others []State) bool {
	return !slices.ContainsFunc(others, State.Usable)
}

// newMachine starts a surrogate. With active checks it starts in Checking, which takes no session: a surrogate that
// nobody has seen alive must not cost the first clients a failed handoff. The first check is made at once, and its
// success is enough, whatever rise says, because rise guards against flapping and there is nothing to flap yet; its
// failure is enough too. Without active checks it starts up: nothing else would ever bring it there.
func newMachine(active bool, rise, fall int, p Passive, now time.Time) *machine {
	m := &machine{active: active, rise: max(rise, 1), fall: max(fall, 1), passive: p.withDefaults()}
	if !active {
		m.rise, m.fall = 1, m.passive.Failures
	}
	m.enter(Up, now)
	if active {
		m.enter(Checking, now)
	}
	return m
}

func (m *machine) enter(p Phase, now time.Time) {
	m.state.Phase, m.state.Up, m.state.Since = p, p == Up, now
}

// checked takes the outcome of an active check or a probe that began at started; failure is "" for a success.
func (m *machine) checked(failure string, started, now time.Time) {
	if failure != "" {
		m.failures++
		m.state.Successes, m.state.LastError = 0, failure
		m.count()
		if m.state.Phase == Checking || (m.state.Up && m.failures >= m.fall) {
			m.fell(now)
			m.passedBy = false
		}
		return
	}
	m.failures = 0
	m.state.Successes++
	m.count()
	switch {
	case m.state.Up:
	case m.state.Phase == Checking,
		m.passedBy && started.After(m.downAt), // a check under way when it fell proves nothing
		!m.passedBy && m.state.Successes >= m.rise:
		m.enter(Up, now)
		m.passedBy, m.reported = false, nil
	}
}

// probed takes the outcome of an early probe. One that fails makes the next one due, until it is known what is the matter.
func (m *machine) probed(failure string, started, now time.Time) {
	m.checked(failure, started, now)
	if failure != "" {
		m.suspected(now)
	}
}

// failed takes a failure that no client can cause: a connection of ours that was refused, or not answered. last says that the pool has
// no other usable surrogate: see lastUsable.
func (m *machine) failed(kind string, last bool, now time.Time) {
	m.state.LastError = kind
	if !m.state.Up {
		return // sessions that were on their way there
	}
	m.forgetOld(now)
	m.reported = append(m.reported, now)
	m.count()
	if len(m.reported) < m.passive.Failures {
		return
	}
	if last {
		m.reported = m.reported[1:]
		m.suspected(now)
		return
	}
	m.passedBy = true
	m.fell(now)
}

// suspected makes an early probe due: a client has met a failure that it may have caused itself.
func (m *machine) suspected(now time.Time) {
	if !m.state.Up || !m.probeAt.IsZero() {
		return
	}
	m.probeAt = now
	if soonest := m.probedAt.Add(probeEvery); now.Before(soonest) {
		m.probeAt = soonest
	}
}

// begin tells whether an early probe is due, which the caller makes then.
func (m *machine) begin(now time.Time) bool {
	if m.probeAt.IsZero() || now.Before(m.probeAt) {
		return false
	}
	m.probeAt, m.probedAt = time.Time{}, now
	return m.state.Up
}

// fell takes the surrogate down. Without active checks that is for a time.
func (m *machine) fell(now time.Time) {
	m.reported = nil
	m.downAt = now
	m.state.Successes = 0
	if !m.active {
		m.failures = 0
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
	m.count()
	if !m.active && m.state.Phase == Down && !now.Before(m.retry) {
		m.enter(Up, now)
		m.passedBy = false
	}
}

// next is when tick or an early probe has work to do; zero for never.
func (m *machine) next() time.Time {
	if !m.active && m.state.Phase == Down {
		return m.retry
	}
	return m.probeAt
}

func (m *machine) drain(on bool) { m.state.Draining = on }

func (m *machine) forgetOld(now time.Time) {
	for len(m.reported) > 0 && now.Sub(m.reported[0]) >= m.passive.Window {
		m.reported = m.reported[1:]
	}
}

// count shows the failures that may take the surrogate down.
func (m *machine) count() {
	m.state.Failures = m.failures
	if !m.active && m.state.Up {
		m.state.Failures = max(m.failures, len(m.reported))
	}
}
