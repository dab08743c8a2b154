/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The next request of a spliced client: it stays on its leg or moves to another. */
#pragma once

#include "join.h"

/* What to do with the next request of a spliced client. */
enum request_next {
	REQUEST_STAYS,
	REQUEST_MOVES, /* leave_event releases the leg */
	REQUEST_RACE,
	REQUEST_EARLY, /* it cannot move yet and must not go to this surrogate */
};

/* The packet begins the session's next request. */
static __always_inline bool begins_next(const struct splice *s, const struct packet *p)
{
	return same_tuple(&s->client, &p->key) && quiet(s) && p->seq + s->to_server_seq == s->snd_nxt &&
	       s->state == SPLICE_ACTIVE && !(s->flags & SPLICE_MOVING);
}

/* User space decides the next request. False: another CPU has sent it. */
static __always_inline bool ask_event(struct splice *s, const struct packet *p)
{
	if (!begins_next(s, p))
		return false;
	s->flags |= SPLICE_UPCALL;
	return true;
}

/* Nobody decides: the upcall has expired, or there was no room for it. */
static __always_inline void unask_event(struct splice *s, const struct packet *p)
{
	if (same_tuple(&s->client, &p->key))
		s->flags &= ~SPLICE_UPCALL;
}

/*
 * The next request of a session. here: it is routed to this leg's pool or surrogate. A request that cannot move yet
 * because bytes are unacknowledged stays, unless the client is limited to one request at a time. One insertion is open
 * at a time.
 */
static __always_inline __u32 request_event(struct splice *s, const struct input *in, const struct decision *d,
					   const struct insertion *insertion, bool here, struct translation *out)
{
	const struct packet *p = in->packet;
	__u32 ack = p->ack + s->to_server_ack;
	bool behind = ack != s->rcv_nxt || s->snd_una != s->snd_nxt;

	if (!begins_next(s, p))
		return REQUEST_RACE;
	if ((!here && behind && s->flags & SPLICE_HOLD) || (insertion->len && s->ins_len))
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
	if (insertion->len)
		open_insertion(s, insertion, p->seq);
	send_first(s, in, d);
	fill_to_server(s, p, out);
	return REQUEST_STAYS;
}

/* The client could not move: user space decides (upcall), or the client retransmits. */
static __always_inline void stay_event(struct splice *s, bool upcall)
{
	s->flags &= ~SPLICE_MOVING;
	if (upcall)
		s->flags |= SPLICE_UPCALL;
}

/*
 * The final ACK for the surrogate of a client that leaves. Without it the surrogate would retransmit what the client
 * has and assume congestion.
 */
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
	LEAVE_NOT,    /* the leg no longer belongs to the client */
	LEAVE_CLOSED, /* the surrogate will close it */
	LEAVE_LEFT,
};

/*
 * The current client has moved: its leg becomes idle or dead; bytes that the surrogate has sent since belong to nobody.
 * owed: whether reply acknowledges to the surrogate what the client acknowledged with its request. Returns enum
 * leave_next.
 */
static __always_inline __u32 leave_event(struct splice *s, const struct input *in, bool *owed, struct segment *reply,
					 struct released_leg *released)
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
	note_idle_window(s, *owed && s->to_server.checked);
	s->seen = in->now;
	release_leg(s, closes || worn, in->now, released);
	return closes ? LEAVE_CLOSED : LEAVE_LEFT;
}
