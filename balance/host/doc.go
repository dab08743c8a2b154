// Package inside is the host's own side of a balance: the device that new connections leave by, its addresses, the routing rules and tables
// that lead there, and what Open vSwitch needs beside. It is the internal gateway of the paper (section V), with a default route of its own.
//
// The routing table main is not touched. All that is made stands behind one rule for each IP version, which jumps there; see [Make]. What
// is to be is a [Plan], which is data; a [Host] makes the host be so. Each change is told to a journal before it is made, so that
// [Restore] takes away what a process left that was killed, at whatever step.
package host
