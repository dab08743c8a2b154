/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Verifies the checksum of a segment. */
#pragma once

#include "packet.h"
#include "sum.h"

#define SUM_BYTES 512 /* at once: what bpf_csum_diff takes */
#define SUM_STEPS 129 /* of 64 KiB and headers */

/* Bytes summed at once, zero-padded to a word. Provided by the caller, as it is too large for the stack. */
struct sum_bytes {
	__u8 bytes[SUM_BYTES + 4];
};

/* The sum over a segment's bytes before off, an even offset from its start. */
struct sum_walk {
	struct __sk_buff *skb;
	struct sum_bytes *buffer;
	__u64 sum;
	__u32 off;
	__u32 end;
};

static long sum_step(__u32 i, struct sum_walk *c)
{
	__u8 *bytes = c->buffer->bytes;
	__u32 n;

	if (c->off >= c->end)
		return 1;
	n = c->end - c->off;
	if (n > SUM_BYTES)
		n = SUM_BYTES;
	hide(n);
	if (n < 1 || n > SUM_BYTES || bpf_skb_load_bytes(c->skb, c->off, bytes, n))
		return 1;
	__builtin_memset(&bytes[n], 0, 4);
	c->off += n;
	n = (n + 3) & ~3U;
	hide(n);
	if (n > SUM_BYTES)
		return 1;
	c->sum += (__u32)bpf_csum_diff(NULL, 0, (__be32 *)bytes, n, 0);
	return 0;
}

/* The sum of the segment and its pseudo header: 0xffff if the checksum is valid. 0: unreadable. */
static __always_inline __u16 segment_sum(struct __sk_buff *skb, const struct packet *p, struct sum_bytes *buffer)
{
	struct sum_walk c = { .skb = skb, .buffer = buffer, .off = p->l4, .end = p->payload + p->len };

	c.sum = pseudo_header(p->key.src, p->key.dst, c.end - c.off, p->v6);
	bpf_loop(SUM_STEPS, sum_step, &c, 0);
	return c.off != c.end ? 0 : fold(c.sum);
}

/* Whether the checksum is valid, or was verified or is to be completed by the device. */
__noinline int checksum_ok(struct __sk_buff *skb, const struct packet *p, struct sum_bytes *buffer)
{
	if (!p || !buffer)
		return false;
	if (bpf_csum_level(skb, BPF_CSUM_LEVEL_QUERY) >= 0 || partial_checksum(skb, p->l4))
		return true;
	return segment_sum(skb, p, buffer) == 0xffff;
}
