// Package channel is an OpenFlow channel over a connection that the caller gives: hello and the choice of the version, echo
// as sign of life, the matching of answers to requests, barriers, and a bound on what waits in either direction. It opens no
// sockets.
//
// What the protocol demands is in a state machine that knows no connection and no clock (machine.go); its tests are
// transcripts. [Conn] drives it: one goroutine reads, one writes, one watches the time.
//
// A message that is malformed or of another version is answered with the error that the specification names, and the
// channel lives on (OpenFlow 1.3.5, 7.4.4). It ends when the versions do not meet, when a length makes it impossible to find
// the next message, when the peer is silent or does not read for too long, and with the connection.
//
// Memory is bounded whatever the peer does: what arrives waits in a queue of Options.In bytes, and while that is full
// nothing is read; what is sent waits in one of Options.Out bytes, and while that is full nothing more is accepted.
package channel
