/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The state of parsing a head, and the lines of a head that matter to a session or its routes: see parse.h. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../session/http.h"
#include "../wire/packet.h"
#include "types.h"
#include "words.h"

enum scan_end { SCAN_MORE, SCAN_OK, SCAN_SHORT, SCAN_BAD };

/* The state of parsing an IPv6 address, see host.h. */
struct literal {
	__u32 off; /* of the next byte */
	__u32 groups;
	__u32 digits; /* of the group */
	__u32 colons; /* in a row */
	__u32 gap;    /* there was a :: */
	__u32 end;    /* offset behind the bracket, once found */
};

/* The state of parsing a head. */
struct scan {
	__u32 off; /* of the next byte */
	__u32 len;
	__u32 carried; /* bytes at the start from an earlier packet */
	__u32 start;   /* offset of the current line */
	__u32 line;    /* offset of the end of the first line */
	__u32 request; /* 1: of a request, 0: of a response */
	__u32 method;  /* enum method */
	__u32 path;    /* offset of the request target; 0: the method is METHOD_NONE */
	__u32 target;  /* likewise, while its end is not found */
	__u32 lines;   /* of fields */
	__u32 host;    /* offset of the Host value */
	__u32 host_end;
	__u32 name_end; /* of the host's name, without its port */
	__u32 end;      /* enum scan_end */
	__u32 size;     /* length of the head, once complete */
	struct head head;
	struct literal literal;
	__u32 watching; /* watch is valid */
	struct watches watch;
	__u8 bytes[HEAD_BYTES + CARRY_BYTES + 64];
};

#define LAST_LINE 2 /* bytes: a head's last, empty line */

static __always_inline __u64 word_at(const struct scan *s, __u32 off)
{
	return off <= HEAD_BYTES ? *(const __u64 *)&s->bytes[off] : 0;
}

/* The same, in lower case. */
static __always_inline __u64 lower_at(const struct scan *s, __u32 off)
{
	return word_at(s, off) | LOWER;
}

static __always_inline void read_length(struct scan *s, __u32 off)
{
	__u64 value = 0;
	__u32 digits = 0;

	if (s->head.flags & HEAD_LENGTH) {
		s->end = SCAN_BAD;
		return;
	}
	s->head.flags |= HEAD_LENGTH;
	for (int i = 0; i < 24; i++) {
		__u8 c;

		if (off > HEAD_BYTES)
			break;
		c = s->bytes[off++];
		if (c == ' ' && !digits)
			continue;
		if (c == '\r' && digits) {
			s->head.length = value;
			return;
		}
		if (c < '0' || c > '9' || ++digits > 15)
			break;
		value = value * 10 + (c - '0');
	}
	s->end = SCAN_BAD; /* also lists and signs */
}

static __always_inline __u32 skip_blank(const struct scan *s, __u32 off)
{
	if (off <= HEAD_BYTES && s->bytes[off] == ' ')
		off++;
	return off;
}

#define NAME_WORDS 8 /* longer field names are left to user space */

/* Whether the line at off begins with a field name: no blank, control byte or byte beyond ASCII before its colon. */
static __always_inline bool field_name(const struct scan *s, __u32 off)
{
#pragma unroll
	for (int i = 0; i < NAME_WORDS; i++) {
		__u64 x = word_at(s, off), colon = equal(x, ':'), blank = below(x, 0x21) | (x & HIGH);

		if (colon)
			return !blank || first_mark(colon) < first_mark(blank);
		if (blank)
			return false;
		off += 8;
	}
	return false;
}

/*
 * The same of a request, whose names are words that every parser reads alike. A function of its own, so that the
 * verifier follows it once.
 */
__noinline int rare_name(const struct scan *s, __u32 off)
{
	if (!s)
		return false;
	for (int i = 0; i < NAME_WORDS; i++) {
		__u64 x = word_at(s, off), end = not_word(x);

		if (end)
			return is_first(end, x, ':');
		off += 8;
	}
	return false;
}

