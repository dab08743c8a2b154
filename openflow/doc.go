// Package openflow is OpenFlow 1.3.5 (wire protocol 0x04) as typed values and as bytes, in both directions: what a
// controller sends and what a switch sends. It opens no sockets and keeps no state.
//
// [Decode] makes a [Message] of the bytes of one, [Append] the bytes of a message. Decode checks every length before it
// reads or allocates; what it does not know (message, multipart, action, instruction, field, property types) it keeps as
// bytes, so that a controller may ignore it, and so that decoding and encoding give the same bytes again, padding set to
// zero. [Check] is what a switch does next: it refuses what the specification tells every switch to refuse, by numbers
// alone. Both say what is wrong as a [*Fault], which carries the error type and code that the specification names, and
// makes the answer.
//
// A decoded message keeps slices of its input, where a field's comment says so: a match, a packet's data, and what is
// unknown. Who reuses the buffer decodes a copy.
//
// Numbers of sections are those of the OpenFlow Switch Specification 1.3.5. The protocol's own numbers are generated from
// spec/openflow13.yaml. Baton's own actions are specified in docs/openflow-handoff.md and docs/openflow-bind.md.
package openflow

//go:generate go run ./spec
