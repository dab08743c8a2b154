/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the forwarder remembers of flows that it has bound a port for: both sides use it. Times: ns, CLOCK_MONOTONIC. */
#pragma once

#include <linux/types.h>

enum bind_limit {
	BIND_SEATS = 32, /* ports that flows are bound for, and none: place 0 */
};

/* How a bucket is bound for a new flow (docs/openflow-bind.md). */
enum bind_method {
	BIND_ROUND_ROBIN = 1, /* each in its turn, as often as its weight says */
	BIND_LEAST,           /* the fewest active flows for its weight */
	BIND_FASTEST,         /* those times the time that handshakes take */
	BIND_HASH,            /* as the group itself */
	BIND_EVEN,            /* by turns, of those that have not much more than their share; but none is left idle */
};

/* A flow as the inside sees it. Ports: of ICMP echo the identifier is the inside's; 0 where there are none. */
struct binding_key {
	__u8 protocol;
	__u8 family; /* 4 or 6 */
	__be16 internal_port;
	__be16 remote_port;
	__u16 zero;
	__u8 internal[16]; /* IPv4: the first 4 */
	__u8 remote[16];
} __attribute__((aligned(8)));

/* A reply as it comes in by a port. The inside's port is not translated. */
struct binding_reply_key {
	__u8 protocol;
	__u8 family;
	__be16 internal_port;
	__be16 remote_port;
	__u16 zero;
	__be32 port; /* OpenFlow's number */
	__u8 remote[16];
};

/* Whose reply it is. */
struct binding_reply {
	__u8 internal[16];
} __attribute__((aligned(4)));

enum binding_state {
	BINDING_OPENING, /* TCP: a SYN was sent, and nothing has come back */
	BINDING_OPEN,
	BINDING_CLOSING, /* TCP: FIN both ways, or a RST */
};

enum binding_flag {
	BINDING_FIN_SENT = 1,
	BINDING_FIN_RECEIVED = 2,
	BINDING_SYN_REPEATED = 4,
	BINDING_RST_RECEIVED = 8, /* which the inside may not have believed */
};

enum binding_active {
	BINDING_INACTIVE,
	BINDING_ACTIVE, /* counted as such in its port's seat; after a FIN only once there is payload again */
	BINDING_ENDED,  /* it is being forgotten, by whoever has set this */
};

/* A flow that is remembered. */
struct binding {
	__u64 began;
	__u64 used;
	__u64 sent; /* bytes of the wire */
	__u64 received;
	__u64 sent_reported; /* how much of them is counted in the port's seat */
	__u64 received_reported;
	__u64 refreshed; /* when the remote address was last noted as in use */
	__be32 port;     /* OpenFlow's number: places are another process's when this one is gone */
	__u32 group;     /* OpenFlow's number */
	__u32 active;    /* enum binding_active */
	__u32 state;
	__u32 flags;
	__u32 seat;
	__u32 bucket; /* where in the group it was found last */
	__u32 reserved;
	__u64 forth; /* microflow of packets from the inside, of those that come back; 0: none */
	__u64 back;
};

/* What flows of a group to a remote address went out of last. */
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

/* A port that flows are bound for. */
struct bind_seat {
	__u64 active; /* flows; in the upper half how often that has changed, but by the sweep */
	__u64 flows;
	__u64 rtt;      /* of handshakes, ns: a mean in which the last one is an eighth; 0: none yet */
	__u64 peak;     /* the same, but up at once, and down when nothing is heard */
	__u64 measured; /* when last; ns */
	__u64 syns;
	__u64 syn_repeats;
	__u64 sent; /* bytes, of flows that go on up to the last sweep */
	__u64 received;
	__u64 was;   /* active, when the sweep began */
	__u64 tally; /* active flows, as the sweep has counted */
};

/* A packet whose fragments follow: later ones have no ports. */
struct binding_fragment_key {
	__u8 src[16];
	__u8 dst[16];
	__be32 id;
	__u8 protocol;
	__u8 family;
	__u16 zero;
};

struct binding_fragment {
	__be16 src_port; /* as in a key */
	__be16 dst_port;
};
