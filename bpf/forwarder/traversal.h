/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet's traversal of the pipeline: what its steps hand to each other. */
#pragma once

#include <linux/tcp.h>
#include "../kernel/scratch.h"
#include "../wire/packet.h"
#include "flow.h"
#include "frame.h"
#include "weight.h"

/* What the list of ops at hand belongs to. */
enum phase {
	PHASE_ENTRY, /* a flow entry's apply-actions; then its other instructions */
	PHASE_SET,   /* the action set at the end of the tables */
	PHASE_LIST,  /* a bucket or a packet-out: nothing comes after */
};

struct range {
	__u32 next; /* places in ops */
	__u32 end;
};

/* The path through the tables, which is recorded or followed. */
struct trail {
	struct megaflow megaflow;
	__u32 at;       /* in path: the next table's entry */
	__u32 cached;   /* entries of path that may be used */
	__u32 learning; /* the path is being recorded */
};

/* What becomes of the packet. Places are those of ports. */
struct outcome {
	__u32 in;  /* that it came by; 0: not looked for yet */
	__u32 out; /* that it, as it is, goes out of last; 0: none yet */
	__u32 sent;
	__u32 stack; /* it is left to the host */
	__u32 verdict;
};

/* A TCP header and its options; room behind them, so that a look past an option's end stays in bounds. */
struct tcp_bytes {
	struct tcphdr header;
	__u8 options[OPTION_BYTES + 24];
} __attribute__((aligned(4)));

/* What actions on TCP have in common. */
struct handoff {
	struct tcp_bytes was;
	struct tcp_bytes is; /* as they have left it */
	__u32 len;           /* of the options; 0: none, or they cannot be walked */
	__u32 usual;         /* the options are NOP_NOP_TS and no more */
};

/* Too large for the stack. Whoever is not said to have all of it is given parts, and has no others. */
struct traversal {
	struct frame frame;     /* parse.h fills it in; actions read it and keep it right */
	struct weight weight;   /* from the start */
	struct outcome outcome; /* output.h's; whoever drops the packet says why */

	/* the pipeline's own state: where it is (forwarder.bpf.c), moved by groups, bind and unbind, too */
	struct op op;
	struct range list;
	struct range outer[MAX_NESTED];
	__u32 depth;
	__u32 phase;
	__u32 slot;    /* PHASE_SET: the next one */
	__u32 entry;   /* place */
	__u64 in_set;  /* slots that the action set holds */
	__u32 set[64]; /* places in ops */
	__u64 cookie;
	__u32 table;

	struct trail trail;     /* tables.h's */
	struct fields probe;    /* of a lookup, or a hash: fields without what does not count */
	struct handoff tcp;     /* handoff.h's */
	struct head_bytes head; /* tags.h's */

	/* bind.h's and unbind.h's */
	struct selection selection;
	struct flow_at_hand flow;
	struct complaint complaint;
};

SCRATCH(traversal);

/* Nothing more is done with the packet. What it was put out of before stays so. */
static __always_inline int stop(struct traversal *t, __u32 verdict)
{
	if (t->outcome.verdict == DROPPED)
		t->outcome.verdict = verdict;
	t->list.next = t->list.end = 0;
	return 1;
}

/* What is done next is the last that is done: neither the entry's other instructions nor the action set. */
static __always_inline void end_here(struct traversal *t)
{
	t->phase = PHASE_LIST;
	t->depth = 0;
	t->list.next = t->list.end = 0;
}
