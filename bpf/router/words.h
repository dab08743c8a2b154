/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Eight bytes of text at once, as a little-endian word. */
#pragma once

#include <linux/types.h>
#include <stdbool.h>

#define ONES  0x0101010101010101ULL
#define HIGH  0x8080808080808080ULL
#define LOWER 0x2020202020202020ULL

/* Eight characters as a little-endian word. */
#define WORD(a, b, c, d, e, f, g, h)                                                                                \
	((__u64)(a) | (__u64)(b) << 8 | (__u64)(c) << 16 | (__u64)(d) << 24 | (__u64)(e) << 32 | (__u64)(f) << 40 | \
	 (__u64)(g) << 48 | (__u64)(h) << 56)
#define FIRST(n, x) ((x) & ((1ULL << (8 * (n))) - 1))

/* Marks bytes below n (n <= 128); exact for the first one marked. */
static __always_inline __u64 below(__u64 x, __u8 n)
{
	return (x - ONES * n) & ~x & HIGH;
}

static __always_inline __u64 equal(__u64 x, __u8 c)
{
	return below(x ^ ONES * c, 1);
}

/* Index of the first marked byte. */
static __always_inline __u32 first_mark(__u64 marks)
{
	__u32 n = 0;

	if (!(marks & 0xffffffff)) {
		n = 4;
		marks >>= 32;
	}
	if (!(marks & 0xffff)) {
		n += 2;
		marks >>= 16;
	}
	return n + !(marks & 0xff);
}

/* Sets the highest bit of bytes, of 0x7f at most, that are n at least; their other bits mean nothing. */
static __always_inline __u64 at_least(__u64 x, __u8 n)
{
	return x + ONES * (0x80 - n);
}

/* Marks bytes below those of limit, which are alike and 0x80 at most, and DEL; exact for the first one marked. */
static __always_inline __u64 special(__u64 x, __u64 limit)
{
	return ((x - limit) | ((x & ~HIGH) + ONES)) & ~x & HIGH;
}

/*
 * Marks bytes that are no letter, digit, hyphen, dot or underscore. Control bytes are not told from others: tab and LF
 * are marked, CR is not.
 */
static __always_inline __u64 not_word(__u64 x)
{
	__u64 y = (x | LOWER) & ~HIGH; /* an underscore becomes DEL */

	y = at_least(y, '-') ^ at_least(y, '/') ^ at_least(y, '0') ^ at_least(y, ':') ^ at_least(y, 'a') ^
	    at_least(y, '{') ^ at_least(y, 0x7f);
	return (~y | x) & HIGH;
}

/* The same for letters and hyphens, in half the time. */
static __always_inline __u64 not_letter(__u64 x)
{
	__u64 y = (x | LOWER) & ~HIGH;

	y = at_least(y, '-') ^ at_least(y, '.') ^ at_least(y, 'a') ^ at_least(y, '{');
	return (~y | x) & HIGH;
}

/* Whether c is the first byte that is marked; there is none before that is c. */
static __always_inline bool is_first(__u64 marks, __u64 x, __u8 c)
{
	return equal(x, c) & marks & -marks;
}

static __always_inline bool is_hex(__u8 c)
{
	return (__u32)c - '0' < 10 || ((__u32)c | 0x20) - 'a' < 6;
}
