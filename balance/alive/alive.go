// Package alive finds out whether links lead anywhere: their gateways answer, or a server behind them does. What traffic of the host
// is answered by a link says so, too, and spares asking.
package alive

import "time"

// State is what is known of a link.
type State int

// The states.
const (
	Unknown State = iota // nothing has answered yet, and not for long enough to be dead
	Alive
	Dead   // nothing answers
	Portal // something answers, but it is not who was asked: a captive portal
)

// String is the word of the status.
func (s State) String() string { return [...]string{"unknown", "alive", "dead", "portal"}[s] }

// Verdict is the state of a link.
type Verdict struct {
	State State
	URL   string // of a portal: where one signs in
	Since time.Time
}

// Usable says which links new flows may use; able are those that packets can leave by at all. Links that are alive, if there are any.
// Otherwise all that are able: the probe's server may be what is dead, a link that was just plugged in has not answered yet, and a
// portal is signed in at by the link that has it.
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
