/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Reads HTTP/1 message heads (RFC 9112), eight bytes a step. Whatever is not plainly well-formed is SCAN_BAD, and left to
 * user space: bare CR or LF, other control bytes, folded lines, a blank before a colon, repeated Host or Content-Length.
 */
#pragma once

#include "work.h"

#define ONES  0x0101010101010101ULL
#define HIGH  0x8080808080808080ULL
#define LOWER 0x2020202020202020ULL

/* Eight characters as the little-endian word they are read as. */
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

static __always_inline __u64 word_at(const struct work *w, __u32 off)
{
	return off <= HEAD_BYTES ? *(const __u64 *)&w->head[off] : 0;
}

static __always_inline void read_length(struct scan *s, const struct work *w, __u32 off)
{
	__u64 value = 0;
	__u32 digits = 0;

	if (s->flags & HEAD_LENGTH) {
		s->end = SCAN_BAD;
		return;
	}
	s->flags |= HEAD_LENGTH;
	for (int i = 0; i < 24; i++) {
		__u8 c;

		if (off > HEAD_BYTES)
			break;
		c = w->head[off++];
		if (c == ' ' && !digits)
			continue;
		if (c == '\r' && digits) {
			s->length = value;
			return;
		}
		if (c < '0' || c > '9' || ++digits > 15)
			break;
		value = value * 10 + (c - '0');
	}
	s->end = SCAN_BAD; /* lists and signs too */
}

static __always_inline __u32 skip_blank(const struct work *w, __u32 off)
{
	if (off <= HEAD_BYTES && w->head[off] == ' ')
		off++;
	return off;
}

#define NAME_WORDS 8 /* longer field names are left to user space */

/* Whether the line at off begins with a field's name: no blank and no control byte up to its colon. */
static __always_inline bool field_name(const struct work *w, __u32 off)
{
#pragma unroll
	for (int i = 0; i < NAME_WORDS; i++) {
		__u64 x = word_at(w, off), colon = equal(x, ':'), blank = below(x, 0x21);

		if (colon)
			return !blank || first_mark(colon) < first_mark(blank);
		if (blank)
			return false;
		off += 8;
	}
	return false;
}

/* Credentials, or a challenge, that may hold for the connection (RFC 4559, 6; NTLM). */
static __always_inline bool binds(const struct work *w, __u32 off)
{
	__u64 x = word_at(w, skip_blank(w, off)) | LOWER, y;

	y = FIRST(6, x);
	return y != FIRST(6, WORD('b', 'a', 's', 'i', 'c', ' ', 0, 0)) &&
	       x != (WORD('d', 'i', 'g', 'e', 's', 't', ' ', 0) | (x & 0xff00000000000000ULL)) &&
	       x != (WORD('b', 'e', 'a', 'r', 'e', 'r', ' ', 0) | (x & 0xff00000000000000ULL));
}

