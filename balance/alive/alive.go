// Package alive finds out whether links work: whether their gateways answer, or a server beyond them. Replies to the host's own traffic
// count, too, and save probes.
package alive

import "time"

// State is the state of a link.
type State int

// The states.
const (
	Unknown State = iota // nothing has answered yet, but not for long enough to be dead
	Alive
	Dead   // nothing answers
	Portal // something other than the probed server answers: a captive portal
)

// String returns the word of the status.
func (s State) String() string { return [...]string{"unknown", "alive", "dead", "portal"}[s] }

// Verdict is the state of a link.
type Verdict struct {
	State State
	URL   string // of a portal: where to sign in
	Since time.Time
}

// Usable returns which links new flows may use; able are those that packets can leave by at all. These are the links that are alive, if
// there are any, and otherwise all able ones: the probed server itself may be down, a link that was just plugged in has not answered yet,
// and users sign in to a portal over its link.
func Usable(verdicts []Verdict, able []bool) []bool {
	alive := make([]bool, len(verdicts))
	some := false
	for i, v := range verdicts {
		alive[i] = able[i] && v.State == Alive
		some = some || alive[i]
	}
	if !some {
		copy(alive, able)
	}
	return alive
}
