/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Follows the HTTP messages of a session, so that a server leg is used again, or a client moved, only between a complete
 * response and the next request. Any doubt ends in FRAMING_OPAQUE, from which there is no way back.
 */
#pragma once

#include "scan.h"

/* The session has left HTTP: all that comes passes. */
static __always_inline void let_go(struct splice *s)
{
	s->request = s->response = FRAMING_OPAQUE;
}

/* Where the response ends is not known any more. Where each request is routed, its client's bytes are held to this one all the same. */
static __always_inline void give_up(struct splice *s)
{
	s->response = FRAMING_OPAQUE;
	if (!(s->flags & SPLICE_HOLD))
		s->request = FRAMING_OPAQUE;
}

static __always_inline bool quiet(const struct splice *s)
{
	return s->request == FRAMING_QUIET && s->response == FRAMING_QUIET;
}

static __always_inline void settle(struct splice *s)
{
	if (s->request == FRAMING_DONE && s->response == FRAMING_DONE)
		s->request = s->response = FRAMING_QUIET;
}

/* Under the lock: the request goes on where the walk over its new bytes has led. */
static __always_inline void after_walk(struct splice *s, const struct walk *k)
{
	if (k->bad || k->behind) {
		give_up(s);
		return;
	}
	s->request = k->done ? FRAMING_DONE : k->framing;
	s->request_left = k->left;
	s->request_chunk = k->chunk;
	settle(s);
}

/* A decided request begins, and fresh bytes of it are here. k: of a chunked one, where they lead. */
static __always_inline void begin_request(struct splice *s, const struct decision *d, const struct walk *k, __u32 fresh)
{
	s->requests++;
	s->client_requests++;
	s->flags &= ~(SPLICE_HEAD_METHOD | SPLICE_UPGRADE);
	if (d->method == METHOD_HEAD)
		s->flags |= SPLICE_HEAD_METHOD;
	if (d->upgrade)
		s->flags |= SPLICE_UPGRADE;
	if (d->bound) /* to its connection */
		s->flags |= SPLICE_SPOILT;
	if (d->chunked) {
		s->response = FRAMING_HEAD;
		after_walk(s, k);
		return;
	}
	if (d->request < fresh) { /* pipelined */
		give_up(s);
		return;
	}
	s->request_left = d->request - fresh;
	s->request = s->request_left ? FRAMING_BODY : FRAMING_DONE;
	s->response = FRAMING_HEAD;
}

/* More bytes from the client, after the first of a request. */
static __always_inline void more_request(struct splice *s, __u32 fresh)
{
	if (s->request == FRAMING_BODY && fresh <= s->request_left) {
		s->request_left -= fresh;
		if (!s->request_left)
			s->request = FRAMING_DONE;
		settle(s);
	} else {
		give_up(s);
	}
}

/* Bytes of a response body whose length is known. */
static __always_inline void more_response(struct splice *s, __u32 fresh)
{
	if (fresh > s->response_left) {
		give_up(s);
		return;
	}
	s->response_left -= fresh;
	if (!s->response_left)
		s->response = FRAMING_DONE;
	settle(s);
}

/* What a final response head says of what follows it, of which body bytes are here. */
static __always_inline void begin_response(struct splice *s, const struct scan *head, __u32 body)
{
	if (head->flags & HEAD_CLOSE)
		s->flags |= SPLICE_NO_REUSE;
	if (head->flags &
	    (HEAD_BOUND | HEAD_UPGRADE)) /* HEAD_UPGRADE: an option of the connection that says what we do not know */
		s->flags |= SPLICE_SPOILT;
	if (head->status == 101) {
		if (s->flags & SPLICE_UPGRADE)
			let_go(s);
		else
			give_up(s);
		return;
	}
	if (s->flags & SPLICE_HEAD_METHOD || head->status == 204 || head->status == 304) {
		s->response = FRAMING_BODY;
		s->response_left = 0;
		more_response(s, body);
	} else if (head->flags & HEAD_CODED) {
		/* HTTP/1.0 has no transfer codings (RFC 9112, 6.1) */
		if (!(head->flags & HEAD_CHUNKED) || head->flags & (HEAD_LENGTH | HEAD_OLD)) {
			give_up(s);
			return;
		}
		s->response = FRAMING_CHUNKED;
		s->chunk = CHUNK_SIZE_FIRST;
		s->response_left = 0;
	} else if (head->flags & HEAD_LENGTH) {
		s->response = FRAMING_BODY;
		s->response_left = head->length;
		more_response(s, body);
	} else {
		s->response = FRAMING_CLOSE;
	}
}