/*
 * Whether the line of a request at off, which begins with x, has a field name there; most consist of letters and
 * hyphens.
 */
static __always_inline bool request_name(const struct scan *s, __u32 off, __u64 x)
{
	__u64 end = not_letter(x), y;

	if (end)
		return (x & 0xff) != ':' && (is_first(end, x, ':') || rare_name(s, off));
	y = word_at(s, off + 8);
	return is_first(not_letter(y), y, ':') || rare_name(s, off);
}

/* Whether credentials or a challenge may apply to the connection (RFC 4559, 6; NTLM). */
static __always_inline bool binds(const struct scan *s, __u32 off)
{
	__u64 x = lower_at(s, skip_blank(s, off)), y;

	y = FIRST(6, x);
	return y != FIRST(6, WORD('b', 'a', 's', 'i', 'c', ' ', 0, 0)) &&
	       x != (WORD('d', 'i', 'g', 'e', 's', 't', ' ', 0) | (x & 0xff00000000000000ULL)) &&
	       x != (WORD('b', 'e', 'a', 'r', 'e', 'r', ' ', 0) | (x & 0xff00000000000000ULL));
}

/*
 * Whether the field is Authorization, Proxy-Authorization, Proxy-Authenticate or WWW-Authenticate and may apply to the
 * connection.
 */
static __always_inline bool authenticates(const struct scan *s, __u32 off, __u64 x)
{
	__u64 y = lower_at(s, off + 8);

	switch (x & 0xff) {
	case 'a':
		return x == WORD('a', 'u', 't', 'h', 'o', 'r', 'i', 'z') &&
		       FIRST(6, y) == FIRST(6, WORD('a', 't', 'i', 'o', 'n', ':', 0, 0)) && binds(s, off + 14);
	case 'p':
		return x == WORD('p', 'r', 'o', 'x', 'y', '-', 'a', 'u') &&
		       (y == WORD('t', 'h', 'e', 'n', 't', 'i', 'c', 'a') ||
			(y == WORD('t', 'h', 'o', 'r', 'i', 'z', 'a', 't') && binds(s, off + 20)));
	case 'w':
		return x == WORD('w', 'w', 'w', '-', 'a', 'u', 't', 'h') &&
		       y == WORD('e', 'n', 't', 'i', 'c', 'a', 't', 'e');
	}
	return false;
}

/* The option of Connection as a flag. HEAD_UPGRADE: several, or an unknown one. */
static __always_inline __u32 connection_option(const struct scan *s, __u32 off)
{
	__u64 x, y;

	off = skip_blank(s, off);
	x = word_at(s, off);
	y = word_at(s, off + 8);
	if (FIRST(5, x | LOWER) == FIRST(5, WORD('c', 'l', 'o', 's', 'e', 0, 0, 0)) && (x >> 40 & 0xff) == '\r')
		return HEAD_CLOSE;
	if ((x | LOWER) == WORD('k', 'e', 'e', 'p', '-', 'a', 'l', 'i') &&
	    FIRST(2, y | LOWER) == FIRST(2, WORD('v', 'e', 0, 0, 0, 0, 0, 0)) && (y >> 16 & 0xff) == '\r')
		return HEAD_KEEP;
	return HEAD_UPGRADE;
}

/* Content-Length and Connection. */
static __always_inline void read_message_field(struct scan *s, __u32 off, __u64 x)
{
	__u64 y = lower_at(s, off + 8);

	if (x == WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-') &&
	    FIRST(6, y) == FIRST(6, WORD('l', 'e', 'n', 'g', 't', 'h', 0, 0))) {
		if ((y >> 48 & 0xff) == ':')
			read_length(s, off + 15);
		else
			s->end = SCAN_BAD;
	} else if (x == WORD('c', 'o', 'n', 'n', 'e', 'c', 't', 'i') &&
		   FIRST(3, y) == FIRST(3, WORD('o', 'n', ':', 0, 0, 0, 0, 0))) {
		s->head.flags |= connection_option(s, off + 11);
	}
}

