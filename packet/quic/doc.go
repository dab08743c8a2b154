// Package quic reads QUIC packets as a router between client and server can: the headers of every version as far as RFC 8999
// promises them, those of versions 1 and 2 whole (RFC 9000 section 17, RFC 9369), a client's Initial packets with their
// protection removed (RFC 9001 section 5; the keys follow from what is on the wire), their frames, and the server ids that servers
// write into connection ids. It sends nothing, keeps no state and never changes the datagram, which goes on as it came.
package quic
