/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A request begins: its client is joined to a leg, stays on the one that it has, or leaves that for another. */
#pragma once

#include "requests.h"

/* A client and its decided request, for a leg. */
struct joining {
	const struct decision *decision;
	__u32 ts_client; /* the newest timestamp told to the client */
	__u32 ifindex;   /* that it comes in by */
	__u32 flags;     /* enum splice_flag, that the session begins with */
	__u8 band;       /* enum band */
	__u8 shift;      /* of its window */
};

/* Of a session that has begun. */
struct joined {
	__u32 leg_band; /* before its client */
	__u32 behind;   /* sequence number behind the request */
	bool widen;     /* the surrogate is to be told the client's window once more */
};

/* The leg's surrogate has measured no more than it has been kept waiting. */
static __always_inline void join_band(struct splice *s, __u8 band)
{
	s->client_band = band;
	if (s->band != BAND_NONE)
		return;
	/* of a client that nothing is known of: it may be near */
	s->band = band == BAND_NONE ? BAND_NEAREST : band;
	if (s->late && s->late < shortest_of(s->band))
		s->band = BAND_FAR;
}

/* The offsets (paper, equations 1 to 4; and of the clocks), and from where on the numbers are this client's. */
static __always_inline void join_numbers(struct splice *s, const struct input *in, __u32 ts_client)
{
	const struct packet *p = in->packet;
	__u32 window = client_window(s, p);

	s->to_server_seq = s->snd_nxt - p->seq;
	s->to_server_ack = s->rcv_nxt - p->ack;
	s->rcv_base = s->rcv_acked = s->rcv_nxt;
	s->snd_base = s->snd_ahead = s->snd_nxt;
	s->ts_to_server = later(in->clock, s->ts_told) - p->tsval;
	note_told(s, p, in->clock);
	s->ts_client = ts_client;
	s->rcv_edge = later(s->rcv_edge, s->rcv_nxt + window);
	if (window > s->rcv_span)
		s->rcv_span = window;
}

/* The request's first bytes go to the surrogate. */
static __always_inline void send_first(struct splice *s, const struct input *in, const struct decision *d)
{
	const struct packet *p = in->packet;

	begin_request(s, d, in->walk, p->len);
	s->snd_nxt += p->len;
	s->bytes_to_server += p->len;
	if (p->flags & FIN)
		pass_client_fin(s, s->snd_nxt);
}

/* Joins the client whose request is at hand to an idle leg of the surrogate and class. False: it is not idle any more, or another's. */
static __always_inline bool join_event(struct splice *s, const struct input *in, const struct joining *j,
				       __u32 surrogate, __u32 leg_class, struct translation *out, struct joined *joined)
{
	if (s->state != SPLICE_IDLE || s->surrogate != surrogate || s->leg_class != leg_class)
		return false;
	joined->leg_band = s->band;
	joined->widen = s->flags & SPLICE_WIDE;
	enter(s, SPLICE_ACTIVE, in->now);
	s->seen = in->now;
	s->client = in->packet->key;
	join_band(s, j->band);
	s->client_shift = j->shift;
	s->flags &= SPLICE_TS | SPLICE_SERVER_SACK | SPLICE_SERVER_WSCALE;
	s->flags |= SPLICE_ANCHOR | j->flags;
	s->challenged = 0;
	join_numbers(s, in, j->ts_client);
	s->client_requests = 0;
	s->pool = j->decision->pool;
	s->bytes_to_server = s->bytes_to_client = 0;
	send_first(s, in, j->decision);
	s->to_client.ifindex = j->ifindex;
	s->to_client.checked = 0;
	fill_to_server(s, in->packet, out);
	joined->widen |= out->window < idle_window(s);
	joined->behind = s->snd_nxt;
	return true;
}

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
	s->flags &= ~SPLICE_ASKED;
	note_ack(s, p);
	note_client_window(s, p, ack);
	note_told(s, p, in->clock);
	send_first(s, in, d);
	fill_to_server(s, p, out);
	return REQUEST_STAYS;
}

/* The client could not move: user space is asked, or the client comes again. */
static __always_inline void stay_event(struct splice *s, bool asked)
{
	s->flags &= ~SPLICE_MOVING;
	if (asked)
		s->flags |= SPLICE_ASKED;
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
	reply->tsval = s->ts_told;
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
	s->flags &= ~(SPLICE_ASKED | SPLICE_MOVING);
	worn = is_worn(s, in->limit) || s->flags & SPLICE_SPOILT || !is_between(s);
	*owed = *owed && s->rcv_acked != s->rcv_nxt;
	if (s->rcv_acked != s->rcv_nxt)
		last_ack(s, reply);
	if (!*owed || !s->to_server.checked)
		s->flags |= SPLICE_WIDE;
	s->seen = in->now;
	part(s, closes || worn, in->now, left);
	return closes ? LEAVE_CLOSED : LEAVE_LEFT;
}
