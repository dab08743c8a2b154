/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Internet checksums (RFC 1071, RFC 1624). Sums are of words in memory order, so no byte is swapped. */
#pragma once

#include "work.h"

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* 64-bit running sum to the 32-bit difference that the checksum helpers take. */
static __always_inline __u32 difference(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

/* What replacing one word by another adds to a sum. */
static __always_inline __u64 swapped(__u32 from, __u32 to)
{
	return (__u64)(__u32)~from + to;
}

/*
 * Whether the packet's TCP checksum holds only the pseudo header's sum, left for a device to finish (CHECKSUM_PARTIAL).
 * No field tells; but then a difference outside of the pseudo header leaves the checksum alone.
 */
static __always_inline bool partial_checksum(struct __sk_buff *skb, __u32 l4)
{
	__u16 then = 0, now = 0;

	if (bpf_skb_load_bytes(skb, l4 + 16, &then, 2) || bpf_l4_csum_replace(skb, l4 + 16, 0, 1, 0) ||
	    bpf_skb_load_bytes(skb, l4 + 16, &now, 2))
		return false;
	if (then == now)
		return true;
	bpf_skb_store_bytes(skb, l4 + 16, &then, 2, 0);
	return false;
}

static __always_inline __u64 pseudo_header(const __u8 *src, const __u8 *dst, __u32 len, bool v6)
{
	const __u32 *s = (const __u32 *)src, *d = (const __u32 *)dst;
	__u64 sum = (__u64)s[3] + d[3] + bpf_htonl(len) + bpf_htonl(IPPROTO_TCP);

	if (v6)
		sum += (__u64)s[0] + s[1] + s[2] + d[0] + d[1] + d[2];
	return sum;
}

/* Of a segment without payload: whether its checksum holds, or someone we trust has said so. */
__noinline int checksum_ok(struct __sk_buff *skb)
{
	struct work *w = work();
	struct packet *p;
	__u32 len;
	__u64 sum;

	if (!w)
		return false;
	p = &w->packet;
	len = 20 + p->options;
	if (bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0 || partial_checksum(skb, p->l4))
		return true;
	__builtin_memset(w->head, 0, 64);
	if (len < 20 || len > 60 || bpf_skb_load_bytes(skb, p->l4, w->head, len))
		return false;
	sum = bpf_csum_diff(NULL, 0, (__be32 *)w->head, 60, 0);
	sum += pseudo_header(p->key.src, p->key.dst, len, p->v6);
	return fold(sum) == 0xffff;
}
