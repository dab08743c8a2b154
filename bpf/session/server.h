/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets from the surrogate of an established leg. */
#pragma once

#include "responses.h"
#include "timestamps.h"
#include "translate.h"
#include "window.h"

/* A leg whose SYN-ACK is not acknowledged yet: either the SYN-ACK again, or the surrogate has given up. */
static __always_inline __u32 on_answered(struct splice *s, const struct packet *p, __u32 now)
{
	if (!(p->flags & RST) || p->seq != s->rcv_nxt)
		return SERVER_NOTHING;
	enter(s, SPLICE_DEAD, now);
	return SERVER_REFUSED;
}

/* A leg without a client. */
static __always_inline __u32 on_idle(struct splice *s, const struct packet *p, __u32 now)
{
	if (p->flags & RST) {
		if (p->seq != s->rcv_nxt)
			return SERVER_NOTHING;
		enter(s, SPLICE_DEAD, now);
		return SERVER_IDLE_OVER;
	}
	if (p->flags & SYN || before(p->seq, s->rcv_nxt))
		return SERVER_ACK; /* our ACK was lost; a keepalive; old bytes */
	if (!p->len && !(p->flags & FIN))
		return SERVER_NOTHING;
	enter(s, SPLICE_DEAD, now); /* closed, or sent unsolicited bytes */
	return SERVER_IDLE_CLOSED;
}

/*
 * Whether the packet cannot belong to the response: the surrogate has closed without sending anything, or has sent
 * bytes before it acknowledged any of the request. Such bytes may also follow part of a response.
 */
static __always_inline __u32 before_answer(const struct splice *s, const struct packet *p)
{
	bool unsolicited = p->len && !(p->flags & RST) && !before(s->snd_base, p->ack);

	/* the client still holds its request; its cookie identifies it when it retransmits */
	if (s->rcv_nxt == s->rcv_base && s->client_requests == 1 && s->flags & SPLICE_FIRST &&
	    !before(s->snd_base, s->snd_una) && p->seq == s->rcv_base && (p->flags & (RST | FIN) || p->len) &&
	    !(s->flags & SPLICE_CLIENT_FIN))
		return SERVER_FAILED;
	return unsolicited ? SERVER_UNSOLICITED : SERVER_SEND;
}

/* The packet may belong to the response. */
static __always_inline __u32 server_segment(struct splice *s, const struct input *in)
{
	const struct packet *p = in->packet;
	__u32 next = before_answer(s, p);

	if (next != SERVER_SEND) {
		enter(s, SPLICE_DEAD, in->now);
		return next;
	}
	if (p->flags & RST && server_resets(s, p->seq)) { /* the client validates any other */
		enter(s, SPLICE_DEAD, in->now);
		return SERVER_OVER;
	}
	if (!(p->flags & RST) && p->len) {
		next = track_response(s, p, in->walk);
		if (next != SERVER_SEND)
			return next;
		s->bytes_to_client += p->len;
	}
	return track_server_fin(s, p, in->now) ? SERVER_CLOSED : SERVER_SEND;
}

/* Whether the surrogate's packet says nothing but that it lacks bytes of an insertion that the client cannot repeat. */
static __always_inline bool lacks_insertion(const struct splice *s, const struct packet *p)
{
	return s->ins_len && !s->ins_head && !p->len && !(p->flags & (SYN | FIN | RST)) &&
	       before(p->ack, insertion_end(s));
}

/* Prepares the insertion for the surrogate, which has sent p: it lacks it. */
static __always_inline void insert_again(struct splice *s, const struct packet *p, struct segment *reply)
{
	answer(reply, p, ACK | PSH, s->ins_at, s->rcv_acked);
	reply->window = s->window_sent;
	reply->with_ts = s->flags & SPLICE_TS && has_ts(p);
	reply->tsval = s->ts_sent;
	reply->tsecr = p->tsval;
}

/* A packet from the surrogate of a session. */
static __always_inline __u32 on_session(struct splice *s, const struct input *in, struct translation *out,
					struct segment *reply)
{
	const struct packet *p = in->packet;
	__u32 next;

	s->seen = in->now;
	if (p->flags & SYN || (p->len && before(p->seq, s->rcv_base)))
		return SERVER_ACK;
	if (s->flags & SPLICE_MOVING && (p->len || p->flags & (FIN | RST)))
		return SERVER_RACE; /* its retransmission will find the leg idle */
	note_server(s, p);
	if (p->len && before(p->seq, s->rcv_nxt) && s->band >= BAND_4MS)
		s->band = BAND_FAR; /* a retransmission: the surrogate's congestion window has shrunk */
	anchor(s, p, in->clock);
	next = server_segment(s, in);
	if (next == SERVER_SEND && lacks_insertion(s, p)) {
		insert_again(s, p, reply);
		return before(insertion_end(s), s->snd_nxt) ? SERVER_INSERT : SERVER_NOTHING;
	}
	if (next == SERVER_SEND || next == SERVER_OVER || next == SERVER_CLOSED)
		fill_to_client(s, p, out);
	return next;
}

/* Acknowledges on behalf of an idle leg or of the clients it has served: no more than they have received. */
static __always_inline void acknowledge(struct splice *s, const struct input *in, struct segment *reply)
{
	const struct packet *p = in->packet;
	bool idle = s->state == SPLICE_IDLE;

	if (idle)
		s->ts_sent =
			later(s->ts_sent,
			      in->clock); /* with a client, whose clock may be slower, the client's timestamp stays */
	answer(reply, p, ACK, s->snd_nxt, idle ? s->rcv_nxt : s->rcv_base);
	reply->window = idle ? idle_window(s) : s->window_sent;
	reply->with_ts = s->flags & SPLICE_TS && has_ts(p);
	reply->tsval = s->ts_sent;
	reply->tsecr = p->tsval;
}

/*
 * A packet from a surrogate after its handshake. Returns enum server_next.
 *
 * out: the translated packet, if it goes to the client. reply: for SERVER_ACK and SERVER_INSERT.
 */
static __always_inline __u32 server_event(struct splice *s, const struct input *in, struct translation *out,
					  struct segment *reply)
{
	const struct packet *p = in->packet;
	__u32 next = SERVER_RESET;

	if (!same_tuple(&s->server, &p->key))
		return SERVER_STALE;
	if ((s->state == SPLICE_IDLE || is_joined(s)) && !(p->flags & SYN) && !server_fits(s, p))
		return SERVER_OUTSIDE;
	switch (s->state) {
	case SPLICE_ANSWERED:
		return on_answered(s, p, in->now);
	case SPLICE_IDLE:
		note_server(s, p);
		next = on_idle(s, p, in->now);
		break;
	case SPLICE_ACTIVE:
	case SPLICE_CLOSING:
		next = on_session(s, in, out, reply);
		break;
	}
	if (next == SERVER_ACK)
		acknowledge(s, in, reply);
	return next;
}
