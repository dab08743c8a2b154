/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parses the responses of a session. */
#pragma once

#include "../session/walk.h"
#include "chunks.h"
#include "parse.h"
#include "work.h"

/* Parses the status line once it is complete. False: malformed. */
static __always_inline bool read_status(struct scan *s)
{
	__u64 x;

	if (s->head.status || !s->line)
		return true;
	x = word_at(s, 0);
	if (FIRST(7, x) != FIRST(7, WORD('H', 'T', 'T', 'P', '/', '1', '.', 0)))
		return false;
	if (x >> 56 == '0')
		s->head.flags |= HEAD_OLD;
	x = word_at(s, 8);
	if ((x & 0xff) != ' ' || ((x >> 32 & 0xff) != ' ' && (x >> 32 & 0xff) != '\r'))
		return false;
	for (int i = 8; i <= 24; i += 8) {
		__u32 digit = (x >> i & 0xff) - '0';

		if (digit > 9)
			return false;
		s->head.status = s->head.status * 10 + digit;
	}
	return s->head.status >= 100;
}

/* Carries an incomplete line over to the next packet. False: too long. */
static __always_inline bool carry_line(struct scan *s, struct partial *part)
{
	__u32 start = s->start, n = s->len - start;
	__u64 x = lower_at(s, start);

	if (start > HEAD_BYTES)
		return false;
	if (n <= CARRY_BYTES) {
		__builtin_memcpy(part->bytes, &s->bytes[start], CARRY_BYTES);
		s->carried = n;
		return true;
	}
	if (!s->line || !field_name(s, start) || x == WORD('t', 'r', 'a', 'n', 's', 'f', 'e', 'r') ||
	    x == WORD('c', 'o', 'n', 'n', 'e', 'c', 't', 'i') || x == WORD('c', 'o', 'n', 't', 'e', 'n', 't', '-') ||
	    x == WORD('u', 'p', 'g', 'r', 'a', 'd', 'e', ':'))
		return false;
	if (x == WORD('w', 'w', 'w', '-', 'a', 'u', 't', 'h') || x == WORD('p', 'r', 'o', 'x', 'y', '-', 'a', 'u'))
		s->head.flags |= HEAD_BOUND;
	part->bytes[0] = 'x'; /* only whether its CR was there matters */
	part->bytes[1] = ':';
	n = s->len - 1;
	hide(n);
	part->bytes[2] = n < HEAD_BYTES + CARRY_BYTES ? s->bytes[n] : 0;
	s->carried = 3;
	return true;
}

/* Resumes the head that the splice's last packet left unfinished. False: there is none, or it ended elsewhere. */
static __always_inline bool resume_head(struct scan *s, struct partial *part, __u32 idx, __u32 at)
{
	struct partial *kept = bpf_map_lookup_elem(&partials, &idx);

	if (!kept || kept->next != at || kept->carried > CARRY_BYTES)
		return false;
	s->head.flags = kept->flags;
	s->head.length = kept->length;
	s->head.status = kept->status;
	s->line = kept->line;
	s->carried = kept->carried;
	__builtin_memcpy(part->bytes, kept->bytes, CARRY_BYTES);
	return true;
}

/* Saves the state of an unfinished head for the packet that begins at next. */
static __always_inline bool keep_head(const struct scan *s, struct partial *part, __u32 idx, __u32 next)
{
	part->next = next;
	part->flags = s->head.flags;
	part->length = s->head.length;
	part->status = s->head.status;
	part->line = !!s->line;
	part->carried = s->carried;
	return !bpf_map_update_elem(&partials, &idx, part, BPF_ANY);
}

/* Passes over the head bytes of one packet: up to 15 kB. */
#define HEAD_PASSES 8

/*
 * Parses the packet's bytes from k->skip on as a head, or its continuation. Sets k->framing to FRAMING_HEAD,
 * FRAMING_PART, FRAMING_OPAQUE, or FRAMING_DONE when the final head is complete. Returns the offset after it.
 */
static __always_inline __u32 read_response(struct __sk_buff *skb, const struct packet *p, __u32 idx, struct walk *k,
					   struct scan *s, struct partial *part)
{
	__u32 off = p->payload + k->skip, end = p->payload + p->len;
	int found;

	k->framing = FRAMING_OPAQUE;
	new_scan(s);
	if (k->from == FRAMING_PART && !resume_head(s, part, idx, k->at))
		return 0;
	for (int i = 0; i < HEAD_PASSES; i++) {
		if (s->carried)
			__builtin_memcpy(s->bytes, part->bytes, CARRY_BYTES);
		found = scan_on(skb, s, off, end);
		if (found == SCAN_BAD || !read_status(s))
			return 0;
		if (found == SCAN_OK) {
			off += s->size - s->carried;
			if (s->head.status >= 200 || s->head.status == 101) {
				if (s->head.flags & HEAD_OLD && !(s->head.flags & HEAD_KEEP))
					s->head.flags |= HEAD_CLOSE;
				k->framing = FRAMING_DONE;
				return off;
			}
			new_scan(s); /* informational: the final head follows */
		} else {
			off += s->len - s->carried;
			if (!carry_line(s, part))
				return 0;
		}
		if (off >= end) {
			if (found == SCAN_OK)
				k->framing = FRAMING_HEAD;
			else if (keep_head(s, part, idx, p->seq + p->len))
				k->framing = FRAMING_PART;
			return off;
		}
	}
	return 0;
}

/*
 * Walks a surrogate's packet while its response needs parsing. The lock is not held: server_event checks that the walk
 * still applies.
 */
__noinline int walk_response(struct __sk_buff *skb, const struct packet *p, __u32 idx, struct walk *k,
			     struct reading *r)
{
	struct chunk_walk chunks = {};
	struct splice *s = splice_at(idx);
	__u32 off;

	if (!p || !k || !r || !s || !begin_response_walk(s, p, k))
		return 0;
	off = p->payload + k->skip;
	chunks.left = k->left;
	chunks.chunk = k->chunk;
	if (k->from != FRAMING_CHUNKED) {
		off = read_response(skb, p, idx, k, &r->scan, &r->part);
		chunks.left = 0;
		chunks.chunk = CHUNK_SIZE_FIRST;
		k->head = r->scan.head;
	}
	k->body = p->payload + p->len - off;
	if (k->framing == FRAMING_CHUNKED || (k->framing == FRAMING_DONE && k->head.flags & HEAD_CHUNKED))
		walk_chunks(skb, &chunks, off, p->payload + p->len);
	k->left = chunks.left;
	k->chunk = chunks.chunk;
	k->done = chunks.done;
	k->bad = chunks.bad;
	k->behind = chunks.behind;
	return 0;
}
