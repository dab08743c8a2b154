/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Internet checksums (RFC 1071, RFC 1624). Sums are of words in memory order, so no byte is swapped. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <stdbool.h>

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
