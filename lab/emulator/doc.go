// Package emulator is the lab's link emulator. It carries Ethernet frames between two TAP devices, each in a host's
// network namespace, and does to them what a path does: serialise at a rate behind a queue, delay, lose, repeat,
// corrupt and hold back. What happens to a packet is decided by a line (line.go), which is pure: frames and times in,
// frames and times out. Around it stand one thread a direction (run.go) and one process a lab (process.go), so that
// neither a busy test nor its garbage collector delays a packet.
//
// Frames keep their GSO form: 64 KiB of a stream cross in one piece where nothing asks for less. Where something does
// (a loss in the midst, a slow rate, a full queue), the frame is cut between packets (cut.go).
package emulator
