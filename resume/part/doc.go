// Package part decides what to request from a server for the rest of a file, and what the answer means: where its bytes go, or why they
// cannot be used. It opens no connection and has no clock.
//
// A representation is one version of a file, byte for byte, in one content coding (RFC 9110, section 3.2). Bytes of two answers are
// combined only if both are of the same representation: they have the same strong validator (RFC 9110, section 15.3.7.3), or the same
// digest of the whole (Repr-Digest, RFC 9530, section 3). If neither exists, the bytes before the gap can be reread and compared, if the
// user requested that; otherwise the existing bytes are discarded.
//
// Offsets count from the first byte of the representation as it is transferred, in its coding.
package part
