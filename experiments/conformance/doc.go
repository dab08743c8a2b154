// Package conformance puts the 991 OpenFlow 1.3 cases of os-ken's switch tester, which nobody here wrote, to Open vSwitch
// and to our forwarder, in one job, and compares what fails with what is expected to.
//
//	case      a description in a file of the suite: flow entries, groups or meters, and packets with what must become of them
//	target    the switch under test
//	bench     a host with three cables: the target at their one end, at the other the tester's own switch
//	tester    os-ken, the controller of both: it installs, sends, compares and judges (launcher.py)
//	verdict   what it says of a case
//
// The cases, the tester and its demands are explained in docs/conformance.md.
package conformance
