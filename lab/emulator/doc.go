// Package emulator is the lab's link emulator: it carries Ethernet frames between two TAP devices and does to them
// what a real path does.
package emulator
