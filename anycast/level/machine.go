package level

import (
	"fmt"
	"math"
	"time"
)

// Health is the result of a site's checks.
type Health int

// The states of health.
const (
	Unknown Health = iota // no check has a result yet
	Up
	Down
)

func (h Health) String() string { return [...]string{"unknown", "up", "down"}[h] }

// Instruction is an operator's. It stays in force until the operator revokes it.
type Instruction int

// The instructions of an operator.
const (
	NoInstruction Instruction = iota
	Drain                     // the last level before withdrawal
	Maintenance               // the same, then withdrawal after Input.DrainFor
	Pin                       // Input.Pin
)

// NoProposal means that the planner has proposed nothing, or that its proposal is stale.
const NoProposal = -1

// Input is the site's knowledge at a point in time.
type Input struct {
	Health Health
	Cause  string // the failed checks

	Instruction Instruction
	Pin         int
	DrainFor    time.Duration
	Force       bool // the instruction applies even if this is the last site

	Planned  bool    // there is a planner: the site does not act on its own load
	Proposal int     // the planner's, or NoProposal
	Load     float64 // share of the capacity; negative when it is not known

	Others   bool // other sites are configured
	Alive    int  // of them, known to be up and to announce
	Headroom bool // at least one of them reports spare capacity
}

// Decision is the level that a site should have.
type Decision struct {
	Level   int
	Changed bool
	Reason  string        // of the level
	Want    int           // the desired level, which Held delays
	Held    string        // why the change waits, "" if it does not
	Until   time.Duration // when Held ends, if nothing else changes
	Penalty float64       // estimated damping penalty
}

// Machine decides the level. Create it with New. It is not safe for concurrent use.
type Machine struct {
	rules      Rules
	level      int
	since      time.Duration // of the level
	reason     string
	fresh      bool // nothing was announced yet, so there is no dwell
	instructed bool // the level is the operator's
	resort     bool // the level is that of a dead site that was the last one
	drained    time.Duration
	drains     bool // Maintenance since drained
	last       time.Duration
	budget     budget
	shed       []Shed // by level
}

// New returns a machine whose site announces nothing.
func New(r Rules) *Machine {
	return &Machine{
		rules: r, level: r.Withdrawn(), fresh: true, reason: "health is not known yet", budget: budget{Flaps: r.Flaps},
		shed: make([]Shed, len(r.Ladder)),
	}
}

// Level is the index of the level in force.
func (m *Machine) Level() int { return m.level }

// Owe starts the machine with the penalty that an earlier process had some time ago.
func (m *Machine) Owe(penalty float64, ago time.Duration) {
	m.budget.spend(m.last, penalty*math.Exp2(-float64(ago)/float64(m.rules.Flaps.HalfLife)))
}

// Configure activates other rules. The level keeps its name if the new ladder has it, otherwise it becomes the nearest one. The caller sees
// in the next Decision which announcement is in force.
func (m *Machine) Configure(r Rules) {
	name, withdrawn := m.rules.Ladder[m.level].Name, m.level == m.rules.Withdrawn()
	m.rules, m.budget.Flaps, m.shed = r, r.Flaps, make([]Shed, len(r.Ladder))
	switch i := r.Find(name); {
	case withdrawn:
		m.level = r.Withdrawn()
	case i >= 0 && i <= r.Drain():
		m.level = i
	default:
		m.level = min(m.level, r.Drain())
	}
}

// urgency says what a change has to wait for.
type urgency int

const (
	choice  urgency = iota // waits for dwell and budget
	command                // an operator's: waits for nothing
	death                  // nothing
	need                   // no site serves, as far as known: waits for nothing
	hurry                  // possibly no site serves, and no others are configured: waits for the budget
)

// Step decides the level at a time of the monotonic clock. A time before the last one counts as the last one.
func (m *Machine) Step(at time.Duration, in Input) Decision {
	at = max(at, m.last)
	m.last = at
	if in.Instruction != Maintenance || in.Health == Down {
		m.drains = false
	} else if !m.drains {
		m.drains, m.drained = true, at
	}
	m.shed[m.level].Settle(at-m.since, in.Load, m.rules.Dwell)
	want, why, how := m.want(at, &in)
	d := Decision{Want: want}
	if want != m.level {
		if d.Held, d.Until = m.held(at, want, how); d.Held == "" {
			m.shed[m.level].Leave(at)
			m.change(at, want, why)
			m.shed[want].Enter(at, in.Load, m.rules.Dwell)
			d.Changed = true
		}
	} else {
		m.reason = why
	}
	if d.Changed || want == m.level {
		m.instructed = how == command && in.Instruction != NoInstruction
	}
	m.resort = in.Health == Down && m.level == m.rules.Drain() && (m.resort || want == m.level)
	d.Level, d.Reason, d.Penalty = m.level, m.reason, m.budget.now(at)
	return d
}

func (m *Machine) change(at time.Duration, to int, why string) {
	if cost := m.cost(to); cost > 0 {
		m.budget.spend(at, cost)
	}
	m.level, m.since, m.reason, m.fresh = to, at, why, false
}

