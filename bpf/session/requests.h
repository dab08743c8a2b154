/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bytes of a client: which request they are of, and what waits. Where each request is routed the client is held to one at a time. */
#pragma once

#include "state.h"

/* What becomes of a client's packet. */
enum client_next {
	NEXT_SEND,
	NEXT_REQUEST,
	NEXT_RECYCLE,
	NEXT_RESET,
	NEXT_RECYCLE_RESET,
	NEXT_CHALLENGE,
	NEXT_OVER,
	NEXT_ASK,
	NEXT_EARLY,
	NEXT_OUTSIDE, /* of the session's windows */
	NEXT_CUT,     /* what comes cannot be told apart */
	NEXT_MALFORMED,
	NEXT_STALE, /* the session is not its own any more */
	NEXT_RACE,  /* its client is being moved */
};

/*
 * Where in the request in front the packet's fresh bytes begin: the walk's start. False: there is nothing to walk. The packet
 * has not been judged, and the record may change before it is: track_request sees whether the walk still holds.
 */
static __always_inline bool begin_walk(const struct splice *s, const struct packet *p, struct walk *k)
{
	__u32 seq = p->seq + s->to_server_seq, gap;

	k->at = s->snd_nxt;
	k->from = k->framing = s->request;
	k->left = s->request_left;
	k->chunk = s->request_chunk;
	k->skip = k->hidden = 0;
	k->behind = 0;
	if (!walked(k->framing) || !before(k->at, seq + p->len))
		return false;
	if (before(k->at, seq)) {
		gap = seq - k->at;
		k->hidden = k->left < gap || (k->framing == FRAMING_CHUNKED && k->chunk != CHUNK_DATA);
		k->left -= gap;
		return !k->hidden;
	}
	k->skip = k->at - seq;
	return true;
}

/* Bytes of the client's packet that lie behind the request in front; the packet's whole length if all of them do. */
static __always_inline __u32 behind_request(const struct splice *s, const struct packet *p, const struct walk *k)
{
	__u32 end = p->seq + s->to_server_seq + p->len, limit = s->snd_nxt, over;

	switch (s->request) {
	case FRAMING_QUIET:
	case FRAMING_DONE:
		break;
	case FRAMING_BODY:
		if (!before(limit, end) || s->request_left >= end - limit)
			return 0;
		limit += s->request_left;
		break;
	case FRAMING_HEAD:
	case FRAMING_CHUNKED:
		return k->hidden ? 0 : k->behind;
	default:
		return 0;
	}
	if (!before(limit, end))
		return 0;
	over = end - limit;
	return over < p->len ? over : p->len;
}

/* Bytes to be cut off the end of the client's packet, where requests are held. One behind all of the request is judged later. */
static __always_inline __u32 cut_of_more(const struct splice *s, const struct packet *p, const struct walk *k)
{
	__u32 over;

	if (p->flags & (SYN | RST) || (quiet(s) && p->seq + s->to_server_seq == s->snd_nxt))
		return 0;
	over = behind_request(s, p, k);
	return over < p->len ? over : 0;
}

/* The same of the first packet of a decided request, of len bytes. */
static __always_inline __u32 cut_of_first(const struct decision *d, const struct walk *k, __u32 len)
{
	if (d->chunked)
		return k->behind;
	return d->request < len ? len - d->request : 0;
}

#define HELD_MS 1000 /* nothing has moved for so long: nothing will end the wait */

/*
 * New bytes of a client whose requests are held. What is not of the request in front waits; if the response is none
 * that can be followed, all of it so far is acknowledged, and nothing moves any more, the session ends. rest: ms before.
 */
static __always_inline __u32 hold_request(struct splice *s, const struct input *in, __u32 ack, __u32 rest)
{
	const struct walk *k = in->walk;
	bool behind = behind_request(s, in->packet, k), heard = ack == s->rcv_nxt;

	if (s->flags & SPLICE_SERVER_FIN && (behind || quiet(s))) /* nobody will answer */
		return heard ? NEXT_CUT : NEXT_EARLY;
	if (walked(s->request) && k->at == s->snd_nxt && k->bad)
		return k->bad == CHUNKS_LONG ? NEXT_EARLY : NEXT_MALFORMED;
	if (!behind)
		return NEXT_SEND;
	return s->response == FRAMING_OPAQUE && heard && rest > HELD_MS ? NEXT_CUT : NEXT_EARLY;
}

/* Bytes behind the first of a request that is in front. False: they come before what tells where it ends. */
static __always_inline bool follow_request(struct splice *s, const struct walk *k, __u32 end)
{
	if (walked(s->request)) {
		if (k->at == s->snd_nxt && k->from == s->request && !k->hidden)
			after_walk(s, k);
		else if (s->flags & SPLICE_ROUTED)
			return false; /* or another CPU was here meanwhile */
		else
			give_up(s);
	} else if (s->request != FRAMING_OPAQUE) {
		more_request(s, end - s->snd_nxt);
	}
	return true;
}

/* New bytes from the client. */
static __always_inline __u32 track_request(struct splice *s, const struct input *in, __u32 seq, __u32 ack, __u32 rest)
{
	__u32 end = seq + in->packet->len, next;

	/* the surrogate may have discarded the first version, and the second may say something else */
	if (before(seq, s->snd_nxt) && before(s->snd_una, end))
		s->flags |= SPLICE_SPOILT;
	if (!before(s->snd_nxt, end))
		return NEXT_SEND; /* seen before */
	if (s->flags & SPLICE_SERVER_FIN && !(s->flags & SPLICE_HOLD)) {
		/* nothing left to decide: the surrogate refuses it */
		give_up(s);
		s->flags &= ~SPLICE_ASKED;
	}
	if (s->flags & SPLICE_ASKED && seq != s->snd_nxt)
		return NEXT_ASK; /* behind bytes that user space holds */
	if (quiet(s) && seq == s->snd_nxt && !(s->flags & SPLICE_SERVER_FIN))
		return NEXT_REQUEST;
	if (s->flags & SPLICE_HOLD) {
		next = hold_request(s, in, ack, rest);
		if (next != NEXT_SEND)
			return next;
	}
	if (quiet(s)) {
		if (before(s->snd_nxt, seq))
			return NEXT_EARLY; /* the start of a request is missing */
		give_up(s);
	} else if (!follow_request(s, in->walk, end)) {
		return NEXT_EARLY;
	}
	s->snd_nxt = end;
	return NEXT_SEND;
}
