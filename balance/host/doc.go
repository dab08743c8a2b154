// Package host is the host's side of a balance: the internal interface that new connections leave by, its addresses, the routing rules and
// tables that lead to it, and what Open vSwitch needs in addition. It is the paper's internal gateway (section V) with a default route of
// its own.
//
// The main routing table is not changed. One rule for each IP version jumps to everything else; see [Make]. A [Plan] is the desired state
// as data; a [Host] applies it. Each change is recorded in a journal before it is made, so that [Restore] can undo whatever a killed
// process has left.
package host
