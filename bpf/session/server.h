/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A packet of the surrogate, on a leg that is established or in a session. */
#pragma once

#include "responses.h"
#include "timestamps.h"
#include "translate.h"
#include "window.h"

/*
 * A leg whose SYN-ACK user space has not acknowledged yet: the SYN-ACK again, which has its answer
 * soon, or the surrogate has given the leg up.
 */
static __always_inline __u32 on_answered(struct splice *s, const struct packet *p, __u32 now)
{
	if (!(p->flags & RST) || p->seq != s->rcv_nxt)
		return SERVER_NOTHING;
	enter(s, SPLICE_DEAD, now);
	return SERVER_REFUSED;
}

/* A leg that no client is joined to. */
static __always_inline __u32 on_idle(struct splice *s, const struct packet *p, __u32 now)
{
	if (p->flags & RST) {
		if (p->seq != s->rcv_nxt)
			return SERVER_NOTHING;
		enter(s, SPLICE_DEAD, now);
		return SERVER_IDLE_OVER;
	}
	if (p->flags & SYN || before(p->seq, s->rcv_nxt))
		return SERVER_ACK; /* our ACK was lost; keepalive; old bytes */
	if (!p->len && !(p->flags & FIN))
		return SERVER_NOTHING;
	enter(s, SPLICE_DEAD, now); /* closed, or unsolicited bytes */
	return SERVER_IDLE_CLOSED;
}

/*
 * The packet does not answer the request: the surrogate has closed before it said anything, or said something before
 * it took a byte of the request, which may come behind a part of the response.
 */
static __always_inline __u32 before_answer(const struct splice *s, const struct packet *p)
{
	bool unsolicited = p->len && !(p->flags & RST) && !before(s->snd_base, p->ack);

	/* the client still holds its request, and is known by its cookie when it repeats it */
	if (s->rcv_nxt == s->rcv_base && s->client_requests == 1 && s->flags & SPLICE_FIRST &&
	    s->snd_una == s->snd_base && p->seq == s->rcv_base && (p->flags & (RST | FIN) || p->len) &&
	    !(s->flags & SPLICE_CLIENT_FIN))
		return SERVER_FAILED;
	return unsolicited ? SERVER_UNSOLICITED : SERVER_SEND;
}

/* The packet may be of the response. */
static __always_inline __u32 server_segment(struct splice *s, const struct input *in)
{
	const struct packet *p = in->packet;
	__u32 next = before_answer(s, p);

	if (next != SERVER_SEND) {
		enter(s, SPLICE_DEAD, in->now);
		return next;
	}
	if (p->flags & RST && server_resets(s, p->seq)) { /* any other, the client judges */
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

/* A session's surrogate. */
static __always_inline __u32 on_session(struct splice *s, const struct input *in, struct translation *out)
{
	const struct packet *p = in->packet;
	__u32 next;

	s->seen = in->now;
	if (p->flags & SYN || (p->len && before(p->seq, s->rcv_base)))
		return SERVER_ACK;
	if (s->flags & SPLICE_MOVING && (p->len || p->flags & (FIN | RST)))
		return SERVER_RACE; /* repeated, it finds the leg idle */
	note_server(s, p);
	if (p->len && before(p->seq, s->rcv_nxt) && s->band >= BAND_4MS)
		s->band = BAND_FAR; /* repeated: the surrogate's window has shrunk for it */
	anchor(s, p, in->clock);
	next = server_segment(s, in);
	if (next == SERVER_SEND || next == SERVER_OVER || next == SERVER_CLOSED)
		fill_to_client(s, p, out);
	return next;
}

/* The answer on behalf of an idle leg, or of the clients that a session has had: no more is acknowledged than they have. */
static __always_inline void acknowledge(struct splice *s, const struct input *in, struct segment *reply)
{
	const struct packet *p = in->packet;
	bool idle = s->state == SPLICE_IDLE;

	if (idle)
		s->ts_sent = later(s->ts_sent, in->clock); /* with a client, whose clock may be slower, its own */
	answer(reply, p, ACK, s->snd_nxt, idle ? s->rcv_nxt : s->rcv_base);
	reply->window = idle ? idle_window(s) : s->window_sent;
	reply->with_ts = s->flags & SPLICE_TS && has_ts(p);
	reply->tsval = s->ts_sent;
	reply->tsecr = p->tsval;
}

/*
 * A packet of a surrogate, behind its handshake. Returns enum server_next. out: what it becomes, if it goes on to the client. reply: of
 * SERVER_ACK.
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
		next = on_session(s, in, out);
		break;
	}
	if (next == SERVER_ACK)
		acknowledge(s, in, reply);
	return next;
}
