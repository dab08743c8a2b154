// Package secure is TLS 1.3 over memory, for trunks: both ends have certificates of one authority, the acceptor for the name by which the
// opener knows it, the opener for its own. It uses no descriptors; the owner of a Conn moves the ciphertext.
//
// It is built on crypto/tls. The handshake blocks, so it runs on a goroutine of its own, which ends with it or soon after Close. Afterwards
// the Conn belongs to its owner: crypto/tls continues after a temporary read error (net.Error, Temporary), so a Read without data returns
// at once. Output of crypto/tls itself, such as the answer to a key update (RFC 8446, section 4.6.3), is part of Pending.
//
// An idle Conn has no buffers but those of crypto/tls: the largest record that it has read, 18 KiB at most.
//
// crypto/tls answers key updates and starts none: sending more than 360 GiB on one trunk exceeds the limit for AES-GCM in RFC 8446, section
// 5.5.
package secure