// cost is the damping penalty of a change. An announcement after a withdrawal is the second half of a flap, whose first half was already
// counted.
func (m *Machine) cost(to int) float64 {
	switch {
	case m.level == m.rules.Withdrawn():
		return 0
	case to == m.rules.Withdrawn():
		return WithdrawPenalty
	}
	return AttributePenalty
}

// held returns why a change has to wait, and until when.
func (m *Machine) held(at time.Duration, to int, how urgency) (string, time.Duration) {
	if how != choice && how != hurry {
		return "", 0
	}
	if end := m.since + m.rules.Dwell; how == choice && at < end && !m.fresh {
		return "dwell", end
	}
	// The penalty of one withdrawal is held in reserve, so that routers do not suppress the site if it dies next.
	bound := m.budget.Suppress - WithdrawPenalty
	if m.level != m.rules.Withdrawn() && to != m.rules.Withdrawn() {
		bound = m.budget.Suppress*m.budget.Share - m.cost(to)
	}
	if end := m.budget.until(at, bound); end > at {
		return "flap budget", end
	}
	return "", 0
}

// want is the level that the site would take if changes were free.
func (m *Machine) want(at time.Duration, in *Input) (int, string, urgency) {
	r := &m.rules
	switch {
	case in.Health == Unknown:
		return m.level, "health is not known yet", choice
	case in.Health == Down:
		return m.dead(in)
	case in.Instruction == Drain:
		return r.Drain(), "drained by the operator", command
	case in.Instruction == Maintenance:
		return m.maintained(at, in)
	case in.Instruction == Pin && in.Pin == r.Withdrawn() && m.alone(in):
		return r.Drain(), "withdrawal instructed, but no other site is known to be up", command
	case in.Instruction == Pin:
		return min(max(in.Pin, 0), r.Withdrawn()), "set by the operator", command
	}
	how := choice
	switch {
	case m.instructed: // no delay after an operator revokes an instruction
		how = command
	case m.level != r.Withdrawn() || in.Alive > 0: // a healthy site may wait while others serve
	case in.Others:
		how = need // a dead last site drains instead of withdrawing: this cannot flap
	default:
		how = hurry
	}
	switch {
	case in.Planned && in.Proposal >= 0:
		return min(in.Proposal, r.Drain()), "proposed by the planner", how // never withdraws
	case in.Planned:
		return 0, "healthy; no fresh proposal from the planner", how
	}
	level, why := m.byLoad(at, in)
	return level, why, how
}

// dead is the level of a dead site. The last one known to be up keeps announcing, less preferred than any others that may exist.
func (m *Machine) dead(in *Input) (int, string, urgency) {
	r := &m.rules
	if !m.alone(in) {
		if m.resort { // routers already prefer the others
			return r.Withdrawn(), in.Cause, choice
		}
		return r.Withdrawn(), in.Cause, death
	}
	return r.Drain(), "the last site known to be up: " + in.Cause, death
}

// alone reports whether a withdrawal would leave clients without any site, as far as known.
func (m *Machine) alone(in *Input) bool { return in.Others && in.Alive == 0 && !in.Force }

func (m *Machine) maintained(at time.Duration, in *Input) (int, string, urgency) {
	r := &m.rules
	switch {
	case m.level == r.Withdrawn() && !m.alone(in): // already withdrawn, as after a restart
		return r.Withdrawn(), "maintenance", command
	case at-m.drained < in.DrainFor:
		return r.Drain(), fmt.Sprintf("drained for maintenance, withdrawn in %s", (in.DrainFor - (at - m.drained)).Round(time.Second)), command
	case m.alone(in):
		return r.Drain(), "drained for maintenance; no other site is known to be up", command
	}
	return r.Withdrawn(), "maintenance", command
}

// byLoad goes a step down the ladder when the load is high, and a step up when it is low.
func (m *Machine) byLoad(at time.Duration, in *Input) (int, string) {
	ladder := m.rules.Ladder
	if in.Load < 0 || math.IsNaN(in.Load) {
		return 0, "healthy; the load is not known"
	}
	if m.level >= m.rules.Drain() && ladder[m.level].Enter == 0 || m.level == m.rules.Withdrawn() {
		return 0, "healthy"
	}
	load := fmt.Sprintf("load %.0f %% of the capacity", 100*min(in.Load, 1e6))
	for i := m.level + 1; i <= m.rules.Drain(); i++ {
		if ladder[i].Enter == 0 || in.Load < ladder[i].Enter {
			continue
		}
		if in.Others && !in.Headroom {
			return m.level, load + "; no other site has headroom"
		}
		return i, load
	}
	if m.level > 0 && in.Load < ladder[m.level].Leave {
		// A site that takes back too much would have to shed it again.
		if back := m.shed[m.level].Regained(at-m.since, in.Load, m.rules.Dwell); back >= ladder[m.level].Enter {
			return m.level, fmt.Sprintf("%s; it would be %.0f %% again", load, 100*back)
		}
		for i := m.level - 1; i >= 0; i-- {
			if i == 0 || ladder[i].Enter > 0 {
				return i, load
			}
		}
	}
	if m.level == 0 {
		return 0, "healthy, " + load
	}
	return m.level, load
}
