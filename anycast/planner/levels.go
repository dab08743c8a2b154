package planner

import (
	"fmt"
	"time"

	"baton/anycast/level"
)

// Load thresholds of a planner, as shares of the capacity: a site above high sheds if the others stay below full with the additional load; a
// site takes load back if it stays below full itself.
const (
	high = 0.9
	full = 0.8
)

// Levels moves sites down and up, one at a time, and not before the last change has settled. At least one site keeps a plain announcement:
// routers only compare the sites' levels with each other.
type Levels struct {
	settle time.Duration
	moved  time.Duration
	begun  bool // a change was made
	why    string
	sites  map[string]*proposal
}

// proposal is the level proposed for a site, and what each level was seen to shed.
type proposal struct {
	level int
	since time.Duration
	shed  map[int]*level.Shed
}

func (w *proposal) worth(l int) *level.Shed {
	if w.shed[l] == nil {
		w.shed[l] = &level.Shed{}
	}
	return w.shed[l]
}

// NewLevels starts without proposals. settle is the minimum time between two changes.
func NewLevels(settle time.Duration) *Levels {
	return &Levels{settle: settle, sites: make(map[string]*proposal)}
}

// Proposal returns the level proposed for a site, 0 for an unknown site.
func (l *Levels) Proposal(site string) int {
	if w := l.sites[site]; w != nil {
		return w.level
	}
	return 0
}

// Why explains the last Step.
func (l *Levels) Why() string { return l.why }

// Step evaluates all sites and reports whether a proposal has changed.
func (l *Levels) Step(at time.Duration, views []View) (changed bool) {
	l.know(at, views)
	for i := range views {
		v := &views[i]
		if w := l.sites[v.Name]; w != nil && v.alive() {
			w.worth(w.level).Settle(at-w.since, v.Load, l.settle)
		}
	}
	if end := l.moved + l.settle; l.begun && at < end {
		l.why = fmt.Sprintf("the last change settles for %s", (end - at).Round(time.Second))
		return false
	}
	if v, to, why := l.shedding(views); v != nil {
		l.set(at, v, to, why)
		return true
	} else if why != "" {
		l.why = why
		return false
	}
	if v, to, why := l.returning(at, views); v != nil {
		l.set(at, v, to, why)
		return true
	}
	l.why = "no site is full"
	return false
}

func (l *Levels) set(at time.Duration, v *View, to int, why string) {
	w := l.sites[v.Name]
	w.worth(w.level).Leave(at)
	w.worth(to).Enter(at, v.Load, l.settle)
	w.level, w.since, l.moved, l.begun, l.why = to, at, at, true, why
}

// know adopts the level that a site has when it is first seen, so that a new planner continues where another stopped, and drops the proposal
// of a site that stopped reporting: that site falls back to a plain announcement by itself.
func (l *Levels) know(at time.Duration, views []View) {
	seen := make(map[string]bool)
	for i := range views {
		v := &views[i]
		if !v.Fresh {
			continue
		}
		seen[v.Name] = true
		if l.sites[v.Name] == nil {
			w := &proposal{since: at, shed: make(map[int]*level.Shed)}
			for _, s := range v.Steps {
				if s == v.Level && v.Up && !v.Instructed {
					w.level = s
				}
			}
			l.sites[v.Name] = w
		}
	}
	for name := range l.sites {
		if !seen[name] {
			delete(l.sites, name)
		}
	}
}

// shedding returns the fullest site, if the others can take over what it sheds. A reason without a site means that a site is full and
// nothing can be done.
func (l *Levels) shedding(views []View) (*View, int, string) {
	var fullest *View
	for i := range views {
		v := &views[i]
		if v.alive() && v.Load >= high && !v.Instructed && v.Level == l.Proposal(v.Name) && (fullest == nil || v.Load > fullest.Load) {
			if _, more := v.deeper(v.Level); more {
				fullest = v
			}
		}
	}
	if fullest == nil {
		return nil, 0, ""
	}
	headroom, plain := 0.0, false
	for i := range views {
		v := &views[i]
		if v == fullest || !v.alive() || v.Instructed {
			continue
		}
		plain = plain || l.Proposal(v.Name) == 0
		if v.Load >= 0 {
			headroom += max(0, full-v.Load) * v.Capacity
		}
	}
	says := fmt.Sprintf("site %s is %.0f %% full", fullest.Name, 100*fullest.Load)
	if excess := (fullest.Load - high) * fullest.Capacity; headroom == 0 || headroom < excess {
		return nil, 0, says + ", and no other has headroom"
	}
	if !plain {
		return nil, 0, says + ", and no other has a plain announcement"
	}
	to, _ := fullest.deeper(fullest.Level)
	return fullest, to, says
}

// returning returns the least loaded site that has shed, if it has the capacity for what it would get back.
func (l *Levels) returning(at time.Duration, views []View) (*View, int, string) {
	var emptiest *View
	least := full
	for i := range views {
		v := &views[i]
		w := l.sites[v.Name]
		if !v.alive() || v.Instructed || w == nil || w.level == 0 || v.Load < 0 {
			continue
		}
		if back := w.worth(w.level).Regained(at-w.since, v.Load, l.settle); back < least {
			least, emptiest = back, v
		}
	}
	if emptiest == nil {
		return nil, 0, ""
	}
	why := fmt.Sprintf("site %s would be %.0f %% full a level higher", emptiest.Name, 100*least)
	return emptiest, emptiest.higher(l.Proposal(emptiest.Name)), why
}
