/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tracks a surrogate's response. */
#pragma once

#include "framing.h"
#include "state.h"

/* What to do with a surrogate's packet. */
enum server_next {
	SERVER_SEND,
	SERVER_ACK,
	SERVER_RESET,
	SERVER_NOTHING,
	SERVER_GAP,
	SERVER_RACE,        /* the client is leaving */
	SERVER_OVER,        /* reset by the surrogate */
	SERVER_CLOSED,      /* both ends have sent FIN */
	SERVER_FAILED,      /* closed or reset before the first byte of the response */
	SERVER_UNSOLICITED, /* sent a response before it had this client's request */
	SERVER_REFUSED,     /* reset before our ACK of its SYN-ACK */
	SERVER_IDLE_OVER,   /* an idle leg was reset */
	SERVER_IDLE_CLOSED,
	SERVER_INSERT,  /* it lacks our own bytes before the client's */
	SERVER_OUTSIDE, /* outside the session's windows */
	SERVER_STALE,   /* the leg no longer has this tuple */
};

/* Updates the response's state after a walk over its new bytes. */
static __always_inline void follow_response(struct splice *s, const struct walk *k)
{
	switch (k->framing) {
	case FRAMING_HEAD:
	case FRAMING_PART:
		s->response = k->framing;
		break;
	case FRAMING_DONE:
		begin_response(s, &k->head, k->body);
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

/* Tracks the bytes of a response. */
static __always_inline __u32 track_response(struct splice *s, const struct packet *p, const struct walk *k)
{
	__u32 end = p->seq + p->len;

	if (!before(s->rcv_nxt, end))
		return SERVER_SEND; /* retransmission */
	switch (s->response) {
	case FRAMING_BODY:
		more_response(s, end - s->rcv_nxt);
		break;
	case FRAMING_HEAD:
	case FRAMING_PART:
	case FRAMING_CHUNKED:
		if (k->at == s->rcv_nxt && k->from == s->response && !k->hidden) {
			follow_response(s, k);
		} else if (s->flags & SPLICE_ROUTED && !(p->flags & FIN)) {
			return SERVER_GAP; /* or another CPU changed the state */
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

/* Tracks the FIN behind the bytes. True: the session is over and the splice dead. */
static __always_inline bool track_server_fin(struct splice *s, const struct packet *p, __u32 now)
{
	if (p->flags & FIN && !before(p->seq + p->len, s->rcv_nxt) && !(s->flags & SPLICE_SERVER_FIN)) {
		if (p->seq + p->len != s->rcv_nxt) /* the client keeps the FIN until the gap before it is filled */
			give_up(s);
		s->flags |= SPLICE_SERVER_FIN;
		s->rcv_nxt = p->seq + p->len + 1;
		s->state = SPLICE_CLOSING;
	}
	if (!both_over(s))
		return false;
	enter(s, SPLICE_DEAD, now);
	return true;
}
