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

#define TCP_OPTIONS  40

/* Replaces 4 bytes of the TCP header. */
static __always_inline int replace_word(struct __sk_buff *skb, struct work *w, __u32 at, __be32 from, __be32 to)
{
	if (bpf_l4_csum_replace(skb, w->l4 + 16, from, to, 4) || bpf_skb_store_bytes(skb, w->l4 + at, &to, 4, 0))
		return DROP_CHANGE;
	return 0;
}

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

struct tcp_walk {
	__u32 off;
	__u32 len;
	__u32 kind; /* of op */
	__u32 arg;
	__u32 flags;
	__u32 bad; /* the options cannot be walked */
};

/* Options are in w->fresh[0 .. TCP_OPTIONS). */
static long change_option(__u32 i, struct tcp_walk *walk)
{
	struct work *w = work();
	__u32 off = walk->off, size, by = walk->arg;
	__u8 *o;

	if (!w || off >= walk->len || off >= TCP_OPTIONS)
		return 1;
	o = &w->fresh[off];
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
			add_be32(&w->fresh[edge], by);
			add_be32(&w->fresh[edge + 4], by);
		}
		break;
	case OP_INC_TSVAL:
		if (o[0] == KIND_TS && size == 10)
			add_be32(&o[2], by);
		break;
	case OP_INC_TSECR:
		if (o[0] == KIND_TS && size == 10 && walk->flags & TCP_ACK)
			add_be32(&o[6], by);
		break;
	case OP_CLAMP_MSS:
		if (o[0] == KIND_MSS && size == 4 && walk->flags & TCP_SYN && (__u32)(o[2] << 8 | o[3]) > by) {
			o[2] = by >> 8;
			o[3] = by;
		}
		break;
	case OP_STRIP_OPTION:
		if (o[0] == by) {
			for (__u32 j = 0; j < TCP_OPTIONS; j++) {
				if (j >= size || off + j >= TCP_OPTIONS)
					break;
				w->fresh[off + j] = KIND_NOP;
			}
		}
		break;
	}
	walk->off = off + size;
	return 0;
}

static __always_inline int change_options(struct __sk_buff *skb, struct work *w, __u8 doff, __u8 flags)
{
	struct tcp_walk walk = { .kind = w->op.kind, .arg = w->op.arg, .flags = flags };
	__u32 len = (doff >> 4) * 4, difference;

	if (len <= 20)
		return 0;
	walk.len = len -= 20;
	__builtin_memset(w->old, 0, TCP_OPTIONS);
	if (len < 1 || len > TCP_OPTIONS || bpf_skb_load_bytes(skb, w->l4 + 20, w->old, len))
		return 0;
	__builtin_memcpy(w->fresh, w->old, TCP_OPTIONS);
	bpf_loop(TCP_OPTIONS, change_option, &walk, 0);
	if (walk.bad)
		return 0;
	difference = (__u32)bpf_csum_diff((__be32 *)w->old, TCP_OPTIONS, (__be32 *)w->fresh, TCP_OPTIONS, 0);
	if (!difference)
		return 0;
	if (bpf_l4_csum_replace(skb, w->l4 + 16, 0, difference, 0) ||
	    bpf_skb_store_bytes(skb, w->l4 + 20, w->fresh, len, 0))
		return DROP_CHANGE;
	return 0;
}

/* Returns 0, or the verdict. */
__noinline int change_tcp(struct __sk_buff *skb)
{
	struct work *w = work();
	__u32 window, shifted;
	__u8 head[20];
	__be32 word;
	__be16 out;

	if (!w || w->kind4 != L4_TCP || bpf_skb_load_bytes(skb, w->l4, head, 20))
		return w ? 0 : DROP_CHANGE;
	switch (w->op.kind) {
	case OP_INC_SEQ:
		word = *(__be32 *)&head[4];
		return replace_word(skb, w, 4, word, bpf_htonl(bpf_ntohl(word) + w->op.arg));
	case OP_INC_ACK:
		if (!(head[TCP_FLAGS_AT] & TCP_ACK))
			return 0;
		word = *(__be32 *)&head[8];
		return replace_word(skb, w, 8, word, bpf_htonl(bpf_ntohl(word) + w->op.arg));
	case OP_RESCALE_WINDOW:
		if (head[TCP_FLAGS_AT] & TCP_SYN)
			return 0;
		window = head[14] << 8 | head[15];
		shifted = window << (w->op.arg & 15) >> (w->op.arg >> 8 & 15);
		if (window && !shifted)
			shifted = 1; /* a small window is not a closed one */
		out = bpf_htons(shifted > 65535 ? 65535 : shifted);
		if (bpf_l4_csum_replace(skb, w->l4 + 16, bpf_htons(window), out, 2) ||
		    bpf_skb_store_bytes(skb, w->l4 + 14, &out, 2, 0))
			return DROP_CHANGE;
		return 0;
	}
	return change_options(skb, w, head[12], head[TCP_FLAGS_AT]);
}
