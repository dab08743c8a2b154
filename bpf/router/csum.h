/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Whether the checksum of a packet holds. */
#pragma once

#include "../wire/sum.h"
#include "work.h"

static __always_inline __u64 pseudo_header(const __u8 *src, const __u8 *dst, __u32 len, bool v6)
{
	const __u32 *s = (const __u32 *)src, *d = (const __u32 *)dst;
	__u64 sum = (__u64)s[3] + d[3] + bpf_htonl(len) + bpf_htonl(IPPROTO_TCP);

	if (v6)
		sum += (__u64)s[0] + s[1] + s[2] + d[0] + d[1] + d[2];
	return sum;
}

#define SUM_BYTES 512 /* at once: what bpf_csum_diff takes */
#define SUM_STEPS 129 /* of 64 KiB and headers */

/* The walk's state is in w->sum, off an even number of bytes from the segment's start. */
static long sum_step(__u32 i, struct __sk_buff **skb)
{
	struct work *w = work();
	struct sum_walk *c;
	__u32 n;

	if (!w)
		return 1;
	c = &w->sum;
	if (c->off >= c->end)
		return 1;
	n = c->end - c->off;
	if (n > SUM_BYTES)
		n = SUM_BYTES;
	hide(n);
	if (n < 1 || n > SUM_BYTES || bpf_skb_load_bytes(*skb, c->off, w->head, n)) {
		c->bad = 1;
		return 1;
	}
	__builtin_memset(&w->head[n], 0, 4);
	c->off += n;
	n = (n + 3) & ~3U;
	hide(n);
	if (n > SUM_BYTES)
		return 1;
	c->sum += (__u32)bpf_csum_diff(NULL, 0, (__be32 *)w->head, n, 0);
	return 0;
}

/* Of the segment at hand with its pseudo header: 0xffff if its checksum holds. Uses w->head. 0: it cannot be read. */
static __always_inline __u16 segment_sum(struct __sk_buff *skb, struct work *w)
{
	struct packet *p = &w->packet;
	struct sum_walk *c = &w->sum;

	c->off = p->l4;
	c->end = p->payload + p->len;
	c->bad = 0;
	c->sum = pseudo_header(p->key.src, p->key.dst, c->end - c->off, p->v6);
	bpf_loop(SUM_STEPS, sum_step, &skb, 0);
	return c->bad || c->off != c->end ? 0 : fold(c->sum);
}

/* Whether the checksum of the segment at hand holds, or someone we trust has said so. Uses w->head. */
__noinline int checksum_ok(struct __sk_buff *skb)
{
	struct work *w = work();

	if (!w)
		return false;
	if (bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0 || partial_checksum(skb, w->packet.l4))
		return true;
	return segment_sum(skb, w) == 0xffff;
}
