// Package model is the recycling of server legs as a small state machine, explored against an adversarial network.
//
// The invariant, in the words of docs/handoff.md: a byte that a surrogate wrote for one client is never sent to another,
// and what a client sent never becomes part of another client's request. A leg is given to the next client only when both
// ends of it stand between two messages. The kernel program keeps this with a handful of rules; here each can be switched
// off, and a test shows that the model then finds a violation, so that none of them is there by habit.
//
// # What stands for what
//
// A unit stands for the bytes of a stream that belong together: a message head, a part of a body, a chunk, a FIN. It has one
// sequence number and knows for whom it was written. A packet carries up to three. Two clients and two surrogates with a leg
// each are enough: one client to be betrayed and one to be betrayed with, one surrogate to stay with and one to move to.
// Handshakes are done before the first step; sequence numbers start just below their wrap.
//
// The network keeps a bag of packets: any of them is delivered next, repeated or lost, within a budget. Ends retransmit when
// they like. Surrogates answer when they like, close, and (where a scenario says so) send an unsolicited response. Clients follow a script
// of segments; a liar sends a segment twice with different contents, of which the surrogate discards the first one (bad
// checksum, TTL, old timestamp) and the router does not, marks units as urgent, or has a clock that jumps. A stranger, who sees
// no session, sends in the name of clients and surrogates, with numbers of which one at most is right.
//
// Windows are all of one size, in units. Timestamps are on a ring of eight, and only where a scenario asks for them: the clocks
// stand still but for a liar's, and the router's stands where the scenario says.
//
// # Beside the kernel
//
// The kernel's session is a machine of its own, in C (bpf/session), and each of its events has its counterpart here:
//
//	clientEvent   client_event    a packet of a session's client
//	serverEvent   server_event    a packet of a surrogate
//	requestEvent  request_event   the next request of a session
//	joinEvent     join_event      a client and its request are joined to a leg
//	leaveEvent    leave_event     a leg's client has moved
//	holdMore      cut_of_more     what waits behind the request in front
//
// That C is compiled for this host, too (package machine), and beside.go runs it in lockstep: what a transition makes of the record, and what
// becomes of the packet, must be the same in both, or the exploration fails. A rule that is switched off is seen as such a difference.
// What is around the events (flows, lingering, urgent data, the moves' three steps) is that of bpf/router.
//
// Each event is one step, as it is under the splice's lock; a move, which takes the lock three times, is three steps with
// anything between. Left out: user space (a request that finds no leg waits for the client's retransmission), handshakes and
// SYNs, windows that change, clocks that run, the surrogate's timestamps, chunked requests, 1xx and 101 responses, packets that
// stand for many, opening and freeing of legs, timeouts.
package model
