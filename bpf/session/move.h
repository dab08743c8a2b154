/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The next request of a client that has a leg: it stays there, or leaves it for another. */
#pragma once

#include "join.h"

/* What becomes of a request of a client that has a leg. */
enum request_next {
	REQUEST_STAYS,
	REQUEST_MOVES, /* the leg waits for leave_event */
	REQUEST_RACE,
	REQUEST_EARLY, /* it cannot move yet, and is not this surrogate's */
};

/*
 * The next request of a session. here: its decision is for this leg's pool or surrogate. Where it may not move before all is acknowledged,
 * it stays, but for a client that is held to one request at a time.
 */
static __always_inline __u32 request_event(struct splice *s, const struct input *in, const struct decision *d,
					   bool here, struct translation *out)
{
	const struct packet *p = in->packet;
	__u32 ack = p->ack + s->to_server_ack;
	bool behind = ack != s->rcv_nxt || s->snd_una != s->snd_nxt;

	if (!same_tuple(&s->client, &p->key) || !quiet(s) || p->seq + s->to_server_seq != s->snd_nxt ||
	    s->state != SPLICE_ACTIVE || s->flags & SPLICE_MOVING)
		return REQUEST_RACE;
	if (!here && behind && s->flags & SPLICE_HOLD)
		return REQUEST_EARLY;
	s->seen = in->now;
	if (!here && !behind) {
		s->flags |= SPLICE_MOVING;
		return REQUEST_MOVES;
	}
	s->flags &= ~SPLICE_UPCALL;
	note_ack(s, p);
	note_client_window(s, p, ack);
	note_sent_ts(s, p, in->clock);
	send_first(s, in, d);
	fill_to_server(s, p, out);
	return REQUEST_STAYS;
}

/* The client could not move: an upcall decides, or the client sends again. */
static __always_inline void stay_event(struct splice *s, bool upcall)
{
	s->flags &= ~SPLICE_MOVING;
	if (upcall)
		s->flags |= SPLICE_UPCALL;
}

/* The last ACK that a leg's surrogate is owed by a client that leaves, or it repeats what the client has, and takes its path for congested. */
static __always_inline void last_ack(struct splice *s, struct segment *reply)
{
	s->rcv_acked = s->rcv_nxt;
	copy_addr(reply->src, s->server.dst);
	copy_addr(reply->dst, s->server.src);
	reply->sport = s->server.dport;
	reply->dport = s->server.sport;
	reply->flags = ACK;
	reply->seq = s->snd_nxt;
	reply->ack = s->rcv_nxt;
	reply->with_ts = !!(s->flags & SPLICE_TS);
	reply->tsval = s->ts_sent;
	reply->tsecr = s->ts_server;
	reply->window = idle_window(s);
	reply->with_sack = 0;
	reply->wscale = NO_SCALE;
	reply->mss = 0;
	__builtin_memcpy(reply->dmac, s->to_server.dmac, 6);
	__builtin_memcpy(reply->smac, s->to_server.smac, 6);
}

enum leave_next {
	LEAVE_NOT,    /* the leg is not the client's any more */
	LEAVE_CLOSED, /* the surrogate closes it */
	LEAVE_LEFT,
};

/*
 * The client at hand has moved elsewhere: its leg is idle again, or dead. What the surrogate said meanwhile is nobody's. owed: reply
 * tells the surrogate what the client acknowledged with its request. Returns enum leave_next.
 */
static __always_inline __u32 leave_event(struct splice *s, const struct input *in, bool *owed, struct segment *reply,
					 struct left *left)
{
	bool closes = s->flags & SPLICE_NO_REUSE, worn;

	if (!same_tuple(&s->client, &in->packet->key) || s->state != SPLICE_ACTIVE)
		return LEAVE_NOT;
	s->flags &= ~(SPLICE_UPCALL | SPLICE_MOVING);
	worn = is_worn(s, in->limit) || s->flags & SPLICE_SPOILT || !is_between(s);
	*owed = *owed && s->rcv_acked != s->rcv_nxt;
	if (s->rcv_acked != s->rcv_nxt)
		last_ack(s, reply);
	reply->v6 = in->packet->v6;
	if (!*owed || !s->to_server.checked)
		s->flags |= SPLICE_WIDE;
	s->seen = in->now;
	part(s, closes || worn, in->now, left);
	return closes ? LEAVE_CLOSED : LEAVE_LEFT;
}
