/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is known of a packet's flow while it is bound for, or found again: data alone. */
#pragma once

#include "binding_types.h"

/* A bucket that a flow may be bound for. */
struct candidate {
	__u64 cost;
	__u32 bucket; /* place */
	__u32 relative;
	__u32 seat;
	__u32 weight;
	__be32 port;
	__u32 time; /* that a flow takes there, as far as the method goes by it; UNMEASURED */
	__u32 due;  /* it has one */
	__u32 reserved;
};

#define UNMEASURED 0xffffffff

/* The least cost for the weight among candidates, and whose turn it is among those that cost it. */
struct bidding {
	__u64 cost;
	__u64 weight;
	__s32 total;   /* of all weights */
	__s32 among;   /* of those that cost the least */
	__s32 highest; /* what the best has credit */
	__u32 best;    /* BIND_SEATS: none */
	__u32 idle;    /* one has no active flow */
};

/* A group to bind from as the op says, which is read once; then who may be bound, and who is. */
struct selection {
	__u32 head; /* place of the group */
	__u32 id;   /* OpenFlow's number of it */
	__u32 first;
	__u32 count;
	__u32 slots;
	__u32 slot_mask;
	__u32 method;
	__u32 affinity; /* s */

	__u64 fastest;  /* of the candidates; ns */
	__u32 excluded; /* seats, a bit each */
	__u32 candidates;
	struct candidate candidate[BIND_SEATS];
	struct bidding bidding;
	struct candidate standby;
	struct candidate chosen;
};

/* The keys of a flow, and what is written under them. */
struct flow_at_hand {
	struct binding_key key;
	struct binding_key other; /* of the flow that has the same replies */
	struct binding_reply_key back;
	struct binding_reply owner;
	struct binding fresh;
	struct binding_remote_key remote;
	struct binding_remote last;
	struct binding_fragment_key whole;
	struct binding_fragment ports; /* of the packet */
};

/* An ICMP error, and who is said to have sent what it quotes. */
struct complaint {
	__u8 from[16]; /* IPv4: the first 4 */
	__u32 at;      /* of the quoted packet */
	__u32 l4;      /* of its transport header */
};
