// Package trunkproto is the trunk protocol: the messages that two relays exchange in front of the bytes of a flow. It opens no
// sockets, starts no goroutines and reads no clock. Parsers take the bytes received so far, and return how many they consume,
// 0 while more are needed.
//
// What follows is the complete protocol, version 1. Numbers are big-endian and offsets start at 0. Violations are refused,
// except in fields that are to be ignored.
//
// # A trunk
//
// A trunk is a TCP connection, or TLS 1.3 with certificates of both ends over one. It carries one flow or one probe:
//
//	acceptor  hello, at once                       then waits: a trunk is opened before it is needed
//	opener    header, then the client's bytes      without waiting for the answer
//	acceptor  answer, then the server's bytes      nothing after an answer other than "connected"
//
// The acceptor sends first for three reasons. The windows in a SYN and SYN-ACK are not scaled (RFC 7323, section 2.2), so an
// opener may send at most 64 KiB until the acceptor has sent a segment. The opener learns that the trunk works. And the nonce
// in the hello makes a header valid for one trunk only, so that nothing depends on clocks.
//
// After header and answer the trunk's FIN, resets and flow control are those of the flow. An acceptor that refuses a flow sends
// its answer, then FIN, and keeps reading for a while, so that no reset overtakes the answer. An opener closes a trunk that it
// no longer needs, and an acceptor closes its idle trunks when it stops.
//
// # Hello
//
//	0   4  "BTNR"
//	4   1  newest version that the acceptor supports
//	5   1  oldest version that it supports
//	6   2  optional features, a bit each: none is defined, unknown ones are ignored
//	8  16  nonce, from a cryptographic source, new for each trunk
//	       24 bytes in every version
//
// The opener uses the newest version that both support, and closes the trunk if there is none.
//
// # Header
//
// A PROXY protocol header, version 2 ("The PROXY protocol", Willy Tarreau, section 2.2), so that tools can display it:
//
//	 0  12  0d 0a 0d 0a 00 0d 0a 51 55 49 54 0a
//	12   1  0x21 PROXY: a flow; 0x20 LOCAL: a probe
//	13   1  for a flow 0x11 (TCP over IPv4) or 0x21 (TCP over IPv6), for a probe 0x00
//	14   2  number of bytes that follow, 2032 at most: a header is no longer than 2048 bytes
//	16      for a flow: client's address, server's address, client's port, server's port (12 bytes for IPv4, 36 for IPv6);
//	        if their families differ both are IPv6, and the IPv4 one is mapped (RFC 4291, section 2.5.5.2)
//	        then TLVs to the end: type, 1 byte; length of the value, 2 bytes; value
//
// The TLVs, each at most once:
//
//	0xe0   1  version of this protocol, which defines all others: the first TLV
//	0x05  16  id of the flow or probe (PP2_TYPE_UNIQUE_ID), random, the same on all trunks of its route
//	0xe1      the route: names of the relays still to pass, starting with the acceptor
//	0xe2      the relays passed, ending with the opener
//	0xe3   1  the client address that the server sees: 0 the last relay's (as without the TLV), 1 the client's own,
//	          2 the last relay's, with the client's in a PROXY protocol v2 header in front of the flow
//	0xe4      of a probe: the address to measure, 4 bytes for IPv4 or 16 for IPv6, and its port, 2 bytes;
//	          without it the last relay answers at once
//	0xe8      congestion control towards the server: the kernel's name of an algorithm, 1 to 15 bytes of [A-Za-z0-9_-]
//	0xef  32  seal: the last TLV
//
// Version, id, route and relays passed are mandatory. Relay names have 1 to 63 bytes of [a-z0-9-] and are joined by commas;
// route and relays passed together have at most 8. An unknown type from 0xe0 to 0xe7 is refused, other unknown types are
// skipped.
//
// The seal is present if and only if the trunk has a secret. TLS trunks have certificates instead, and the opener's must include
// the name of the relay passed last. It is HMAC-SHA256 (RFC 2104), keyed with the secret, over
//
//	"baton trunk header" and a zero byte, the 24 bytes of the hello, the header up to and with the length of the seal's TLV
//
// and is compared in constant time before any TLV is parsed. It covers the hello, so that nobody on the path can downgrade the
// version. It does not cover what follows: on a trunk without TLS, the answer and the flow can be read and changed on the path.
//
// The acceptor refuses a header whose route does not start with its own name, or that contains its name a second time, in the
// route or among the relays passed. Otherwise it removes its name from the route. If a name is left, it opens the flow's next
// trunk to that relay, with itself as the last of the relays passed; otherwise it connects to the server, or measures the probe's
// address.
//
// # Answer
//
//	0   1  status, see [Status]
//	1   1  number of relays passed where the status was determined: 1 is the opener's own peer; 0 for an unreadable header
//	2   2  zero, to be ignored
//	4   4  duration of the handshake with the server, or with the probe's address, in microseconds; 0 if unknown
//
// A relay in the middle forwards the answer of the next one unchanged, and makes its own only if there is none.
package trunkproto
