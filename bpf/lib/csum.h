/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether the checksum of a packet holds. */
#pragma once

#include "sum.h"
#include "work.h"

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
