package alive

import "time"

// Rules are what a machine goes by.
type Rules struct {
	Off   bool          // the link is alive
	URL   bool          // a server is asked, else the gateway
	Every time.Duration // between two questions
	Dead  time.Duration // without a sign of life
}

// trusted is how many questions are left out, of a server, while the host's own traffic is answered: what answers it may be a portal.
// A gateway is not asked at all then.
const trusted = 12

// Machine makes a verdict of what happens to a link. It is pure: times are its callers'.
type Machine struct {
	rules   Rules
	verdict Verdict
	sign    time.Time // the last sign of life, or the beginning
	heard   time.Time // the last traffic that was answered; zero: none
	asked   time.Time // zero: never
	waiting bool      // for a server's answer
}

// NewMachine begins with nothing known.
func NewMachine(r Rules, now time.Time) *Machine {
	m := &Machine{rules: r}
	m.Restart(now)
	return m
}

// Verdict is what is known.
func (m *Machine) Verdict() Verdict { return m.verdict }

// Restart forgets: the link leads to another network, perhaps.
func (m *Machine) Restart(now time.Time) {
	*m = Machine{rules: m.rules, verdict: Verdict{State: Unknown, Since: now}, sign: now}
	if m.rules.Off {
		m.verdict.State = Alive
	}
}

// Change takes other rules. What is known stays known, unless another one is asked from now on.
func (m *Machine) Change(r Rules, now time.Time) {
	another := m.rules.URL != r.URL || m.rules.Off != r.Off
	if m.rules = r; another {
		m.Restart(now)
	}
}

// Asked says that a question was sent. A server is not asked again before it has answered, or Unanswered was called.
func (m *Machine) Asked(now time.Time) { m.asked, m.waiting = now, m.rules.URL }

// Unanswered says that a server has not answered in time.
func (m *Machine) Unanswered() { m.waiting = false }

// Answered says that who was asked has answered.
func (m *Machine) Answered(now time.Time) {
	m.sign, m.waiting = now, false
	m.become(Verdict{State: Alive, Since: now})
}

// Captured says that somebody else has answered, who wants to be visited at a URL.
func (m *Machine) Captured(now time.Time, url string) {
	if m.rules.Off {
		return
	}
	m.sign, m.waiting = now, false
	m.become(Verdict{State: Portal, URL: url, Since: now})
}

// Heard says when traffic of the host was answered last. It keeps a link alive and wakes a dead one, but is no reason to trust a link
// whose server has not answered once, or a portal.
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

// Tick lets time go by, and says whether it is time to ask.
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

// Next is when Tick should be called, if nothing happens before.
func (m *Machine) Next(now time.Time) time.Time {
	next := now.Add(m.rules.Every) // to see what was heard
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

// due is when to ask, if at all.
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
	quiet := m.heard.Add(m.rules.Every) // from when on nothing was heard
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
