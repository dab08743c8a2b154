/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Checks the value of Host, so that no other reader can find another host in it. */
#pragma once

#include "scan.h"

#define HOST_VALUE   256 /* bytes: a longer one, with its CR, is left to user space */
#define PORT_DIGITS  5
#define LITERAL_TEXT 40 /* bytes of an IPv6 address without one of IPv4, and its bracket */

/* Whether a port of at most five digits, which may be none, is between off and the end of the line. */
static __always_inline bool is_port(const struct scan *s, __u32 off)
{
	__u64 x = word_at(s, off);
	__u32 value = 0;

#pragma unroll
	for (int i = 0; i <= PORT_DIGITS; i++) {
		__u32 c = x & 0xff;

		if (c == '\r')
			return value <= 65535;
		if (c - '0' > 9)
			return false;
		value = value * 10 + (c - '0');
		x >>= 8;
	}
	return false;
}

/* Whether the value ends at off, or has a port there. */
static __always_inline bool ends_with_port(const struct scan *s, __u32 off)
{
	if (off > HEAD_BYTES)
		return false;
	return s->bytes[off] == '\r' || (s->bytes[off] == ':' && is_port(s, off + 1));
}

static long literal_step(__u32 i, struct scan **scan)
{
	struct literal *l = &(*scan)->literal;
	__u32 off = l->off;
	__u8 c;

	if (off > HEAD_BYTES)
		return 1;
	c = (*scan)->bytes[off];
	l->off = off + 1;
	if (is_hex(c)) {
		if (l->colons == 1 && !l->groups)
			return 1; /* one colon before the first group */
		l->groups += !l->digits;
		l->colons = 0;
		return ++l->digits > 4;
	}
	if (c == ':') {
		bool again = l->gap;

		l->digits = 0;
		if (++l->colons == 2) {
			l->gap = 1;
			return again;
		}
		return l->colons > 2;
	}
	if (c == ']' && l->colons != 1 && (l->gap ? l->groups < 8 : l->groups == 8))
		l->end = off + 1;
	return 1;
}

/* Whether the host is an IPv6 address in brackets (RFC 3986, 3.2.2), without an IPv4 address in it. */
static __always_inline bool is_literal(struct scan *s)
{
	__u32 end;

	__builtin_memset(&s->literal, 0, sizeof(s->literal));
	s->literal.off = s->host + 1;
	bpf_loop(LITERAL_TEXT, literal_step, &s, 0);
	end = s->literal.end;
	if (!end)
		return false;
	hide(end); /* or this and the next check are one subtraction, from which Linux 6.12 derives no bound */
	return ends_with_port(s, end);
}

/*
 * The end of the name in Host: the first byte of another kind, or the CR. -1: too long. A function of its own, so
 * that the verifier follows what is behind it once, not for each end.
 */
__noinline int end_of_name(const struct scan *s)
{
	__u32 off;
	int left;

	if (!s)
		return -1;
	off = s->host;
	left = s->host_end - off;
	for (int i = 0; i < HOST_VALUE / 8; i++) {
		__u64 end = not_word(word_at(s, off));

		if (left < 8) /* the CR is not marked */
			return off + first_mark(end | 0x80ULL << 8 * (left & 7));
		if (end)
			return off + first_mark(end);
		off += 8;
		left -= 8;
	}
	return -1;
}

/* Reads the name in Host. False: it may not be a name or address, and perhaps a port. */
static __always_inline bool read_host_name(struct scan *s)
{
	__u32 at = end_of_name(s);

	s->name_end = at;
	if (at > HEAD_BYTES)
		return false;
	if (at != s->host)
		return ends_with_port(s, at);
	return s->bytes[at] == '[' ? is_literal(s) : s->bytes[at] == '\r';
}