/* Chunked coding (RFC 9112, 7.1), a byte a step but for data, over the packet's payload from off on. */
struct chunk_walk {
	struct __sk_buff *skb;
	__u64 left;
	__u32 off;
	__u32 end;
	__u8 chunk;
	__u8 done;
	__u8 bad;
	__u32 behind; /* bytes behind the message's end */
};

/* No byte of a chunk extension or a trailer. A CR ends those. */
static __always_inline bool control(__u8 b)
{
	return (b < ' ' && b != '\t' && b != '\r') || b == 0x7f;
}

static __always_inline bool hexadecimal(__u8 b)
{
	return (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'f');
}

/* A byte behind a chunk's size, or behind blanks there. False: none that may be. */
static __always_inline bool behind_size(struct chunk_walk *c, __u8 b)
{
	if (b == '\r')
		c->chunk = CHUNK_SIZE_LF;
	else if (b == ';')
		c->chunk = CHUNK_EXTENSION;
	else if (b == ' ' || b == '\t')
		c->chunk = CHUNK_SIZE_BLANK;
	else
		return false;
	return true;
}

static long chunk_step(__u32 i, struct chunk_walk *c)
{
	__u8 b;

	if (c->off >= c->end || c->done || c->bad)
		return 1;
	if (c->chunk == CHUNK_DATA) {
		__u32 here = c->end - c->off;

		if (c->left > here) {
			c->left -= here;
			c->off = c->end;
			return 1;
		}
		c->off += c->left;
		c->left = 0;
		c->chunk = CHUNK_DATA_CR;
		return 0;
	}
	if (bpf_skb_load_bytes(c->skb, c->off, &b, 1)) {
		c->bad = 1;
		return 1;
	}
	c->off++;
	switch (c->chunk) {
	case CHUNK_SIZE_FIRST:
	case CHUNK_SIZE:
		c->bad = c->left >> 59 && hexadecimal(b); /* 63 bits at most, as servers have it */
		if (b >= '0' && b <= '9') {
			c->left = c->left << 4 | (b - '0');
		} else if ((b | 0x20) >= 'a' && (b | 0x20) <= 'f') {
			c->left = c->left << 4 | ((b | 0x20) - 'a' + 10);
		} else if (c->chunk == CHUNK_SIZE && behind_size(c, b)) {
			break;
		} else {
			c->bad = 1;
			break;
		}
		c->chunk = CHUNK_SIZE;
		break;
	case CHUNK_SIZE_BLANK:
		c->bad = !behind_size(c, b);
		break;
	case CHUNK_EXTENSION:
		c->bad = control(b);
		if (b == '\r')
			c->chunk = CHUNK_SIZE_LF;
		break;
	case CHUNK_SIZE_LF:
		c->bad = b != '\n';
		c->chunk = c->left ? CHUNK_DATA : CHUNK_LAST_CR;
		break;
	case CHUNK_DATA_CR:
		c->bad = b != '\r';
		c->chunk = CHUNK_DATA_LF;
		break;
	case CHUNK_DATA_LF:
		c->bad = b != '\n';
		c->chunk = CHUNK_SIZE_FIRST;
		break;
	case CHUNK_LAST_CR:
		c->bad = control(b);
		c->chunk = b == '\r' ? CHUNK_LAST_LF : CHUNK_TRAILER;
		break;
	case CHUNK_LAST_LF:
		c->bad = b != '\n';
		c->done = 1;
		break;
	case CHUNK_TRAILER:
		c->bad = control(b);
		if (b == '\r')
			c->chunk = CHUNK_TRAILER_LF;
		break;
	case CHUNK_TRAILER_LF:
		c->bad = b != '\n';
		c->chunk = CHUNK_LAST_CR;
		break;
	}
	return 0;
}
#define CHUNK_STEPS 16384 /* more than a single packet has bytes */
#define CHUNKS_LONG 2     /* bad: a packet that stands for many takes more */

static __always_inline void walk_chunks(struct __sk_buff *skb, struct chunk_walk *c, __u32 off, __u32 end)
{
	c->skb = skb;
	c->off = off;
	c->end = end;
	c->done = c->bad = 0;
	c->behind = 0;
	bpf_loop(CHUNK_STEPS, chunk_step, c, 0);
	if (c->off == c->end)
		return;
	if (c->done)
		c->behind = c->end - c->off;
	else if (!c->bad)
		c->bad = CHUNKS_LONG;
}

/* Under the lock: the same of a chunked response. */
static __always_inline void after_chunks(struct splice *s, const struct walk *c)
{
	if (c->bad || c->behind) {
		give_up(s);
		return;
	}
	s->response_left = c->left;
	s->chunk = c->chunk;
	if (c->done) {
		s->response = FRAMING_DONE;
		settle(s);
	}
}
