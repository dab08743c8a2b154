/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the steps of one packet hand to each other: too large for the stack, so one record a processor. */
#pragma once

#include <stddef.h>
#include <stdbool.h>
#include <linux/if_ether.h>
#include <linux/pkt_cls.h>
#include "../kernel/scratch.h"
#include "maps.h"

/* What the list of ops at hand belongs to. */
enum phase {
	PHASE_ENTRY, /* a flow entry's apply-actions; then its other instructions */
	PHASE_SET,   /* the action set at the end of the tables */
	PHASE_LIST,  /* a bucket or a packet-out: nothing comes after */
};

enum layer4 { L4_NONE, L4_TCP, L4_UDP, L4_SCTP, L4_ICMP, L4_ICMPV6 };

enum layer3 { L3_NONE, L3_IPV4, L3_IPV6, L3_ARP, L3_MPLS, L3_PBB };

struct range {
	__u32 next; /* places in ops */
	__u32 end;
};

/* What actions on TCP have in common. The packet's header is in fresh, as they have left it. */
struct tcp_walk {
	__u32 off;   /* of the option at hand, in the options */
	__u32 len;   /* of the options; 0: none, or they cannot be walked */
	__u32 kind;  /* of the action */
	__u32 arg;   /* its */
	__u32 flags; /* of the segment */
	__u32 bad;   /* the options cannot be walked */
	__u32 usual; /* the options are USUAL_OPTIONS */
};

/* A bucket that a flow may be picked for. */
struct candidate {
	__u64 cost;
	__u32 bucket; /* place */
	__u32 relative;
	__u32 seat;
	__u32 weight;
	__be32 port;
	__u32 time; /* that a flow takes there, as far as the method goes by it; UNMEASURED */
	__u32 turn; /* it has one */
	__u32 reserved;
};

#define UNMEASURED 0xffffffff

/* The least cost for the weight among candidates, and whose turn it is among those that cost it. */
struct bidding {
	__u64 cost;
	__u64 weight;
	__s32 total;   /* of all weights */
	__s32 among;   /* of those that cost the least */
	__s32 richest; /* what the best has earned */
	__u32 best;    /* PICK_SEATS: none */
	__u32 idle;    /* one has no active flow */
};

/* What is known of a packet's flow, by pick and unpick. */
struct flow_work {
	struct pick_key key;
	struct pick_key other;
	struct pick_back_key back;
	struct pick_back owner;
	struct pick fresh;
	struct pick_remote_key remote;
	struct pick_remote last;
	struct pick_fragment_key whole;
	struct pick_fragment ports; /* of the packet */

	__u32 head; /* place of the group */
	__u32 id;   /* OpenFlow's number of it */
	__u32 first;
	__u32 count;
	__u32 slots;
	__u32 slot_mask;
	__u32 method;
	__u32 together; /* s */

	__u64 fastest;  /* of the candidates; ns */
	__u32 excluded; /* seats, a bit each */
	__u32 candidates;
	struct candidate candidate[PICK_SEATS];
	struct bidding bidding;
	struct candidate standby;
	struct candidate chosen;
	__u32 verdict;

	/* of an ICMP error: where what it quotes is */
	__u32 quote;
	__u32 quoted_l4;
};

struct traversal {
	struct fields fields;
	struct fields probe;
	struct path path;
	struct op op;

	/* where the headers are; offsets in the frame, tags in it included */
	__u32 length; /* of the frame's length, if its EtherType is that of a SNAP header; else 0 */
	__u32 l3;
	__u32 l4;
	__u32 nd_target; /* of the address; 0: there is none */
	__u32 nd_sll;    /* of that in the option, likewise */
	__u32 nd_tll;
	__u8 kind3;
	__u8 kind4;
	__u8 fragment;
	__u8 later;            /* a fragment but the first */
	__u32 fragment_header; /* of IPv6, if it is a fragment */

	struct range list;
	struct range outer[MAX_NESTED];
	__u32 depth;
	__u32 phase;
	__u32 slot;    /* PHASE_SET: the next one */
	__u64 in_set;  /* slots that the action set holds */
	__u32 set[64]; /* places in ops */

	__u32 entry;
	__u32 table;
	__u64 cookie;

	__u32 at;       /* in path: the next table's entry */
	__u32 cached;   /* entries of path that may be used */
	__u32 learning; /* the path is being recorded */

	__u32 in;  /* place of the port that the packet came by; 0: not looked for yet */
	__u32 out; /* port's place that the packet as it is goes out of last; 0: none yet */
	__u32 sent;
	__u32 stack; /* the packet is left to the host */
	__u32 verdict;
	__u64 now;
	__u32 packets; /* of the wire */
	__u32 bytes;
	struct tcp_walk tcp;
	struct flow_work flow;
	__u8 old[64];
	__u8 fresh[128];
};

SCRATCH(traversal);

static __always_inline struct pipeline *the_pipeline(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&pipelines, &zero);
}

/*
 * How many packets of the wire a frame stands for, and their bytes: each has the header, and the tag that is not in the bytes. What comes from a
 * tap does not say of how many (gso_segs).
 */
static __always_inline void weigh(struct __sk_buff *skb, __u32 header, __u32 *packets, __u32 *bytes)
{
	__u32 size = skb->gso_size, tag = skb->vlan_present ? 4 : 0;

	*packets = 1;
	*bytes = skb->len + tag;
	if (size && skb->len > header + size) {
		*packets = (skb->len - header + size - 1) / size;
		*bytes += (*packets - 1) * (header + tag);
	}
}

static __always_inline void add(void *map, __u32 place, __u32 packets, __u32 bytes, __u64 now)
{
	struct counts *c = bpf_map_lookup_elem(map, &place);

	if (!c)
		return;
	__sync_fetch_and_add(&c->packets, packets);
	__sync_fetch_and_add(&c->bytes, bytes);
	c->used = now;
}

static __always_inline void account(void *map, __u32 place, struct traversal *t)
{
	add(map, place, t->packets, t->bytes, t->now);
}

/* Nothing more is done with the packet. What it was put out of before stays so. */
static __always_inline int stop(struct traversal *t, __u32 verdict)
{
	if (t->verdict == DROPPED)
		t->verdict = verdict;
	t->list.next = t->list.end = 0;
	return 1;
}
