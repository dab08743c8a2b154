/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The checksum of a segment: verifies it, and makes one for a segment that has changed. */
#pragma once

#include <stddef.h>
#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
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
	if (!is_within(n, 1, SUM_BYTES) || bpf_skb_load_bytes(c->skb, c->off, bytes, n))
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

/* Updates the IP length of a trimmed packet. Returns 0 on success. */
static __always_inline int write_lengths(struct __sk_buff *skb, const struct packet *p)
{
	__be16 old, new = bpf_htons(skb->len - ETH_HLEN);

	if (p->v6) {
		new = bpf_htons(skb->len - ETH_HLEN - 40);
		return bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, payload_len), &new, 2,
					   BPF_F_RECOMPUTE_CSUM);
	}
	/* the IPv4 header checksum compensates for it in CHECKSUM_COMPLETE */
	return bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, tot_len), &old, 2) ||
	       bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, tot_len), &new, 2, 0) ||
	       bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), old, new, 2);
}

/* Gives a changed packet a checksum. partial: the old one covered only the pseudo header. False: no memory. */
static __always_inline bool seal(struct __sk_buff *skb, const struct packet *p, struct sum_bytes *buffer, bool partial)
{
	__u16 check = 0;

	if (bpf_skb_store_bytes(skb, p->l4 + CHECKSUM_AT, &check, 2, BPF_F_RECOMPUTE_CSUM))
		return false;
	if (partial)
		check = fold(pseudo_header(p->key.src, p->key.dst, p->payload - p->l4 + p->len, p->v6));
	else
		check = ~segment_sum(skb, p, buffer);
	return !bpf_skb_store_bytes(skb, p->l4 + CHECKSUM_AT, &check, 2, BPF_F_RECOMPUTE_CSUM);
}
