/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Baton's actions on TCP (docs/openflow-handoff.md). Packets that are not TCP, or whose options are malformed, pass unchanged. */
#pragma once

#include "../wire/options.h"
#include "../wire/sum.h"
#include "maps.h"
#include "traversal.h"

#define TCP_MAX (TCP_BYTES + OPTION_BYTES) /* bytes of a header with options */

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

/* A walk through the options that applies an action to each. NO_ACTION only checks their format. */
struct option_change {
	struct option_walk walk;
	struct tcp_bytes *tcp;
	__u32 kind;
	__u32 arg;
};

#define NO_ACTION (~0U)

/* Shifts the edges of up to four blocks (RFC 2018, 3). */
static __always_inline void shift_sack(__u8 *options, __u32 at, __u32 size, __u32 by)
{
	for (__u32 i = 0; i < 4; i++) {
		__u32 edge = at + 2 + 8 * i;

		hide(edge);
		if (10 + 8 * i > size || edge > OPTION_BYTES - 8)
			break;
		add_be32(&options[edge], by);
		add_be32(&options[edge + 4], by);
	}
}

static __always_inline void clamp_mss(__u8 *option, __u32 most)
{
	if ((__u32)(option[2] << 8 | option[3]) <= most)
		return;
	option[2] = most >> 8;
	option[3] = most;
}

static __always_inline void strip_option(__u8 *options, __u32 at, __u32 size)
{
	for (__u32 i = 0; i < OPTION_BYTES; i++) {
		__u32 to = at + i;

		hide(to);
		if (i >= size || to >= OPTION_BYTES)
			break;
		options[to] = OPTION_NOP;
	}
}

static long change_option(__u32 i, struct option_change *c)
{
	__u8 *options = c->tcp->options, *option;
	__u32 at, size = next_option(&c->walk, options, &at);

	if (!size)
		return 1;
	if (size == 1)
		return 0;
	option = &options[at];
	switch (c->kind) {
	case OP_INC_SACK:
		if (option[0] == OPTION_SACK)
			shift_sack(options, at, size, c->arg);
		break;
	case OP_INC_TSVAL:
		if (option[0] == OPTION_TS && size == 10)
			add_be32(&option[2], c->arg);
		break;
	case OP_INC_TSECR:
		if (option[0] == OPTION_TS && size == 10)
			add_be32(&option[6], c->arg);
		break;
	case OP_CLAMP_MSS:
		if (option[0] == OPTION_MSS && size == 4)
			clamp_mss(option, c->arg);
		break;
	case OP_STRIP_OPTION:
		if (option[0] == c->arg)
			strip_option(options, at, size);
		break;
	}
	return 0;
}

/* Returns whether the options are well-formed. */
__noinline int walk_options(struct handoff *h, __u32 kind, __u32 arg)
{
	struct option_change c = { .kind = kind, .arg = arg };

	if (!h)
		return 0;
	c.walk.len = h->len;
	c.tcp = &h->is;
	bpf_loop(OPTION_BYTES, change_option, &c, 0);
	return !c.walk.bad;
}

static __always_inline void change_options(struct handoff *h, __u32 kind, __u32 by)
{
	if (!h->len || (kind == OP_CLAMP_MSS && !h->is.header.syn) || (kind == OP_INC_TSECR && !h->is.header.ack))
		return;
	if (!h->usual || (kind == OP_STRIP_OPTION && by == OPTION_TS)) {
		h->usual = 0;
		walk_options(h, kind, by);
	} else if (kind == OP_INC_TSVAL) {
		add_be32(&h->is.options[4], by);
	} else if (kind == OP_INC_TSECR) {
		add_be32(&h->is.options[8], by);
	}
}

/* The current op, and the rest of the list. */
struct tcp_actions {
	struct op *op;
	struct range *list;
	struct handoff *handoff;
};

/* Executes the op, and continues with the next op of the list if that is on TCP. */
static long change_header(__u32 i, struct tcp_actions *a)
{
	struct tcphdr *th = &a->handoff->is.header;
	struct op *op = a->op, *next;
	__u32 place;

	switch (op->kind) {
	case OP_INC_SEQ:
		th->seq = bpf_htonl(bpf_ntohl(th->seq) + op->arg);
		break;
	case OP_INC_ACK:
		if (th->ack)
			th->ack_seq = bpf_htonl(bpf_ntohl(th->ack_seq) + op->arg);
		break;
	case OP_RESCALE_WINDOW:
		if (!th->syn)
			th->window = bpf_htons(rescale(bpf_ntohs(th->window), op->arg, op->arg >> 8));
		break;
	default:
		change_options(a->handoff, op->kind, op->arg);
	}
	place = a->list->next;
	if (place >= a->list->end)
		return 1;
	next = bpf_map_lookup_elem(&ops, &place);
	if (!next || next->kind < OP_TCP_FIRST || next->kind > OP_TCP_LAST)
		return 1;
	*op = *next;
	a->list->next = place + 1;
	return 0;
}

/* Reads the TCP header at an offset. Malformed options are left out, and so unchanged. */
static __always_inline bool read_header(struct __sk_buff *skb, __u32 l4, struct handoff *h)
{
	__u32 len;

	if (bpf_skb_load_bytes(skb, l4, &h->is.header, TCP_BYTES))
		return false;
	__builtin_memset(h->is.options, 0, OPTION_BYTES);
	h->len = h->usual = 0;
	len = h->is.header.doff * 4;
	if (len > TCP_BYTES) {
		len -= TCP_BYTES;
		if (is_within(len, 1, OPTION_BYTES) && !bpf_skb_load_bytes(skb, l4 + TCP_BYTES, h->is.options, len))
			h->len = len;
	}
	if (h->len == 12 && load_be32(h->is.options) == NOP_NOP_TS)
		h->usual = 1;
	else if (h->len && !walk_options(h, NO_ACTION, 0))
		h->len = 0;
	__builtin_memcpy(&h->was, &h->is, TCP_MAX);
	return true;
}

/* Executes op and the ops on TCP that follow in the list, with one read and one write of the header. Returns 0, or the verdict. */
__noinline int change_tcp(struct __sk_buff *skb, const struct frame *frame, struct op *op, struct range *list,
			  struct handoff *h)
{
	struct tcp_actions actions = { .op = op, .list = list, .handoff = h };
	__u32 len, difference;

	if (!frame || !op || !list || !h)
		return DROP_CHANGE;
	if (frame->kind4 != L4_TCP || !read_header(skb, frame->l4, h))
		return 0;
	bpf_loop(MAX_STEPS, change_header, &actions, 0);
	difference = (__u32)bpf_csum_diff((__be32 *)&h->was, TCP_MAX, (__be32 *)&h->is, TCP_MAX, 0);
	len = TCP_BYTES + h->len;
	if (!is_within(len, TCP_BYTES, TCP_MAX) || bpf_skb_store_bytes(skb, frame->l4, &h->is, len, 0) ||
	    bpf_l4_csum_replace(skb, frame->l4 + CHECKSUM_AT, 0, difference, 0))
		return DROP_CHANGE;
	return 0;
}
