/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Internet checksums (RFC 1071, RFC 1624), in memory order, so no byte is swapped. */
#pragma once

#include <stddef.h>
#include <linux/bpf.h>
#include <linux/in.h>
#include <bpf/bpf_helpers.h>
#include "fields.h"

#define CHECKSUM_AT 16 /* offset in a TCP header */

static __always_inline __u16 fold(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

/* Folds a 64-bit sum to the 32-bit difference that the checksum helpers take. */
static __always_inline __u32 difference(__u64 sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	return (sum & 0xffffffff) + (sum >> 32);
}

/* The checksum difference of replacing a word. */
static __always_inline __u64 swapped(__u32 from, __u32 to)
{
	return (__u64)(__u32)~from + to;
}

/* The checksum difference of replacing an IPv6 address. */
static __always_inline __u64 swapped_addr(const void *from, const void *to)
{
	const __u32 *f = from, *t = to;

	return swapped(f[0], t[0]) + swapped(f[1], t[1]) + swapped(f[2], t[2]) + swapped(f[3], t[3]);
}

/* Of TCP, over len bytes of header and payload. */
static __always_inline __u64 pseudo_header(const __u8 *src, const __u8 *dst, __u32 len, bool v6)
{
	const __u32 *s = (const __u32 *)src, *d = (const __u32 *)dst;
	__u64 sum = (__u64)s[3] + d[3] + bpf_htonl(len) + bpf_htonl(IPPROTO_TCP);

	if (v6)
		sum += (__u64)s[0] + s[1] + s[2] + d[0] + d[1] + d[2];
	return sum;
}

/*
 * Whether the TCP checksum covers only the pseudo header, to be completed by the device (CHECKSUM_PARTIAL). No field
 * says so, but then bpf_l4_csum_replace ignores a difference outside the pseudo header.
 */
static __always_inline bool partial_checksum(struct __sk_buff *skb, __u32 l4)
{
	__u16 then = 0, now = 0;

	if (bpf_skb_load_bytes(skb, l4 + CHECKSUM_AT, &then, 2) ||
	    bpf_l4_csum_replace(skb, l4 + CHECKSUM_AT, 0, 1, 0) || bpf_skb_load_bytes(skb, l4 + CHECKSUM_AT, &now, 2))
		return false;
	if (then == now)
		return true;
	bpf_skb_store_bytes(skb, l4 + CHECKSUM_AT, &then, 2, 0);
	return false;
}
