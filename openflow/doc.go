// Package openflow encodes and decodes OpenFlow 1.3.5 (wire protocol 0x04): the messages of controllers and of switches, as typed values. It
// opens no sockets and keeps no state.
//
// [Decode] reads a [Message] from bytes, [Append] writes one. Decode checks every length before it reads or allocates. Unknown messages,
// multipart bodies, actions, instructions, fields and properties are kept as bytes, so that callers can ignore them, and encoding a decoded
// message gives the same bytes with padding set to zero. [Check] makes the checks that the specification requires of every switch and that
// need no state. Both report errors as a [*Fault] with the error type and code to answer with.
//
// A decoded message aliases its input where a field's comment says so: a match, a packet's data, unknown parts. Callers that reuse the buffer
// must decode a copy.
//
// Section numbers refer to the OpenFlow Switch Specification 1.3.5. The protocol's numbers are generated from spec/openflow13.yaml. Baton's
// own actions are specified in docs/openflow-handoff.md and docs/openflow-bind.md.
package openflow

//go:generate go run ./spec