/* A whole header line starts at off. */
static __always_inline void read_header(struct scan *s, const struct work *w, __u32 off)
{
	__u64 x = word_at(w, off) | LOWER, y, v;

	if (!field_name(w, off)) {
		s->end = SCAN_BAD;
		return;
	}
	switch (x & 0xff) {
	case 'a':
		y = word_at(w, off + 8) | LOWER;
		if (x == WORD('a', 'u', 't', 'h', 'o', 'r', 'i', 'z') &&
		    FIRST(6, y) == FIRST(6, WORD('a', 't', 'i', 'o', 'n', ':', 0, 0)) && binds(w, off + 14))
			s->flags |= HEAD_BOUND;
		break;
	case 'p':
		y = word_at(w, off + 8) | LOWER;
		if (x == WORD('p', 'r', 'o', 'x', 'y', '-', 'a', 'u') &&
		    (y == WORD('t', 'h', 'e', 'n', 't', 'i', 'c', 'a') ||
		     (y == WORD('t', 'h', 'o', 'r', 'i', 'z', 'a', 't') && binds(w, off + 20))))
			s->flags |= HEAD_BOUND;
		break;
	case 'w':
		y = word_at(w, off + 8) | LOWER;
		if (x == WORD('w', 'w', 'w', '-', 'a', 'u', 't', 'h') &&
		    y == WORD('e', 'n', 't', 'i', 'c', 'a', 't', 'e'))
			s->flags |= HEAD_BOUND;
		break;
	case 'c':
		y = word_at(w, off + 8) | LOWER;
		if (x == WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-') &&
		    FIRST(6, y) == FIRST(6, WORD('l', 'e', 'n', 'g', 't', 'h', 0, 0))) {
			if ((y >> 48 & 0xff) == ':')
				read_length(s, w, off + 15);
			else
				s->end = SCAN_BAD;
		} else if (x == WORD('c', 'o', 'n', 'n', 'e', 'c', 't', 'i') &&
			   FIRST(3, y) == FIRST(3, WORD('o', 'n', ':', 0, 0, 0, 0, 0))) {
			off = skip_blank(w, off + 11);
			v = word_at(w, off);
			y = word_at(w, off + 8);
			if (FIRST(5, v | LOWER) == FIRST(5, WORD('c', 'l', 'o', 's', 'e', 0, 0, 0)) &&
			    (v >> 40 & 0xff) == '\r')
				s->flags |= HEAD_CLOSE;
			else if ((v | LOWER) == WORD('k', 'e', 'e', 'p', '-', 'a', 'l', 'i') &&
				 FIRST(2, y | LOWER) == FIRST(2, WORD('v', 'e', 0, 0, 0, 0, 0, 0)) &&
				 (y >> 16 & 0xff) == '\r')
				s->flags |= HEAD_KEEP;
			else
				s->flags |= HEAD_UPGRADE;
		}
		break;
	case 't':
		y = word_at(w, off + 8) | LOWER;
		if (x == WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r') &&
		    y == WORD('-', 'e', 'n', 'c', 'o', 'd', 'i', 'n')) {
			if (s->flags & HEAD_CODED)
				s->end = SCAN_BAD;
			s->flags |= HEAD_CODED;
			if (FIRST(2, word_at(w, off + 16) | LOWER) != FIRST(2, WORD('g', ':', 0, 0, 0, 0, 0, 0)))
				s->end = SCAN_BAD;
			off = skip_blank(w, off + 18);
			v = word_at(w, off);
			if (FIRST(7, v | LOWER) == FIRST(7, WORD('c', 'h', 'u', 'n', 'k', 'e', 'd', 0)) &&
			    (v >> 56) == '\r')
				s->flags |= HEAD_CHUNKED;
		}
		break;
	case 'h':
		if (FIRST(5, x) == FIRST(5, WORD('h', 'o', 's', 't', ':', 0, 0, 0))) {
			if (s->flags & HEAD_HOST)
				s->end = SCAN_BAD;
			s->flags |= HEAD_HOST;
			s->host = skip_blank(w, off + 5);
		} else if (FIRST(4, x) == FIRST(4, WORD('h', 'o', 's', 't', 0, 0, 0, 0)) &&
			   ((x >> 32 & 0xff) == ' ' || (x >> 32 & 0xff) == ('\t' | 0x20))) {
			s->end = SCAN_BAD;
		}
		break;
	case 'u':
		if (x == WORD('u', 'p', 'g', 'r', 'a', 'd', 'e', ':'))
			s->flags |= HEAD_UPGRADE;
		break;
	case ' ': /* folded; so is a line that begins with a tab */
		s->end = SCAN_BAD;
		break;
	}
}

/* Most header lines are shorter. */
#define WORDS_A_STEP 4

