/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Follows the responses of a session. */
#pragma once

#include "client.h"

enum server_next {
	SERVER_SEND,
	SERVER_ACK,
	SERVER_RESET,
	SERVER_NOTHING,
	SERVER_GAP,
	SERVER_RACE,      /* the client is leaving */
	SERVER_OVER,      /* reset by the surrogate */
	SERVER_CLOSED,    /* both ends have said FIN */
	SERVER_FAILED,    /* closed or reset before a byte of the response */
	SERVER_UNASKED,   /* said what is not this client's */
	SERVER_REFUSED,   /* a leg, reset before our ACK */
	SERVER_IDLE_OVER, /* an idle leg, reset */
	SERVER_IDLE_CLOSED,
};

/* Under the lock, after the bytes: FIN. True: the session is over, and the splice dead. */
static __always_inline bool track_server_fin(struct splice *s, const struct packet *p, __u32 now)
{
	if (p->flags & FIN && !before(p->seq + p->len, s->rcv_nxt) && !(s->flags & SPLICE_SERVER_FIN)) {
		if (p->seq + p->len != s->rcv_nxt) /* the client keeps it until the gap before it is filled */
			give_up(s);
		s->flags |= SPLICE_SERVER_FIN;
		s->rcv_nxt = p->seq + p->len + 1;
		s->state = SPLICE_CLOSING;
	}
	if (!both_over(s))
		return false;
	s->state = SPLICE_DEAD;
	s->since = now;
	return true;
}

static __always_inline int send_to_client(struct __sk_buff *skb, struct work *w, struct splice *s, __u32 now)
{
	int err;

	if (hop_is_old(&w->out.hop, now) && resolve(skb, now)) {
		bpf_spin_lock(&s->lock);
		if (same_tuple(&s->server, &w->packet.key) && s->to_client.ifindex)
			s->to_client = w->out.hop;
		bpf_spin_unlock(&s->lock);
	}
	err = rewrite(skb);
	if (err)
		return -err;
	leave(skb, w);
	return TO_CLIENT;
}

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

static __always_inline bool read_on(__u8 framing)
{
	return framing == FRAMING_HEAD || framing == FRAMING_PART || framing == FRAMING_CHUNKED;
}

/*
 * A packet of the surrogate, while its response is of that kind: reads where its bytes lead. The lock is not held:
 * track_response sees whether it holds.
 */
__noinline int walk_response(struct __sk_buff *skb, __u32 idx)
{
	struct work *w = work();
	struct splice *s = splice_at(idx);
	struct chunk_walk chunks = {};
	struct packet *p;
	struct walk *k;
	__u32 gap, off;

	if (!w || !s)
		return 0;
	p = &w->packet;
	k = &w->walk;
	k->at = s->rcv_nxt;
	k->from = k->framing = s->response;
	chunks.left = s->response_left;
	chunks.chunk = s->chunk;
	k->hidden = 0;
	off = p->payload;
	gap = p->seq - k->at;
	if (before(k->at, p->seq)) {
		k->hidden = k->from != FRAMING_CHUNKED || chunks.chunk != CHUNK_DATA || chunks.left < gap;
		chunks.left -= gap;
	} else if (before(k->at, p->seq + p->len)) {
		off -= gap;
	} else {
		return 0; /* seen before */
	}
	if (k->hidden)
		return 0;
	if (k->from != FRAMING_CHUNKED) {
		off = read_response(skb, idx, off);
		chunks.left = 0;
		chunks.chunk = CHUNK_SIZE_FIRST;
	}
	k->body = p->payload + p->len - off;
	if (k->framing == FRAMING_CHUNKED || (k->framing == FRAMING_DONE && w->scan.flags & HEAD_CHUNKED))
		walk_chunks(skb, &chunks, off, p->payload + p->len);
	k->left = chunks.left;
	k->chunk = chunks.chunk;
	k->done = chunks.done;
	k->bad = chunks.bad;
	k->behind = chunks.behind;
	return 0;
}

/* Under the lock: the response goes on where the walk over its new bytes has led. */
static __always_inline void follow_response(struct splice *s, const struct work *w)
{
	const struct walk *k = &w->walk;

	switch (k->framing) {
	case FRAMING_HEAD:
	case FRAMING_PART:
		s->response = k->framing;
		break;
	case FRAMING_DONE:
		begin_response(s, &w->scan, k->body);
		if (s->response == FRAMING_CHUNKED)
			after_chunks(s, k);
		break;
	case FRAMING_CHUNKED:
		after_chunks(s, k);
		break;
	default:
		give_up(s);
	}
}

/* Under the lock: bytes of a response. */
static __always_inline __u32 track_response(struct splice *s, const struct work *w)
{
	const struct packet *p = &w->packet;
	const struct walk *k = &w->walk;
	__u32 end = p->seq + p->len;

	if (!before(s->rcv_nxt, end))
		return SERVER_SEND; /* seen before */
	switch (s->response) {
	case FRAMING_BODY:
		more_response(s, end - s->rcv_nxt);
		break;
	case FRAMING_HEAD:
	case FRAMING_PART:
	case FRAMING_CHUNKED:
		if (k->at == s->rcv_nxt && k->from == s->response && !k->hidden) {
			follow_response(s, w);
		} else if (s->flags & SPLICE_ROUTED && !(p->flags & FIN)) {
			return SERVER_GAP; /* or another CPU was here meanwhile */
		} else {
			give_up(s);
		}
		break;
	case FRAMING_QUIET:
	case FRAMING_DONE:
		give_up(s);
		break;
	}
	s->rcv_nxt = end;
	return SERVER_SEND;
}
