// Package planner decides for all sites together. It is pure: what is known goes in with the time, and what is to be done comes out.
// Levels gives sites levels of their ladders, one change at a time, where routers decide which ingress goes where; Mapper maps
// ingress points to sites, by programming forwarders.
package planner

import "slices"

// View is a site as a planner sees it.
type View struct {
	Name       string
	Fresh      bool // it has reported lately
	Up         bool
	Load       float64 // share of the capacity; negative: it is not known
	Capacity   float64 // bytes per second
	Instructed bool    // an operator holds its level: it is not changed, and gets no more load

	Level int   // of its ladder
	Steps []int // levels that load leads to
}

func (v *View) alive() bool { return v.Fresh && v.Up }

// deeper is the level after one, and whether there is one.
func (v *View) deeper(level int) (int, bool) {
	i := slices.IndexFunc(v.Steps, func(s int) bool { return s > level })
	if i < 0 {
		return level, false
	}
	return v.Steps[i], true
}

// higher is the level before one.
func (v *View) higher(level int) int {
	for _, s := range slices.Backward(v.Steps) {
		if s < level {
			return s
		}
	}
	return 0
}
