// Package planner decides for all sites. It is pure: the known state and the time go in, and actions come out. Levels proposes levels to
// sites, one change at a time, where routers choose the site; Mapper maps ingress points to sites by programming forwarders.
package planner

import "slices"

// View is a site as a planner sees it.
type View struct {
	Name       string
	Fresh      bool // its report is not stale
	Up         bool
	Load       float64 // share of the capacity; negative: it is not known
	Capacity   float64 // bytes per second
	Instructed bool    // an operator holds its level: it is not changed, and gets no more load

	Level int   // of its ladder
	Steps []int // levels entered by load
}

func (v *View) alive() bool { return v.Fresh && v.Up }

// deeper returns the next level down, and whether there is one.
func (v *View) deeper(level int) (int, bool) {
	i := slices.IndexFunc(v.Steps, func(s int) bool { return s > level })
	if i < 0 {
		return level, false
	}
	return v.Steps[i], true
}

// higher returns the next level up.
func (v *View) higher(level int) int {
	for _, s := range slices.Backward(v.Steps) {
		if s < level {
			return s
		}
	}
	return 0
}
