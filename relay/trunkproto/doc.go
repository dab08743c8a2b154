// Package trunkproto is the protocol of trunks: what two relays say to each other before the bytes of a flow, as typed values and
// as bytes. It opens no sockets, starts no goroutines and asks no clock: parsers take the bytes that have come so far, and say
// how many of them are theirs, 0 while more are needed.
//
// What follows is the whole protocol, version 1. Numbers are big-endian and offsets count from 0. "Must" binds the sender; what
// breaks it is refused, but for fields that are to be ignored.
//
// # A trunk
//
// A trunk is a TCP connection, or TLS 1.3 with certificates of both ends over one. It carries one flow or one probe:
//
//	acceptor  hello, at once                       then waits: a trunk is opened ahead of its use
//	opener    header, then the client's bytes      without waiting for the answer
//	acceptor  answer, then the server's bytes      nothing behind an answer other than "connected"
//
// The acceptor speaks first for three reasons. The windows of a SYN and SYN-ACK are not scaled (RFC 7323, section 2.2), so that
// an opener may send 64 KiB at most until the acceptor has sent a segment. The opener learns that the trunk works. And the nonce
// of the hello is what makes a header good for one trunk alone, so that nothing depends on clocks.
//
// Behind header and answer the trunk's FIN, resets and flow control are the flow's own. An acceptor that refuses sends its
// answer, then FIN, and reads on for a while, so that no reset overtakes the answer. An opener that has no use for a trunk any
// more closes it, as an acceptor does that stops before a header has come.
//
// # Hello
//
//	0   4  "BTNR"
//	4   1  newest version that the acceptor speaks
//	5   1  oldest version that it speaks
//	6   2  what it can do besides, a bit each: none is defined, unknown ones are ignored
//	8  16  nonce, from a cryptographic source, new for each trunk
//	       24 bytes in every version
//
// The opener takes the newest version that both speak, and closes the trunk if there is none.
//
// # Header
//
// A header of the PROXY protocol, version 2 ("The PROXY protocol", Willy Tarreau, section 2.2), so that tools can show it:
//
//	 0  12  0d 0a 0d 0a 00 0d 0a 51 55 49 54 0a
//	12   1  0x21 PROXY: a flow; 0x20 LOCAL: a probe
//	13   1  of a flow 0x11 (TCP over IPv4) or 0x21 (TCP over IPv6), of a probe 0x00
//	14   2  number of bytes that follow, 2032 at most: a header is no longer than 2048 bytes
//	16      of a flow: client's address, server's address, client's port, server's port (12 bytes of IPv4, 36 of IPv6);
//	        where they are of different families both are IPv6, and the IPv4 one is mapped (RFC 4291, section 2.5.5.2)
//	        then TLVs to the end: type, 1 byte; length of the value, 2 bytes; value
//
// The TLVs, each once at most:
//
//	0xe0   1  version of this protocol, which says what all the others mean: the first TLV
//	0x05  16  id of the flow or probe (PP2_TYPE_UNIQUE_ID), random, the same on all trunks of its way
//	0xe1      the way on: names of the relays still to pass, the acceptor first
//	0xe2      the relays passed, the opener last
//	0xe3   1  what the server is to see as its client: 0 the last relay (so without the TLV), 1 the client's own address,
//	          2 the last relay, and the client in a PROXY protocol v2 header in front of the flow
//	0xe4      of a probe: the address to measure, 4 bytes of IPv4 or 16 of IPv6, and its port, 2 bytes;
//	          without it the last relay alone answers
//	0xe8      congestion control towards the server: a kernel's name of an algorithm, 1 to 15 bytes of [A-Za-z0-9_-]
//	0xef  32  seal: the last TLV
//
// Version, id, way on and relays passed are always there. Names of relays have 1 to 63 bytes of [a-z0-9-] and are joined by
// commas; passed and to come they are 8 at most. An unknown type from 0xe0 to 0xe7 is refused, other unknown types are skipped.
//
// The seal is there when the trunk has a secret, and only then; TLS trunks have certificates instead, and the name of the relay
// passed last should be among the opener's. It is HMAC-SHA256 (RFC 2104), keyed with the secret, over
//
//	"baton trunk header" and a zero byte, the 24 bytes of the hello, the header up to and with the length of the seal's TLV
//
// and is compared in constant time before any TLV is looked at. It covers the hello, so that nobody on the way can make two
// relays speak an older version. It does not cover what follows it: on a trunk without TLS, the answer and the flow can be read
// and changed on the way.
//
// The acceptor refuses a header whose way on does not begin with its own name, and one that has its name twice, on the way or
// among the relays passed. Otherwise it takes its name off the way on. If a name is left, it opens the flow's next trunk to that
// relay, with itself as the last of the relays passed; if none is, it connects to the server, or measures the probe's address.
//
// # Answer
//
//	0   1  status, see [Status]
//	1   1  number of relays passed where this was decided: 1 is the opener's own peer; 0 if the header could not be read
//	2   2  zero, to be ignored
//	4   4  microseconds that the handshake with the server, or with the probe's address, took; 0 if that is not known
//
// A relay in the middle passes the answer of the next one on as it is, and makes one of its own only if that cannot be had.
package trunkproto
