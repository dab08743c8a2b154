/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Header fields and arithmetic on them: sequence numbers, windows, addresses and ports. Pure.
 *
 * Addresses are 16 bytes in network byte order; IPv4 ones are IPv4-mapped (::ffff:a.b.c.d).
 */
#pragma once

#include <stdbool.h>
#include <linux/types.h>
#include <bpf/bpf_endian.h>

/* linux/stddef.h lacks the attribute; the verifier requires code under a lock not to call functions. */
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

/* Hides x's value range from the compiler, so that the verifier sees the check that follows. */
#define hide(x) asm volatile("" : "+r"(x))

/*
 * Whether a variable is from least to most, for the sizes of helpers. Two comparisons of the variable itself: the compiler would make one of
 * its difference to least, from which Linux 6.12 learns nothing about the variable. The upper bound comes first: a difference of two
 * numbers is around 0, from where Linux 7.3 does not take the 0 away.
 */
#define is_within(x, least, most) \
	(({                       \
		 hide(x);         \
		 (x) <= (most);   \
	 }) &&                    \
	 ({                       \
		 hide(x);         \
		 (x) >= (least);  \
	 }))

/* a before b modulo 2^32: sequence numbers, timestamps, times. */
static __always_inline bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline __u32 later(__u32 a, __u32 b)
{
	return before(a, b) ? b : a;
}

/* The fragment field of an IPv4 header. */
#define FRAGMENTED     0x3fff /* more to come, or an offset */
#define LATER_FRAGMENT 0x1fff /* an offset */

#define MAX_SCALE      14 /* of a window (RFC 7323, 2.3) */

/* A window field in bytes. */
static __always_inline __u32 unscaled(__u16 window, __u32 shift)
{
	return (__u32)window << (shift & 15);
}

/* Converts a window field from one shift to another. */
static __always_inline __u16 rescale(__u32 window, __u32 from, __u32 to)
{
	__u32 scaled = window << (from & 15) >> (to & 15);

	if (window && !scaled)
		return 1; /* an open window must not become a closed one */
	return scaled > 65535 ? 65535 : scaled;
}

/* In network byte order. */
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

/* The IPv4-mapped address. */
static __always_inline void map_addr(void *to, __be32 from)
{
	((__u32 *)to)[0] = ((__u32 *)to)[1] = 0;
	((__u32 *)to)[2] = bpf_htonl(0xffff);
	((__u32 *)to)[3] = from;
}

/* Whether an address is an IPv4 one. */
static __always_inline bool is_mapped(const void *addr)
{
	const __u32 *a = addr;

	return !a[0] && !a[1] && a[2] == bpf_htonl(0xffff);
}

/* The IPv4 address of a mapped one. */
static __always_inline __be32 unmap_addr(const void *addr)
{
	return ((const __u32 *)addr)[3];
}

static __always_inline bool same_addr(const void *a, const void *b)
{
	const __u32 *x = a, *y = b;

	return !((x[0] ^ y[0]) | (x[1] ^ y[1]) | (x[2] ^ y[2]) | (x[3] ^ y[3]));
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

/* More than ms have passed. Another CPU may have set since to a time after now. */
static __always_inline bool past(__u32 since, __u32 ms, __u32 now)
{
	return (__s32)(now - since) > (__s32)ms;
}
