/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Baton's own actions on TCP (docs/openflow-handoff.md). A packet that is no TCP, or whose options cannot be walked, passes unchanged. */
#pragma once

#include "change.h"

#define TCP_FLAGS_AT 13
#define TCP_SYN      0x02
#define TCP_ACK      0x10

#define KIND_END     0
#define KIND_NOP     1
#define KIND_MSS     2
#define KIND_SACK    5
#define KIND_TS      8

#define TCP_HEADER   20
#define TCP_OPTIONS  40

/* NOP, NOP, timestamps and no more: RFC 7323, appendix A. */
#define USUAL_OPTIONS 0x0101080a

static __always_inline __u32 load_be32(const __u8 *at)
{
	return (__u32)at[0] << 24 | at[1] << 16 | at[2] << 8 | at[3];
}

static __always_inline void add_be32(__u8 *at, __u32 by)
{
	__u32 v = load_be32(at) + by;

	at[0] = v >> 24;
	at[1] = v >> 16;
	at[2] = v >> 8;
	at[3] = v;
}

/* One step through the options: what the action does to this one. NO_ACTION does nothing: it sees whether they can be walked. */
#define NO_ACTION (~0U)

static long change_option(__u32 i, void *unused)
{
	struct traversal *t = traversal();
	struct tcp_walk *walk;
	__u32 off, size, by;
	__u8 *o;

	if (!t)
		return 1;
	walk = &t->tcp;
	off = walk->off;
	by = walk->arg;
	if (off >= walk->len || off >= TCP_OPTIONS)
		return 1;
	o = &t->fresh[TCP_HEADER + off];
	if (o[0] == KIND_END)
		return 1;
	if (o[0] == KIND_NOP) {
		walk->off = off + 1;
		return 0;
	}
	size = o[1];
	if (off + 1 >= walk->len || size < 2 || off + size > walk->len || off + size > TCP_OPTIONS) {
		walk->bad = 1;
		return 1;
	}
	switch (walk->kind) {
	case OP_INC_SACK:
		for (__u32 j = 0; j < 4 && o[0] == KIND_SACK; j++) {
			__u32 edge = off + 2 + 8 * j;

			if (10 + 8 * j > size || edge > TCP_OPTIONS - 8)
				break;
			add_be32(&t->fresh[TCP_HEADER + edge], by);
			add_be32(&t->fresh[TCP_HEADER + edge + 4], by);
		}
		break;
	case OP_INC_TSVAL:
		if (o[0] == KIND_TS && size == 10)
			add_be32(&o[2], by);
		break;
	case OP_INC_TSECR:
		if (o[0] == KIND_TS && size == 10)
			add_be32(&o[6], by);
		break;
	case OP_CLAMP_MSS:
		if (o[0] == KIND_MSS && size == 4 && (__u32)(o[2] << 8 | o[3]) > by) {
			o[2] = by >> 8;
			o[3] = by;
		}
		break;
	case OP_STRIP_OPTION:
		if (o[0] == by) {
			for (__u32 j = 0; j < TCP_OPTIONS; j++) {
				if (j >= size || off + j >= TCP_OPTIONS)
					break;
				t->fresh[TCP_HEADER + off + j] = KIND_NOP;
			}
		}
		break;
	}
	walk->off = off + size;
	return 0;
}

__noinline int walk_options(__u32 kind, __u32 arg)
{
	struct traversal *t = traversal();

	if (!t)
		return 0;
	t->tcp.off = 0;
	t->tcp.kind = kind;
	t->tcp.arg = arg;
	bpf_loop(TCP_OPTIONS, change_option, NULL, 0);
	return 0;
}

static __always_inline void change_options(struct traversal *t)
{
	struct tcp_walk *walk = &t->tcp;
	__u32 kind = t->op.kind, by = t->op.arg;

	if (!walk->len || (kind == OP_CLAMP_MSS && !(walk->flags & TCP_SYN)) ||
	    (kind == OP_INC_TSECR && !(walk->flags & TCP_ACK)))
		return;
	if (!walk->usual || (kind == OP_STRIP_OPTION && by == KIND_TS)) {
		walk->usual = 0;
		walk_options(kind, by);
	} else if (kind == OP_INC_TSVAL) {
		add_be32(&t->fresh[TCP_HEADER + 4], by);
	} else if (kind == OP_INC_TSECR) {
		add_be32(&t->fresh[TCP_HEADER + 8], by);
	}
}

