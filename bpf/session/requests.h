/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Maps a client's bytes to requests. Where each request is routed separately, the client is limited to one at a time.
 */
#pragma once

#include "framing.h"
#include "state.h"
#include "walk.h"

/* What to do with a client's packet. */
enum client_next {
	NEXT_SEND,
	NEXT_REQUEST,
	NEXT_RECYCLE,
	NEXT_RESET,
	NEXT_RECYCLE_RESET,
	NEXT_CHALLENGE,
	NEXT_OVER,
	NEXT_UPCALL,
	NEXT_EARLY,
	NEXT_OUTSIDE, /* outside the session's windows */
	NEXT_CUT,     /* the stream is ambiguous */
	NEXT_MALFORMED,
	NEXT_STALE, /* the session is no longer this client's */
	NEXT_RACE,  /* the client is being moved */
};

#define HELD_MS 1000 /* no progress for this long: nothing will end the wait */

/*
 * New bytes of a client limited to one request at a time. Bytes after the current request are dropped until its
 * response is complete. If the response cannot be tracked, all of it so far is acknowledged and there is no progress,
 * the session ends. rest: ms since the last packet.
 */
static __always_inline __u32 hold_request(struct splice *s, const struct input *in, __u32 ack, __u32 rest)
{
	const struct walk *k = in->walk;
	bool behind = behind_request(s, in->packet, k), heard = ack == s->rcv_nxt;

	if (s->flags & SPLICE_SERVER_FIN && (behind || quiet(s))) /* the surrogate will not answer */
		return heard ? NEXT_CUT : NEXT_EARLY;
	if (walked(s->request) && k->at == s->snd_nxt && k->bad)
		return k->bad == CHUNKS_LONG ? NEXT_EARLY : NEXT_MALFORMED;
	if (!behind)
		return NEXT_SEND;
	return s->response == FRAMING_OPAQUE && heard && rest > HELD_MS ? NEXT_CUT : NEXT_EARLY;
}

/* More bytes of the current request. False: they arrive before the bytes that determine its end. */
static __always_inline bool follow_request(struct splice *s, const struct walk *k, __u32 end)
{
	if (walked(s->request)) {
		if (k->at == s->snd_nxt && k->from == s->request && !k->hidden)
			after_walk(s, k);
		else if (s->flags & SPLICE_ROUTED)
			return false; /* or another CPU changed the state */
		else
			give_up(s);
	} else if (s->request != FRAMING_OPAQUE) {
		more_request(s, end - s->snd_nxt);
	}
	return true;
}

/* Tracks new bytes from the client. */
static __always_inline __u32 track_request(struct splice *s, const struct input *in, __u32 seq, __u32 ack, __u32 rest)
{
	__u32 end = seq + in->packet->len, next;

	/* a retransmission may differ from the original, which the surrogate may have dropped */
	if (before(seq, s->snd_nxt) && before(s->snd_una, end))
		s->flags |= SPLICE_SPOILT;
	if (!before(s->snd_nxt, end))
		return NEXT_SEND; /* retransmission */
	if (s->flags & SPLICE_SERVER_FIN && !(s->flags & SPLICE_HOLD)) {
		/* the surrogate has closed: it will refuse the request */
		give_up(s);
		s->flags &= ~SPLICE_UPCALL;
	}
	if (s->flags & SPLICE_UPCALL && seq != s->snd_nxt)
		return NEXT_UPCALL; /* behind bytes that user space holds */
	if (quiet(s) && seq == s->snd_nxt && !(s->flags & SPLICE_SERVER_FIN))
		return NEXT_REQUEST;
	if (s->flags & SPLICE_HOLD) {
		next = hold_request(s, in, ack, rest);
		if (next != NEXT_SEND)
			return next;
	}
	if (quiet(s)) {
		if (before(s->snd_nxt, seq))
			return NEXT_EARLY; /* the start of the request is missing */
		give_up(s);
	} else if (!follow_request(s, in->walk, end)) {
		return NEXT_EARLY;
	}
	s->snd_nxt = end;
	return NEXT_SEND;
}
