package alive

import "time"

// Rules configure a machine.
type Rules struct {
	Off   bool          // always alive
	URL   bool          // probe a server instead of the gateway
	Every time.Duration // interval between probes
	Dead  time.Duration // dead after this long without a sign of life
}

// trusted is how many probes of a server are skipped while the host's own traffic gets replies, which may come from a portal by now. A
// gateway is not probed at all then.
const trusted = 12

// Machine derives the verdict on a link from events. It is pure: callers pass the time.
type Machine struct {
	rules   Rules
	verdict Verdict
	sign    time.Time // last sign of life, or the start
	heard   time.Time // last reply to the host's traffic; zero: none
	asked   time.Time // zero: never
	waiting bool      // for a server's answer
}

// NewMachine begins with nothing known.
func NewMachine(r Rules, now time.Time) *Machine {
	m := &Machine{rules: r}
	m.Restart(now)
	return m
}

// Verdict returns the current verdict.
func (m *Machine) Verdict() Verdict { return m.verdict }

// Restart forgets everything: the link may lead to another network.
func (m *Machine) Restart(now time.Time) {
	*m = Machine{rules: m.rules, verdict: Verdict{State: Unknown, Since: now}, sign: now}
	if m.rules.Off {
		m.verdict.State = Alive
	}
}

// Change sets other rules. The state is kept, unless another target is probed from now on.
func (m *Machine) Change(r Rules, now time.Time) {
	another := m.rules.URL != r.URL || m.rules.Off != r.Off
	if m.rules = r; another {
		m.Restart(now)
	}
}

// Asked records that a probe was sent. A server is not probed again before it has answered, or Unanswered was called.
func (m *Machine) Asked(now time.Time) { m.asked, m.waiting = now, m.rules.URL }

// Unanswered records that a server has not answered in time.
func (m *Machine) Unanswered() { m.waiting = false }

// Answered records that the probed host has answered.
func (m *Machine) Answered(now time.Time) {
	m.sign, m.waiting = now, false
	m.become(Verdict{State: Alive, Since: now})
}

// Captured records that somebody else has answered and sends users to a URL.
func (m *Machine) Captured(now time.Time, url string) {
	if m.rules.Off {
		return
	}
	m.sign, m.waiting = now, false
	m.become(Verdict{State: Portal, URL: url, Since: now})
}

// Heard records when the host's traffic last got a reply. That keeps a link alive and revives a dead one, but does not clear a portal, or a
// link whose server has never answered.
func (m *Machine) Heard(at, now time.Time) {
	if !at.After(m.sign) || at.After(now) {
		return
	}
	m.heard = at
	if m.verdict.State == Portal || m.verdict.State == Unknown && m.rules.URL {
		return
	}
	m.sign = at
	m.become(Verdict{State: Alive, Since: now})
}

// Tick advances the time, and reports whether a probe is due.
func (m *Machine) Tick(now time.Time) (ask bool) {
	if m.rules.Off {
		return false
	}
	if !now.Before(m.sign.Add(m.rules.Dead)) {
		m.become(Verdict{State: Dead, Since: now})
	}
	due, is := m.due()
	return is && !now.Before(due)
}

// Next returns when to call Tick, if nothing happens before.
func (m *Machine) Next(now time.Time) time.Time {
	next := now.Add(m.rules.Every) // to see whether there were replies
	if m.rules.Off {
		return next
	}
	if due, is := m.due(); is && due.Before(next) {
		next = due
	}
	if dead := m.sign.Add(m.rules.Dead); m.verdict.State != Dead && dead.Before(next) {
		next = dead
	}
	if next.Before(now) {
		return now
	}
	return next
}

// due returns when to probe, if at all.
func (m *Machine) due() (time.Time, bool) {
	if m.waiting {
		return time.Time{}, false
	}
	if m.asked.IsZero() {
		return m.sign, true
	}
	at := m.asked.Add(m.rules.Every)
	if m.verdict.State != Alive || m.heard.IsZero() {
		return at, true
	}
	quiet := m.heard.Add(m.rules.Every) // when the replies become stale
	if m.rules.URL {
		quiet = earlier(quiet, m.asked.Add(trusted*m.rules.Every))
	}
	if quiet.After(at) {
		at = quiet
	}
	return at, true
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

func (m *Machine) become(v Verdict) {
	if m.verdict.State == v.State {
		v.Since = m.verdict.Since
	}
	m.verdict = v
}