static __always_inline void rescale_window(struct traversal *t)
{
	__u32 window = t->fresh[14] << 8 | t->fresh[15];
	__u32 shifted = window << (t->op.arg & 15) >> (t->op.arg >> 8 & 15);

	if (window && !shifted)
		shifted = 1; /* a small window is not a closed one */
	if (shifted > 65535)
		shifted = 65535;
	t->fresh[14] = shifted >> 8;
	t->fresh[15] = shifted;
}

/* Does t->op, and has t->op be the next of the list if that is of TCP, too. */
static long change_header(__u32 i, void *unused)
{
	struct traversal *t = traversal();
	struct op *next;
	__u32 place;

	if (!t)
		return 1;
	switch (t->op.kind) {
	case OP_INC_SEQ:
		add_be32(&t->fresh[4], t->op.arg);
		break;
	case OP_INC_ACK:
		if (t->tcp.flags & TCP_ACK)
			add_be32(&t->fresh[8], t->op.arg);
		break;
	case OP_RESCALE_WINDOW:
		if (!(t->tcp.flags & TCP_SYN))
			rescale_window(t);
		break;
	default:
		change_options(t);
	}
	place = t->list.next;
	if (place >= t->list.end)
		return 1;
	next = bpf_map_lookup_elem(&ops, &place);
	if (!next || next->kind < OP_TCP_FIRST || next->kind > OP_TCP_LAST)
		return 1;
	t->op = *next;
	t->list.next = place + 1;
	return 0;
}

/* Reads the TCP header. Of a packet whose options cannot be walked it leaves the rest alone. */
static __always_inline int read_header(struct __sk_buff *skb, struct traversal *t)
{
	struct tcp_walk *walk = &t->tcp;
	__u32 len;

	if (bpf_skb_load_bytes(skb, t->l4, t->fresh, TCP_HEADER))
		return 1;
	__builtin_memset(&t->fresh[TCP_HEADER], 0, TCP_OPTIONS);
	walk->len = walk->bad = walk->usual = 0;
	walk->flags = t->fresh[TCP_FLAGS_AT];
	len = (t->fresh[12] >> 4) * 4;
	if (len > TCP_HEADER) {
		len -= TCP_HEADER;
		if (len >= 1 && len <= TCP_OPTIONS &&
		    !bpf_skb_load_bytes(skb, t->l4 + TCP_HEADER, &t->fresh[TCP_HEADER], len))
			walk->len = len;
	}
	if (walk->len == 12 && load_be32(&t->fresh[TCP_HEADER]) == USUAL_OPTIONS) {
		walk->usual = 1;
	} else if (walk->len) {
		walk_options(NO_ACTION, 0);
		if (walk->bad)
			walk->len = 0;
	}
	__builtin_memcpy(t->old, t->fresh, TCP_HEADER + TCP_OPTIONS);
	return 0;
}

/*
 * Does t->op and those behind it that are of TCP, too: the header is read and written once for all of them. Returns 0, or the
 * verdict.
 */
__noinline int change_tcp(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__u32 len, difference;

	if (!t)
		return DROP_CHANGE;
	if (t->kind4 != L4_TCP || read_header(skb, t))
		return 0;
	bpf_loop(MAX_STEPS, change_header, NULL, 0);
	difference = (__u32)bpf_csum_diff((__be32 *)t->old, TCP_HEADER + TCP_OPTIONS, (__be32 *)t->fresh,
					  TCP_HEADER + TCP_OPTIONS, 0);
	len = TCP_HEADER + t->tcp.len;
	if (len < TCP_HEADER || len > TCP_HEADER + TCP_OPTIONS)
		return DROP_CHANGE;
	if (bpf_skb_store_bytes(skb, t->l4, t->fresh, len, 0) || bpf_l4_csum_replace(skb, t->l4 + 16, 0, difference, 0))
		return DROP_CHANGE;
	return 0;
}
