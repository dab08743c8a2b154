// Package pipeline is the tables, groups and meters of an OpenFlow 1.3.5 switch as data: what a flow mod, a group mod or a meter
// mod makes of them, what it is refused for, when flow entries expire, and what a controller is told about all of it. No packet
// passes here. The kernel's tables are compiled from what a [Pipeline] holds, and kept up by the [Change] of each message.
//
// Nothing here waits, locks or looks at a clock: the time is an argument, and so are counters, which the kernel has. A
// Pipeline is for one goroutine at a time. An [Entry], a [Group] and a [Meter] never change: a modification makes another one,
// so that they may be read elsewhere meanwhile.
//
// Messages have passed [openflow.Check]; what it has refused is not looked for again. Numbers of sections are those of the
// OpenFlow Switch Specification 1.3.5.
package pipeline
