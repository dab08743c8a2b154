/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Tracks the HTTP messages of both directions, so that a server leg is reused, or a client moved, only between a
 * complete response and the next request. Any doubt ends in FRAMING_OPAQUE, which is final.
 */
#pragma once

#include "http.h"
#include "splice.h"

/* The session is not HTTP, or no longer (upgrade): everything passes. */
static __always_inline void let_go(struct splice *s)
{
	s->request = s->response = FRAMING_OPAQUE;
}

/*
 * The end of the response is no longer known. Where each request is routed separately, the client stays limited to the
 * current one.
 */
static __always_inline void give_up(struct splice *s)
{
	s->response = FRAMING_OPAQUE;
	if (!(s->flags & SPLICE_HOLD))
		s->request = FRAMING_OPAQUE;
}

static __always_inline void settle(struct splice *s)
{
	if (s->request == FRAMING_DONE && s->response == FRAMING_DONE)
		s->request = s->response = FRAMING_QUIET;
}

/* Updates the request's state after a walk over its new bytes. */
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

/* Starts a decided request, of which fresh bytes are in this packet. k: the walk over a chunked one. */
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
	if (d->opaque) {
		let_go(s);
		s->flags |= SPLICE_SPOILT;
		return;
	}
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

/* More bytes of a request that has started. */
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

/* Bytes of a response body of known length. */
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

/* Applies a final response head, followed by body bytes in the same packet. */
static __always_inline void begin_response(struct splice *s, const struct head *head, __u32 body)
{
	if (head->flags & HEAD_CLOSE)
		s->flags |= SPLICE_NO_REUSE;
	if (head->flags & (HEAD_BOUND | HEAD_UPGRADE)) /* HEAD_UPGRADE: or an unknown connection option */
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

/* Updates a chunked response after a walk over its bytes. */
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
