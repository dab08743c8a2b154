/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* State of a packet's traversal of the pipeline. */
#pragma once

#include <linux/tcp.h>
#include "../kernel/scratch.h"
#include "../wire/packet.h"
#include "flow.h"
#include "frame.h"
#include "weight.h"

/* The owner of the current list of ops. */
enum phase {
	PHASE_ENTRY, /* apply-actions of a flow entry; its other instructions follow */
	PHASE_SET,   /* the action set, after the last table */
	PHASE_LIST,  /* a bucket or a packet-out; nothing follows */
};

struct range {
	__u32 next; /* places in ops */
	__u32 end;
};

/* The megaflow that is recorded or followed. */
struct trail {
	struct megaflow megaflow;
	__u32 at;       /* index in entry of the next table */
	__u32 cached;   /* number of entries that can be followed */
	__u32 learning; /* the megaflow is being recorded */
};

/* The fate of the packet. in and out are indices of ports. */
struct outcome {
	__u32 in;  /* input port; 0: not looked up yet */
	__u32 out; /* pending output, unsent so that the last one needs no copy; 0: none */
	__u32 sent;
	__u32 stack; /* passed to the host */
	__u32 verdict;
};

/* A TCP header with its options, and padding for reads past the last option. */
struct tcp_bytes {
	struct tcphdr header;
	__u8 options[OPTION_BYTES + 24];
} __attribute__((aligned(4)));

/* Shared state of consecutive actions on TCP. */
struct handoff {
	struct tcp_bytes was;
	struct tcp_bytes is; /* with the changes so far */
	__u32 len;           /* of the options; 0: none, or malformed */
	__u32 usual;         /* the options are NOP, NOP, timestamp only */
};

/* Too large for the stack. Functions take the parts that they need; those that take a struct traversal need most of it. */
struct traversal {
	struct frame frame;     /* filled in by parse.h; actions keep it up to date */
	struct weight weight;   /* set at the start */
	struct outcome outcome; /* by output.h; the code that drops the packet sets the verdict */

	/* position in the pipeline (forwarder.bpf.c); groups, bind and unbind change it */
	struct op op;
	struct range list;
	struct range outer[MAX_NESTED];
	__u32 depth;
	__u32 phase;
	__u32 slot;    /* PHASE_SET: next slot */
	__u32 entry;   /* index */
	__u64 in_set;  /* slots in use */
	__u32 set[64]; /* indices in ops */
	__u64 cookie;
	__u32 table;

	struct trail trail;     /* of tables.h */
	struct fields probe;    /* scratch for lookups and hashes: masked fields */
	struct handoff tcp;     /* of handoff.h */
	struct head_bytes head; /* of tags.h */

	/* of bind.h and unbind.h */
	struct selection selection;
	struct flow_at_hand flow;
	struct icmp_error icmp_error;
};

SCRATCH(traversal);

/* Ends the traversal. Packets already sent stay sent. */
static __always_inline int stop(struct traversal *t, __u32 verdict)
{
	if (t->outcome.verdict == DROPPED)
		t->outcome.verdict = verdict;
	t->list.next = t->list.end = 0;
	return 1;
}

/* Makes the ops that follow the last ones: neither the entry's other instructions nor the action set are executed. */
static __always_inline void end_here(struct traversal *t)
{
	t->phase = PHASE_LIST;
	t->depth = 0;
	t->list.next = t->list.end = 0;
}
