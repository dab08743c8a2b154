// Package level decides how attractive a site's announcement is: a step of a ladder from a plain announcement to none at all. It is
// pure: health, load, instructions, proposals and the time are its input, a level and its reason the output.
package level

import "time"

// Announcement is what the routers receive.
type Announcement struct {
	Withdrawn       bool
	MED             uint32   // 0: none
	Prepend         int      // how often the site's AS is prepended
	LocalPreference *uint32  // for internal peers; nil: BGP's default, 100
	Communities     []uint32 // in addition to those of every announcement
}

// Communities with a meaning of their own.
const (
	GracefulShutdown uint32 = 0xFFFF0000 // RFC 8326: "use any other path before this one"
	NoExport         uint32 = 0xFFFFFF01 // RFC 1997
)

// Level is a step of the ladder.
type Level struct {
	Name         string
	Announcement Announcement
	// Enter and Leave are loads as shares of the capacity: the level is entered at Enter or more, and left below Leave. Enter is 0 for a
	// level that load does not lead to.
	Enter, Leave float64
}

// Rules define how a site moves on its ladder.
type Rules struct {
	Ladder []Level       // from a plain announcement to the least attractive one, then withdrawal
	Dwell  time.Duration // minimum time on a level before load, a proposal or recovered health changes it
	Flaps  Flaps
}

// Drain is the index of the level at which sites drain, and at which the last site stays when it is dead: the last level that announces.
func (r *Rules) Drain() int { return len(r.Ladder) - 2 }

// Withdrawn is the index of the last level.
func (r *Rules) Withdrawn() int { return len(r.Ladder) - 1 }

// Names are those of the levels, in their order.
func (r *Rules) Names() []string {
	names := make([]string, len(r.Ladder))
	for i := range r.Ladder {
		names[i] = r.Ladder[i].Name
	}
	return names
}

// Find gives the index of a level by its name, or -1.
func (r *Rules) Find(name string) int {
	for i := range r.Ladder {
		if r.Ladder[i].Name == name {
			return i
		}
	}
	return -1
}
