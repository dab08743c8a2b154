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
// they like. Surrogates answer when they like, close, and (where a scenario says so) speak unasked. Clients follow a script
// of segments; a liar sends a segment twice with different contents, of which the surrogate discards the first one (bad
// checksum, TTL, old timestamp) and the router does not, marks units as urgent, or has a clock that jumps. A stranger, who sees
// no session, sends in the name of clients and surrogates, with numbers of which one at most is right.
//
// Windows are all of one size, in units. Timestamps are on a ring of eight, and only where a scenario asks for them: the clocks
// stand still but for a liar's, and the router's stands where the scenario says.
//
// # What mirrors what
//
// The transitions of router.go, server.go, framing.go, hold.go and window.go are those of the kernel program, function by function:
//
//	calm               bpf/router/strip.h      strip
//	clientPacket       bpf/router/client.h     client_packet, from the tuple check to unlock
//	trackRequest       bpf/router/client.h     track_request
//	nextRequest        bpf/router/move.h       next_request up to the first unlock
//	moveOut            bpf/router/session.h    splice_client, as next_request calls it
//	moveDone           bpf/router/move.h       leave_leg: the second lock
//	newClient          bpf/router/newclient.h  new_client, first_request
//	lingering          bpf/router/newclient.h  lingering_client
//	spliceClient       bpf/router/session.h    splice_client
//	attach             bpf/router/legs.h       attach
//	noteTold           bpf/router/legs.h       note_told
//	over, cut          bpf/router/session.h    bury
//	serverPacket       bpf/router/server.h     server_packet, from the tuple check to unlock
//	trackIdle          bpf/router/server.h     track_idle
//	beforeAnswer       bpf/router/server.h     before_answer
//	trackResponse      bpf/router/follow.h     track_response, follow_response
//	trackServerFin     bpf/router/follow.h     track_server_fin
//	bothOver           bpf/router/session.h    both_over
//	window.go          bpf/router/window.h     client_fits, server_fits, client_resets, server_resets, note_server
//	hold.go            bpf/router/hold.h       behind_request, hold_more, hold_first; hold_request of client.h
//	framing.go         bpf/router/framing.h    all of it; a chunked body is units up to a last one
//
// Each runs as one step, as it does under the splice's lock; next_request, which takes the lock twice, is three steps with
// anything between. Left out: user space (a request that finds no leg waits for the client's retransmission), handshakes and
// SYNs, windows that change, clocks that run, the surrogate's timestamps, chunked requests, 1xx and 101 responses, packets that
// stand for many, opening and freeing of legs, timeouts.
package model
