package health

import (
	"slices"
	"time"
)

// Phase is a surrogate's phase.
type Phase string

// The phases. Only Up takes new sessions.
const (
	Checking Phase = "checking" // has active checks, none completed
	Up       Phase = "up"
	Down     Phase = "down"
)

// State is the state of a surrogate.
type State struct {
	Up        bool // takes new sessions, unless Draining
	Draining  bool // draining: sessions stay, new ones go elsewhere
	Phase     Phase
	Since     time.Time // of the phase
	LastError string    // of the last failure, "" if none
	Successes int       // in a row, of active checks
	Failures  int       // in a row, of active checks and probes; without checks, failures reported within the window when there are more
}

// Usable reports whether the surrogate takes new sessions.
func (s State) Usable() bool { return s.Up && !s.Draining }

// Passive configures reported failures. A zero field means its default.
type Passive struct {
	Failures   int           // this many, default 3, ...
	Window     time.Duration // ... within this, default 10 s, take the surrogate down
	Backoff    time.Duration // for how long, without active checks; default 5 s, doubled at each relapse
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

// machine is the pure state machine of one surrogate: events and time in, state out. It is not safe for concurrent use.
type machine struct {
	active     bool
	rise, fall int
	passive    Passive

	state    State
	reported []time.Time // failures within the window, oldest first
	passedBy bool        // down because of reported failures: one successful check brings it up
	downAt   time.Time
	backoff  time.Duration // after the last fall without active checks
	retry    time.Time     // without active checks: end of the backoff
	failures int           // of checks and probes, in a row

	probeAt  time.Time // time of the next early probe; zero: none
	probedAt time.Time // start of the last early probe
}

// probeEvery is the least time between early probes of a surrogate.
const probeEvery = time.Second

// lastUsable reports whether a surrogate is the only usable one of its pool. others are the states of the other members, except
// those with weight 0. Reported failures then do not take it down, as sessions that may fail are better than sessions that must.
// It is probed at once instead, and the result of a probe always counts. A share of the pool in place of one member, like Envoy's
// panic threshold of half, would send clients to surrogates that refuse connections to spare the others, although such reports
// come from our own SYNs only and no client can cause them.
func lastUsable(others []State) bool {
	return !slices.ContainsFunc(others, State.Usable)
}

// newMachine makes the machine of a new surrogate. With active checks it starts in Checking, which takes no sessions: the first
// clients must not pay for an untested surrogate. The first check is made at once, and its result is enough, whatever rise and
// fall are, as they guard against flapping. Without active checks it starts up, as nothing else would bring it up.
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

// continueFrom continues from a server's state under other settings: one that was up is not known to be down.
func (m *machine) continueFrom(was State) {
	m.drain(was.Draining)
	if was.Up {
		m.enter(Up, was.Since)
	}
}

func (m *machine) enter(p Phase, now time.Time) {
	m.state.Phase, m.state.Up, m.state.Since = p, p == Up, now
}

// checked handles the result of an active check or a probe that began at started; failure is "" for success.
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
		m.passedBy && started.After(m.downAt), // a check already running when it fell proves nothing
		!m.passedBy && m.state.Successes >= m.rise:
		m.enter(Up, now)
		m.passedBy, m.reported = false, nil
	}
}

// probed handles the result of an early probe. After a failure another one is due, until the state is clear.
func (m *machine) probed(failure string, started, now time.Time) {
	m.checked(failure, started, now)
	if failure != "" {
		m.suspected(now)
	}
}

// failed handles a failure that no client can cause: a connection of ours was refused or not answered. last: the pool has no
// other usable surrogate, see lastUsable.
func (m *machine) failed(kind string, last bool, now time.Time) {
	m.state.LastError = kind
	if !m.state.Up {
		return // of sessions already in progress
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

// suspected schedules an early probe after a failure that the client may have caused.
func (m *machine) suspected(now time.Time) {
	if !m.state.Up || !m.probeAt.IsZero() {
		return
	}
	m.probeAt = now
	if soonest := m.probedAt.Add(probeEvery); now.Before(soonest) {
		m.probeAt = soonest
	}
}

// begin reports whether an early probe is due, to be made by the caller.
func (m *machine) begin(now time.Time) bool {
	if m.probeAt.IsZero() || now.Before(m.probeAt) {
		return false
	}
	m.probeAt, m.probedAt = time.Time{}, now
	return m.state.Up
}

// fell takes the surrogate down; without active checks, for a time.
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

// tick advances the time.
func (m *machine) tick(now time.Time) {
	m.forgetOld(now)
	m.count()
	if !m.active && m.state.Phase == Down && !now.Before(m.retry) {
		m.enter(Up, now)
		m.passedBy = false
	}
}

// next is when tick or an early probe is due; zero: never.
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

// count updates the number of failures.
func (m *machine) count() {
	m.state.Failures = m.failures
	if !m.active && m.state.Up {
		m.state.Failures = max(m.failures, len(m.reported))
	}
}