/* Transfer-Encoding. */
static __always_inline void read_coding(struct scan *s, __u32 off, __u64 x)
{
	if (x != WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r') ||
	    lower_at(s, off + 8) != WORD('-', 'e', 'n', 'c', 'o', 'd', 'i', 'n'))
		return;
	if (s->head.flags & HEAD_CODED)
		s->end = SCAN_BAD;
	s->head.flags |= HEAD_CODED;
	if (FIRST(2, lower_at(s, off + 16)) != FIRST(2, WORD('g', ':', 0, 0, 0, 0, 0, 0)))
		s->end = SCAN_BAD;
	x = word_at(s, skip_blank(s, off + 18));
	if (FIRST(7, x | LOWER) == FIRST(7, WORD('c', 'h', 'u', 'n', 'k', 'e', 'd', 0)) && (x >> 56) == '\r')
		s->head.flags |= HEAD_CHUNKED;
}

static __always_inline void read_host(struct scan *s, __u32 off, __u64 x)
{
	if (FIRST(5, x) == FIRST(5, WORD('h', 'o', 's', 't', ':', 0, 0, 0))) {
		if (s->head.flags & HEAD_HOST)
			s->end = SCAN_BAD;
		s->head.flags |= HEAD_HOST;
		s->host = skip_blank(s, off + 5);
	} else if (FIRST(4, x) == FIRST(4, WORD('h', 'o', 's', 't', 0, 0, 0, 0)) &&
		   ((x >> 32 & 0xff) == ' ' || (x >> 32 & 0xff) == ('\t' | 0x20))) {
		s->end = SCAN_BAD;
	}
}

/* Expect: what is not the usual is left to user space, which refuses it. */
static __always_inline void read_expect(struct scan *s, __u32 off, __u64 x)
{
	__u64 y;

	if (!s->request || FIRST(7, x) != FIRST(7, WORD('e', 'x', 'p', 'e', 'c', 't', ':', 0)))
		return;
	off = skip_blank(s, off + 7);
	x = word_at(s, off);
	y = word_at(s, off + 8);
	if ((x | LOWER) != WORD('1', '0', '0', '-', 'c', 'o', 'n', 't') ||
	    FIRST(4, y | LOWER) != FIRST(4, WORD('i', 'n', 'u', 'e', 0, 0, 0, 0)) || (y >> 32 & 0xff) != '\r')
		s->end = SCAN_BAD;
}

/* Whether the line at off, which begins with x, is a field that the router sets itself. */
static __always_inline bool is_watched(const struct scan *s, __u32 off, __u64 x)
{
	__u64 y = lower_at(s, off + 8);
	bool found = false;

#pragma unroll
	for (int i = 0; i < WATCHES; i++) {
		const struct watch *w = &s->watch.of[i];

		found |= !(((x ^ w->name[0]) & w->mask[0]) | ((y ^ w->name[1]) & w->mask[1]));
	}
	return found;
}

/* Parses the complete header line at off. */
static __always_inline void read_field(struct scan *s, __u32 off)
{
	__u64 x = lower_at(s, off);

	if (s->request ? !request_name(s, off, word_at(s, off)) || ++s->lines > REQUEST_LINES : !field_name(s, off)) {
		s->end = SCAN_BAD;
		return;
	}
	if (s->watching && is_watched(s, off, x))
		s->head.flags |= HEAD_WATCHED;
	switch (x & 0xff) {
	case 'a':
	case 'p':
	case 'w':
		if (authenticates(s, off, x))
			s->head.flags |= HEAD_BOUND;
		break;
	case 'c':
		read_message_field(s, off, x);
		break;
	case 'e':
		read_expect(s, off, x);
		break;
	case 't':
		read_coding(s, off, x);
		break;
	case 'h':
		read_host(s, off, x);
		break;
	case 'u':
		if (x == WORD('u', 'p', 'g', 'r', 'a', 'd', 'e', ':'))
			s->head.flags |= HEAD_UPGRADE;
		break;
	case ' ': /* folded; also a leading tab */
		s->end = SCAN_BAD;
		break;
	}
}
