// Package certs looks at the certificates that surrogates show in TLS handshakes: whether they cover the names that the routes send
// there, when they expire, and whether those of two pools overlap, so that browsers send requests of one pool over a connection to the
// other (connection coalescing, RFC 9113 section 9.1.1). Whether a client would trust them is not looked at: authorities may be private.
package certs
