/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Scratch data of bind and unbind for one packet. */
#pragma once

#include "binding_types.h"

/* A bucket that a new flow may be bound to. */
struct candidate {
	__u64 cost;
	__u32 bucket; /* index */
	__u32 relative;
	__u32 seat;
	__u32 weight;
	__be32 port;
	__u32 time; /* cost of a flow on this port, as the method defines it; UNMEASURED */
	__u32 due;  /* its turn may come in this selection */
	__u32 reserved;
};

#define UNMEASURED 0xffffffff

/* The least cost per weight among the candidates, and the candidate that wins the round-robin among those due. */
struct ranking {
	__u64 cost;
	__u64 weight;
	__s32 total;      /* of all weights */
	__s32 due_weight; /* of the weights of those due */
	__s32 highest;    /* credit of the best */
	__u32 best;       /* BIND_SEATS: none */
	__u32 idle;       /* a candidate has no active flow */
};

/* The group to select from, read once; the candidates; the result. */
struct selection {
	__u32 head; /* index of the group */
	__u32 id;   /* OpenFlow's number */
	__u32 first;
	__u32 count;
	__u32 slots;
	__u32 slot_mask;
	__u32 method;
	__u32 affinity; /* seconds */

	__u64 fastest;  /* least time of a candidate; us */
	__u32 excluded; /* seats, a bit each */
	__u32 candidates;
	struct candidate candidate[BIND_SEATS];
	struct ranking ranking;
	struct candidate standby;
	struct candidate chosen;
};

/* The keys of a flow, and the values to store under them. */
struct flow_at_hand {
	struct binding_key key;
	struct binding_key other; /* of another flow with the same replies */
	struct binding_reply_key reply;
	struct binding_reply owner;
	struct binding fresh;
	struct binding_remote_key remote;
	struct binding_remote last;
	struct binding_fragment_key whole;
	struct binding_fragment ports; /* of the packet */
};

/* An ICMP error and the sender of the packet that it quotes. */
struct icmp_error {
	__u8 from[16]; /* IPv4: the first 4 */
	__u32 at;      /* of the quoted packet */
	__u32 l4;      /* of its transport header */
};
