/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Reads the responses of a session. */
#pragma once

#include "scan.h"
#include "walk.h"

/* The status line, as soon as it is whole. False: it is none. */
static __always_inline bool read_status(struct work *w)
{
	struct scan *s = &w->scan;
	__u64 x;

	if (s->status || !s->line)
		return true;
	x = word_at(w, 0);
	if (FIRST(7, x) != FIRST(7, WORD('H', 'T', 'T', 'P', '/', '1', '.', 0)))
		return false;
	if (x >> 56 == '0')
		s->flags |= HEAD_OLD;
	x = word_at(w, 8);
	if ((x & 0xff) != ' ' || ((x >> 32 & 0xff) != ' ' && (x >> 32 & 0xff) != '\r'))
		return false;
	for (int i = 8; i <= 24; i += 8) {
		__u32 digit = (x >> i & 0xff) - '0';

		if (digit > 9)
			return false;
		s->status = s->status * 10 + digit;
	}
	return s->status >= 100;
}

/* Carries the line that is not whole over to the next bytes. False: it is too long to be carried. */
static __always_inline bool carry_line(struct work *w)
{
	struct scan *s = &w->scan;
	__u32 start = s->start, n = s->len - start;
	__u64 x = word_at(w, start) | LOWER;

	if (start > HEAD_BYTES)
		return false;
	if (n <= CARRY_BYTES) {
		__builtin_memcpy(w->partial.bytes, &w->head[start], CARRY_BYTES);
		s->carried = n;
		return true;
	}
	if (!s->line || !field_name(w, start) || x == WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r') ||
	    x == WORD('c', 'o', 'n', 'n', 'e', 'c', 't', 'i') || x == WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-') ||
	    x == WORD('u', 'p', 'g', 'r', 'a', 'd', 'e', ':'))
		return false;
	if (x == WORD('w', 'w', 'w', '-', 'a', 'u', 't', 'h') || x == WORD('p', 'r', 'o', 'x', 'y', '-', 'a', 'u'))
		s->flags |= HEAD_BOUND;
	w->partial.bytes[0] = 'x'; /* what the line says does not matter, but whether its CR was there */
	w->partial.bytes[1] = ':';
	n = s->len - 1;
	hide(n);
	w->partial.bytes[2] = n < HEAD_BYTES + CARRY_BYTES ? w->head[n] : 0;
	s->carried = 3;
	return true;
}

static __always_inline bool resume_head(struct work *w, __u32 idx)
{
	struct partial *part = bpf_map_lookup_elem(&partials, &idx);
	struct scan *s = &w->scan;

	if (!part || part->next != w->walk.at || part->carried > CARRY_BYTES)
		return false;
	s->flags = part->flags;
	s->length = part->length;
	s->status = part->status;
	s->line = part->line;
	s->carried = part->carried;
	__builtin_memcpy(w->partial.bytes, part->bytes, CARRY_BYTES);
	return true;
}

static __always_inline bool put_head_by(struct work *w, __u32 idx)
{
	struct partial *part = &w->partial;
	struct scan *s = &w->scan;

	part->next = w->packet.seq + w->packet.len;
	part->flags = s->flags;
	part->length = s->length;
	part->status = s->status;
	part->line = !!s->line;
	part->carried = s->carried;
	return !bpf_map_update_elem(&partials, &idx, part, BPF_ANY);
}

/* Passes over one packet's bytes of a head: up to 15 kB of them. */
#define HEAD_PASSES 8

/*
 * The packet's bytes from off on, where a head is due or goes on. Tells in w->walk.framing where that leads: FRAMING_HEAD,
 * FRAMING_PART, FRAMING_OPAQUE or, when the final head is whole, FRAMING_DONE. Returns the offset of the first byte after it.
 */
__noinline int read_response(struct __sk_buff *skb, __u32 idx, __u32 off)
{
	struct work *w = work();
	struct scan *s;
	__u32 end;
	int found;

	if (!w)
		return 0;
	s = &w->scan;
	end = w->packet.payload + w->packet.len;
	w->walk.framing = FRAMING_OPAQUE;
	new_scan(s);
	if (w->walk.from == FRAMING_PART && !resume_head(w, idx))
		return 0;
	for (int i = 0; i < HEAD_PASSES; i++) {
		if (s->carried)
			__builtin_memcpy(w->head, w->partial.bytes, CARRY_BYTES);
		found = scan_on(skb, off, end);
		if (found == SCAN_BAD || !read_status(w))
			return 0;
		if (found == SCAN_OK) {
			off += s->head - s->carried;
			if (s->status >= 200 || s->status == 101) {
				if (s->flags & HEAD_OLD && !(s->flags & HEAD_KEEP))
					s->flags |= HEAD_CLOSE;
				w->walk.framing = FRAMING_DONE;
				return off;
			}
			new_scan(s); /* the final head is still due */
		} else {
			off += s->len - s->carried;
			if (!carry_line(w))
				return 0;
		}
		if (off >= end) {
			if (found == SCAN_OK)
				w->walk.framing = FRAMING_HEAD;
			else if (put_head_by(w, idx))
				w->walk.framing = FRAMING_PART;
			return off;
		}
	}
	return 0;
}

/*
 * A packet of the surrogate, while its response is of that kind: reads where its bytes lead. The lock is not held:
 * server_event sees whether it holds.
 */
__noinline int walk_response(struct __sk_buff *skb, __u32 idx)
{
	struct work *w = work();
	struct splice *s = splice_at(idx);
	struct chunk_walk chunks = {};
	struct packet *p;
	struct walk *k;
	__u32 off;

	if (!w || !s)
		return 0;
	p = &w->packet;
	k = &w->walk;
	if (!begin_response_walk(s, p, k))
		return 0;
	off = p->payload + k->skip;
	chunks.left = k->left;
	chunks.chunk = k->chunk;
	if (k->from != FRAMING_CHUNKED) {
		off = read_response(skb, idx, off);
		chunks.left = 0;
		chunks.chunk = CHUNK_SIZE_FIRST;
	}
	k->body = p->payload + p->len - off;
	k->head.flags = w->scan.flags;
	k->head.status = w->scan.status;
	k->head.length = w->scan.length;
	if (k->framing == FRAMING_CHUNKED || (k->framing == FRAMING_DONE && w->scan.flags & HEAD_CHUNKED))
		walk_chunks(skb, &chunks, off, p->payload + p->len);
	k->left = chunks.left;
	k->chunk = chunks.chunk;
	k->done = chunks.done;
	k->bad = chunks.bad;
	k->behind = chunks.behind;
	return 0;
}