/* The scan's state is in the map, where the verifier takes every value as unknown: it sees one step, not each. */
static long scan_step(__u32 i, void *none)
{
	struct work *w = work();
	struct scan *s;
	__u32 off, at;
	__u64 marks;

	if (!w)
		return 1;
	s = &w->scan;
	off = s->off;
	if (off >= s->len || off > HEAD_BYTES) {
		s->end = SCAN_SHORT;
		return 1;
	}
	marks = below(*(__u64 *)&w->head[off], 0x20);
#pragma unroll
	for (int i = 1; i < WORDS_A_STEP && !marks; i++) {
		off += 8;
		marks = below(*(__u64 *)&w->head[off], 0x20); /* there is room behind HEAD_BYTES */
	}
	if (!marks) {
		s->off = off + 8;
		return 0;
	}
	at = off + first_mark(marks);
	if (at + 1 >= s->len || at > HEAD_BYTES) {
		s->end = SCAN_SHORT;
		return 1;
	}
	if (w->head[at] == '\t') {
		s->off = at + 1;
		if (at == s->start)
			s->end = SCAN_BAD; /* folded */
		return s->end != SCAN_MORE;
	}
	if (w->head[at] != '\r' || w->head[at + 1] != '\n') {
		s->end = SCAN_BAD;
		return 1;
	}
	if (!s->line) {
		s->line = at;
	} else if (at == s->start) {
		s->head = at + 2;
		s->end = SCAN_OK;
		return 1;
	} else {
		read_header(s, w, s->start);
		if (s->end != SCAN_MORE)
			return 1;
	}
	at += 2;
	s->off = s->start = at;
	if (at + 2 <= s->len && at <= HEAD_BYTES && w->head[at] == '\r' && w->head[at + 1] == '\n') {
		s->head = at + 2;
		s->end = SCAN_OK;
		return 1;
	}
	return 0;
}

/*
 * Reads on in the head that w->scan is about: the packet's bytes from off up to end, or as many as there is room for, behind
 * those that are carried in w->head. Returns enum scan_end.
 */
__noinline int scan_on(struct __sk_buff *skb, __u32 off, __u32 end)
{
	struct work *w = work();
	__u32 len = end - off, carried, room = HEAD_BYTES;
	struct scan *s;

	if (!w)
		return SCAN_BAD;
	s = &w->scan;
	carried = s->carried;
	if (carried > CARRY_BYTES)
		return SCAN_BAD;
	if (carried)
		room -= CARRY_BYTES;
	if (len > room)
		len = room;
	hide(len);
	if (len < 1 || len > HEAD_BYTES || bpf_skb_load_bytes(skb, off, &w->head[carried], len))
		return SCAN_BAD;
	len += carried;
	/* bytes behind what was read: none that a head needs */
	if (len <= HEAD_BYTES) {
		*(__u64 *)&w->head[len] = 0;
		*(__u64 *)&w->head[len + 8] = 0;
	}
	s->len = len;
	s->off = s->start = s->end = 0;
	bpf_loop(HEAD_BYTES / 8 + 256, scan_step, NULL, 0);
	if (s->end == SCAN_MORE)
		s->end = SCAN_SHORT;
	return s->end;
}

static __always_inline void new_scan(struct scan *s)
{
	__builtin_memset(s, 0, sizeof(*s));
	s->length = NO_LENGTH;
}

/* Reads the head that starts at the packet's payload into w->scan. Returns enum scan_end. */
static __always_inline int scan_head(struct __sk_buff *skb, struct work *w)
{
	new_scan(&w->scan);
	return scan_on(skb, w->packet.payload, w->packet.payload + w->packet.len);
}

/* A hash of the path, FNV-1a over its bytes up to '?' or ' '. Sees HASH_BYTES at most. */
struct path_hash {
	__u64 hash;
	__u32 off;
	__u32 done;
};

static long hash_step(__u32 i, struct path_hash *h)
{
	struct work *w = work();
	__u32 off = h->off;

	if (!w || off >= HEAD_BYTES)
		return 1;
	if (w->head[off] == '?' || w->head[off] == ' ') {
		h->done = 1;
		return 1;
	}
	h->hash = (h->hash ^ w->head[off]) * 0x100000001b3ULL;
	h->off = off + 1;
	return 0;
}
