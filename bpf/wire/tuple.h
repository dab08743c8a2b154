/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Addresses and ports as headers have them, in network byte order. Addresses are 16 bytes; IPv4 ones are IPv4-mapped (::ffff:a.b.c.d). Pure. */
#pragma once

#include "seq.h"

struct tuple {
	__u8 src[16];
	__u8 dst[16];
	__be16 sport;
	__be16 dport;
} __attribute__((aligned(4)));

static __always_inline void copy_addr(void *to, const void *from)
{
	((__u32 *)to)[0] = ((const __u32 *)from)[0];
	((__u32 *)to)[1] = ((const __u32 *)from)[1];
	((__u32 *)to)[2] = ((const __u32 *)from)[2];
	((__u32 *)to)[3] = ((const __u32 *)from)[3];
}

static __always_inline bool same_tuple(const struct tuple *a, const struct tuple *b)
{
	const __u32 *x = (const __u32 *)a, *y = (const __u32 *)b;
	__u32 differ = 0;

#pragma unroll
	for (int i = 0; i < (int)(sizeof(*a) / 4); i++)
		differ |= x[i] ^ y[i];
	return !differ;
}
