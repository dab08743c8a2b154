/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The binding table: what the forwarder stores per flow bound to a port. Shared with user space. Times are in ns, CLOCK_MONOTONIC. */
#pragma once

#include <linux/types.h>

enum bind_limit {
	BIND_SEATS = 32, /* ports that flows can be bound to, plus seat 0, which is none */
};

/* How bind selects a bucket for a new flow (docs/openflow-bind.md). */
enum bind_method {
	BIND_ROUND_ROBIN = 1, /* smooth weighted round-robin */
	BIND_LEAST,           /* fewest active flows per weight */
	BIND_FASTEST,         /* active flows × handshake time, least per weight */
	BIND_HASH,            /* the hash of the select group */
	BIND_EVEN, /* round-robin, except for ports far above their fair share; an idle port is always used first */
};

/* A flow, as the host sends it. Ports are 0 where the protocol has none; of ICMP echo, the internal port is the identifier. */
struct binding_key {
	__u8 protocol;
	__u8 family; /* 4 or 6 */
	__be16 internal_port;
	__be16 remote_port;
	__u16 zero;
	__u8 internal[16]; /* IPv4: the first 4 */
	__u8 remote[16];
} __attribute__((aligned(8)));

/* A reply, as it comes in by a port. The internal port is not translated. */
struct binding_reply_key {
	__u8 protocol;
	__u8 family;
	__be16 internal_port;
	__be16 remote_port;
	__u16 zero;
	__be32 port; /* OpenFlow's number */
	__u8 remote[16];
};

/* The internal address of the flow that a reply belongs to. */
struct binding_reply {
	__u8 internal[16];
} __attribute__((aligned(4)));

enum binding_state {
	BINDING_OPENING, /* TCP: SYN sent, no answer yet */
	BINDING_OPEN,
	BINDING_CLOSING, /* TCP: FIN both ways, or RST */
};

enum binding_flag {
	BINDING_FIN_SENT = 1,
	BINDING_FIN_RECEIVED = 2,
	BINDING_SYN_REPEATED = 4,
	BINDING_RST_RECEIVED = 8, /* which the host may have rejected */
};

enum binding_active {
	BINDING_INACTIVE,
	BINDING_ACTIVE, /* counted in its port's seat. After a FIN, only payload makes a flow active again */
	BINDING_ENDED,  /* being removed by the caller that set this */
};

/* An entry of the binding table. */
struct binding {
	__u64 began;
	__u64 used;
	__u64 sent; /* bytes on the wire */
	__u64 received;
	__u64 sent_reported; /* the part already counted in the port's seat */
	__u64 received_reported;
	__u64 refreshed; /* when the entry of its remote address was last updated */
	__be32 port;     /* OpenFlow's number: indices change with the process */
	__u32 group;     /* OpenFlow's number */
	__u32 active;    /* enum binding_active */
	__u32 state;
	__u32 flags;
	__u32 seat;
	__u32 bucket; /* its index in the group, at the last packet */
	__u32 reserved;
	__u64 microflow_out; /* id of the microflow of sent packets, of received ones; 0: none */
	__u64 microflow_in;
};

/* The port that a group last used for a remote address, for affinity. */
struct binding_remote_key {
	__u32 group;
	__u32 family;
	__u8 remote[16];
};

struct binding_remote {
	__be32 port;
	__u32 reserved;
	__u64 used;
};

/* Statistics of a port that flows are bound to. */
struct bind_seat {
	__u64 active; /* active flows; the upper half counts changes except the sweep's */
	__u64 flows;
	__u64 rtt;      /* of handshakes, ns: moving average with weight 1/8; 0: none yet */
	__u64 peak;     /* as rtt, but rises at once and decays while nothing is measured */
	__u64 measured; /* time of the last measurement */
	__u64 syns;
	__u64 syn_repeats;
	__u64 sent; /* bytes, of live flows as of the last sweep */
	__u64 received;
	__u64 was;   /* active, at the start of the sweep */
	__u64 tally; /* active flows counted by the sweep */
};

/* A packet sent in fragments: only the first has ports. */
struct binding_fragment_key {
	__u8 src[16];
	__u8 dst[16];
	__be32 id;
	__u8 protocol;
	__u8 family;
	__u16 zero;
};

struct binding_fragment {
	__be16 src_port; /* as in binding_key */
	__be16 dst_port;
};
