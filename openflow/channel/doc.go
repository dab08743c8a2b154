// Package channel implements an OpenFlow channel over a given connection: hello and version negotiation, echo, matching of replies to
// requests, barriers, and bounded queues in both directions. It opens no sockets.
//
// The protocol is a state machine without connection or clock (machine.go), tested by transcripts. [Conn] drives it with three goroutines: one
// reads, one writes, one watches the time.
//
// A malformed message, or one of another version, is answered with the error that the specification names, and the channel stays up (OpenFlow
// 1.3.5, 7.4.4). The channel ends if there is no common version, if a length makes it impossible to find the next message, if the peer is
// silent or does not read for too long, and with the connection.
//
// Memory is bounded whatever the peer does: received messages wait in a queue of Options.In bytes, and nothing is read while it is full;
// messages to send wait in a queue of Options.Out bytes, and none are accepted while it is full.
package channel
