// Package model is a small state machine of recycling server legs, explored against an adversarial network.
//
// The invariant, as in docs/handoff.md: a byte that a surrogate wrote for one client is never sent to another, and what a
// client sent never becomes part of another client's request. A leg is given to the next client only when both of its ends
// are between two messages. A handful of rules in the kernel program ensures this; here each can be switched off, and a test
// shows that the model then finds a violation, so that no rule is redundant.
//
// # Abstractions
//
// A unit is the bytes of a stream that belong together: a message head, a part of a body, a chunk, a FIN. It has one sequence
// number and an owner. A packet carries up to three. Two clients and two surrogates with a leg each are enough: a client and
// its victim, a surrogate to stay on and one to move to. Handshakes are done before the first step; sequence numbers start
// just below their wrap.
//
// The network holds a bag of packets: any of them is delivered next, duplicated or lost, within a budget. Ends retransmit at
// any time. Surrogates answer at any time, close, and (in some scenarios) send an unsolicited response. Clients follow a
// script of segments; a liar sends a segment twice with different contents, of which the surrogate discards the first one
// (bad checksum, TTL, old timestamp) and the router does not, marks units as urgent, or has a clock that jumps. An off-path
// attacker sends in the name of clients and surrogates, with at most one correct number.
//
// Where the router edits heads, each is one unit longer on the leg, and all its units are of the router's making (Edited): the client's own
// never stand in their place. A head has one unit, or two, which a client may repeat one by one.
//
// All windows have one size, in units. Timestamps are on a ring of eight, and only in scenarios that need them: clocks stand
// still except a liar's; the scenario sets the router's.
//
// # Lockstep with the kernel's code
//
// The kernel's session is a state machine in C (bpf/session), and each of its events has its counterpart here:
//
//	clientEvent   client_event    a packet of a session's client
//	serverEvent   server_event    a packet of a surrogate
//	requestEvent  request_event   the next request of a session
//	joinEvent     join_event      a client and its request are joined to a leg
//	leaveEvent    leave_event     a leg's client has moved
//	holdMore      cut_of_more     bytes after the current request are trimmed
//
// That C is compiled for this host, too (package machine), and beside.go runs it in lockstep: each transition must have the
// same effect on the record and on the packet in both, or the exploration fails. A rule that is switched off shows as such a
// difference. What surrounds the events (flows, lingering, urgent data, the three steps of a move) mirrors bpf/router.
//
// Each event is one step, as it runs under the splice's lock; a move, which takes the lock three times, is three steps with
// anything in between. Left out: user space (a request without a leg waits for the client's retransmission), handshakes and
// SYNs, changing windows, running clocks, the surrogate's timestamps, chunked requests, 1xx and 101 responses, GSO, opening
// and freeing of legs, timeouts.
package model
