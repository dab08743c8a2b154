// Package splice is the arithmetic of a splice as pure code: how a client leg is joined to a server leg, and how packets are
// translated between them. It is the specification of the translation: the kernel program is compared with it on random
// packets.
//
// The paper (Boros et al., Transparent Redirections in Content Delivery Networks, section 3) joins two TCP sessions by
// adding constants to their sequence and acknowledgement numbers, equations 1 to 4, and switches window scale, SACK and
// timestamps off. Here these are translated too. [New] computes a [Splice] from two [Leg] records; its two [Direction]
// values are constant as long as the splice lives, and translating a packet needs no other state: packets may be lost,
// repeated and reordered on either leg.
//
//	           client leg                        server leg
//	client ──────────────── VIP │ router ──────────────────── surrogate
//	           Direction ToServer ──────────────►
//	           ◄────────────── Direction ToClient
//
// # What Direction.Translate does to a packet
//
//	Ethernet     addresses replaced
//	IP           addresses replaced; TTL or hop limit less one; DSCP, ECN, id, DF, flow label kept
//	IPv4 sum     updated by the difference
//	ports        replaced
//	seq          + DeltaSeq
//	ack          + DeltaAck if the ACK flag is set, else kept
//	window       (window << Sender) >> Receiver, at most 65535, rounded down
//	timestamps   TSval + DeltaTSval; TSecr + DeltaTSecr if the ACK flag is set; or the option becomes NOPs
//	SACK         both edges of every block + DeltaAck; or the option becomes NOPs
//	TCP sum      updated by the difference, so that a wrong one stays wrong; CHECKSUM_PARTIAL: addresses only
//	the rest     kept: flags, urgent pointer, reserved bits, other options, payload, Ethernet padding
//
// All sums are modulo 2^32. The length never changes, so the translation is safe for GSO packets: each header field is the
// same in, or continues through, the resulting segments.
//
// # What it refuses
//
// A packet is either translated whole or not touched, and the [Reason] says which. The checks are made in this order,
// which matters only where a packet fails several: not IP; truncated or impossible IP header; IPv6 fragment or other
// extension header; not TCP; length past the frame; IPv4 options; fragment; truncated or impossible TCP header; family
// other than the direction's; SYN; TTL; options.
package splice
