// Package pipeline models the tables, groups and meters of an OpenFlow 1.3.5 switch as pure data: the effects of flow mods, group mods and
// meter mods, their refusal, the expiry of flow entries, and the resulting notifications. It does not process packets. The kernel's tables are
// compiled from a [Pipeline], and updated with the [Change] of each message.
//
// Nothing here waits, locks or reads a clock: time and the kernel's counters are arguments. A Pipeline must be used by one goroutine at a
// time. An [Entry], a [Group] and a [Meter] are immutable: a modification makes a new one, so that others may keep reading the old one.
//
// Messages must have passed [openflow.Check]; its checks are not repeated. Section numbers refer to the OpenFlow Switch Specification 1.3.5.
package pipeline
