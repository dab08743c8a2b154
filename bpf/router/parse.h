/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parses HTTP/1 message heads (RFC 9112), eight bytes per step. Anything not clearly well-formed is SCAN_BAD and left
 * to user space: bare CR or LF, other control bytes, folded lines, a blank before a colon, repeated Host or
 * Content-Length. A request is read by the grammar of docs/handoff.md, or more strictly: what is SCAN_OK here, and
 * passes host.h, is never refused there. router/route/unread.go is the model.
 */
#pragma once

#include <stddef.h>
#include "../session/splice.h"
#include "scan.h"

/* Enough for most header lines. */
#define WORDS_A_STEP 4

#define TARGET_MARKS 0x26 /* in a target, bytes below are inspected one by one: among them are blank, # and % */

/* Ends the line whose CR is at. Returns whether the head has ended. */
static __always_inline bool end_line(struct scan *s, __u32 at)
{
	if (!s->line) {
		s->line = at;
	} else if (at == s->start) {
		s->size = at + 2;
		s->end = SCAN_OK;
		return true;
	} else {
		read_field(s, s->start);
		if (s->end != SCAN_MORE)
			return true;
		if (s->head.flags & HEAD_HOST && !s->host_end)
			s->host_end = at;
	}
	at += 2;
	s->off = s->start = at;
	if (at + 2 <= s->len && at <= HEAD_BYTES && s->bytes[at] == '\r' && s->bytes[at + 1] == '\n') {
		s->size = at + 2;
		s->end = SCAN_OK;
		return true;
	}
	return false;
}

/*
 * Reads the version behind a target, whose blank is at, up to the end of the line. Returns the place of its CR; 0:
 * bad.
 */
static __always_inline __u32 read_version(struct scan *s, __u32 at)
{
	__u64 x = word_at(s, at + 1), y = word_at(s, at + 9);

	s->target = 0;
	if (FIRST(7, x) != FIRST(7, WORD('H', 'T', 'T', 'P', '/', '1', '.', 0)) ||
	    FIRST(2, y) != FIRST(2, WORD('\r', '\n', 0, 0, 0, 0, 0, 0)))
		return 0;
	switch (x >> 56) {
	case '0':
		s->head.flags |= HEAD_OLD;
		return at + 9;
	case '1':
		return at + 9;
	}
	return 0;
}

/*
 * Reads the byte at, which is special, and no CR, LF or other control byte but tab. Returns the place of the line's
 * CR behind the end of a target, or 0.
 */
static __always_inline __u32 read_mark(struct scan *s, __u32 at)
{
	__u8 c = s->bytes[at];
	__u32 cr;

	s->off = at + 1;
	switch (c) {
	case ' ':
		cr = read_version(s, at);
		if (!cr)
			s->end = SCAN_BAD;
		return cr;
	case '%':
		s->off = at + 3;
		if (!is_hex(s->bytes[at + 1]) || !is_hex(s->bytes[at + 2]))
			s->end = SCAN_BAD;
		return 0;
	case '\t':
		if (at == s->start || (s->request && !s->line)) /* folded */
			s->end = SCAN_BAD;
		return 0;
	case 0x7f:
		if (s->request)
			s->end = SCAN_BAD;
		return 0;
	case '#':
		s->end = SCAN_BAD;
		return 0;
	}
	return 0;
}

/* The state is in a map, whose values the verifier treats as unknown: it checks one step, not each. */
static long scan_step(__u32 i, struct scan **scan)
{
	struct scan *s = *scan;
	__u64 marks, limit = s->target ? ONES * TARGET_MARKS : ONES * 0x20;
	__u32 off = s->off, at;

	if (off >= s->len || off > HEAD_BYTES) {
		s->end = SCAN_SHORT;
		return 1;
	}
	marks = special(*(__u64 *)&s->bytes[off], limit);
#pragma unroll
	for (int i = 1; i < WORDS_A_STEP && !marks; i++) {
		off += 8;
		marks = special(*(__u64 *)&s->bytes[off], limit); /* bytes has space after HEAD_BYTES */
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
	if (s->bytes[at] >= ' ' || s->bytes[at] == '\t') {
		at = read_mark(s, at);
		if (!at || at > HEAD_BYTES)
			return s->end != SCAN_MORE;
	} else if (s->target || s->bytes[at] != '\r' || s->bytes[at + 1] != '\n') {
		s->end = SCAN_BAD;
		return 1;
	}
	return end_line(s, at);
}

#define METHOD_BYTES 8 /* before the target: a method that the kernel routes, and a blank */

static __always_inline __u32 method_of(__u64 x, __u32 *path)
{
	if (FIRST(5, x) == FIRST(5, WORD('G', 'E', 'T', ' ', '/', 0, 0, 0))) {
		*path = 4;
		return METHOD_GET;
	}
	if (FIRST(6, x) == FIRST(6, WORD('H', 'E', 'A', 'D', ' ', '/', 0, 0))) {
		*path = 5;
		return METHOD_HEAD;
	}
	if (FIRST(6, x) == FIRST(6, WORD('P', 'O', 'S', 'T', ' ', '/', 0, 0))) {
		*path = 5;
		return METHOD_POST;
	}
	if (FIRST(5, x) == FIRST(5, WORD('P', 'U', 'T', ' ', '/', 0, 0, 0))) {
		*path = 4;
		return METHOD_PUT;
	}
	if (x == WORD('D', 'E', 'L', 'E', 'T', 'E', ' ', '/')) {
		*path = 7;
		return METHOD_DELETE;
	}
	return METHOD_NONE;
}

/* Begins the line of a request. Targets of other methods, and other targets, are not read. */
static __always_inline void begin_target(struct scan *s)
{
	s->method = method_of(word_at(s, 0), &s->path);
	s->off = s->target = s->path;
}

/*
 * Continues parsing a head with the packet's bytes from off to end, as far as they fit, after the carried ones. Returns
 * enum scan_end.
 */
__noinline int scan_on(struct __sk_buff *skb, struct scan *s, __u32 off, __u32 end)
{
	__u32 len = end - off, carried, room = HEAD_BYTES;

	if (!s)
		return SCAN_BAD;
	carried = s->carried;
	if (carried > CARRY_BYTES)
		return SCAN_BAD;
	if (carried)
		room -= CARRY_BYTES;
	if (len > room)
		len = room;
	if (!is_within(len, 1, HEAD_BYTES) || bpf_skb_load_bytes(skb, off, &s->bytes[carried], len))
		return SCAN_BAD;
	len += carried;
	/* terminates what was read */
	if (len <= HEAD_BYTES) {
		*(__u64 *)&s->bytes[len] = 0;
		*(__u64 *)&s->bytes[len + 8] = 0;
	}
	s->len = len;
	s->off = s->start = s->end = 0;
	if (s->request)
		begin_target(s);
	bpf_loop(HEAD_BYTES + 1, scan_step, &s, 0);
	if (s->end == SCAN_MORE)
		s->end = SCAN_SHORT;
	return s->end;
}

static __always_inline void new_scan(struct scan *s)
{
	__builtin_memset(s, 0, offsetof(struct scan, watching));
	s->head.length = NO_LENGTH;
}

/*
 * Parses the head of a request at the start of the packet's payload, with the watches that are set. Returns enum
 * scan_end.
 */
static __always_inline int scan_head(struct __sk_buff *skb, const struct packet *p, struct scan *s)
{
	new_scan(s);
	s->request = 1;
	return scan_on(skb, s, p->payload, p->payload + p->len);
}
