// Package part says what to ask of a server for the rest of a file, and what an answer to that means: which of its bytes go where,
// or why none may be used. It opens no connection and asks no clock.
//
// A representation is one version of a file, byte for byte, in one content coding (RFC 9110, section 3.2). Bytes of two answers are put
// together only if both are of the same representation: if they have the same strong validator (RFC 9110, section 15.3.7.3), or the same digest of
// the whole (Repr-Digest, RFC 9530, section 3). Where neither can be told, the bytes in front of the gap can be read again and compared,
// if the user asked for that; else what is kept is thrown away.
//
// Offsets count from the first byte of the representation as it is transferred, in its coding.
package part
