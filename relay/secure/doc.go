// Package secure is TLS 1.3 over memory, as trunks have it: both ends have certificates of one authority, the acceptor's for the name
// by which the opener knows it, and the opener's for its own. No descriptor is touched: who owns a Conn moves its ciphertext.
//
// crypto/tls does the work. Its handshake blocks, and runs on a goroutine of its own, which ends with it, or soon after Close. From then
// on all belongs to the Conn's owner: crypto/tls goes on after a read that failed for now (net.Error, Temporary), so that a Read that
// finds nothing returns at once. What crypto/tls says of itself, such as the answer to a key update (RFC 8446, section 4.6.3), is sent
// with the rest of Pending.
//
// A Conn at rest has no buffers but those of crypto/tls: the largest record that it has read, 18 KiB at most.
//
// crypto/tls answers key updates and makes none: who sends more than 360 GiB on one trunk goes beyond the bound of AES-GCM that RFC 8446,
// section 5.5, would have observed.
package secure
