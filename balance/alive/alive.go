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

// Verdict is the state of a link.
type Verdict struct {
	State State
	URL   string // of a portal: where to sign in
	Since time.Time
}
