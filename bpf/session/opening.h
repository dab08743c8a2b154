/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Opening a leg, and retiring it before a client is joined. */
#pragma once

#include "state.h"
#include "timestamps.h"
#include "translate.h"
#include "window.h"

/* What to do with the response to our SYN. */
enum opening_next {
	OPENING_UP,       /* reply acknowledges the SYN-ACK */
	OPENING_ANSWERED, /* user space acknowledges it later */
	OPENING_REFUSED,
	OPENING_RESET, /* the surrogate still has a connection on these ports: reset it, then repeat our SYN */
	OPENING_STALE,
};

/* Records the SYN-ACK's sequence number, window and options. */
static __always_inline void note_syn_ack(struct splice *s, const struct packet *p, __u32 clock)
{
	s->rcv_nxt = s->rcv_acked = s->rcv_base = p->seq + 1;
	s->snd_una = s->snd_nxt;
	s->snd_edge = s->snd_nxt + p->window;
	s->rcv_edge = s->rcv_nxt + SYN_WINDOW;
	s->snd_span = s->rcv_span = LEAST_SPAN;
	s->server_mss = p->mss ?: (p->v6 ? MSS_DEFAULT_V6 : MSS_DEFAULT_V4);
	s->flags &= SPLICE_KEEP;
	if (has_ts(p) && s->leg_class & 1) {
		s->flags |= SPLICE_TS;
		s->ts_server = p->tsval;
		s->ts_echoed = s->ts_sent; /* in our SYN */
		s->ts_sent = later(s->ts_sent, clock);
	} else {
		s->leg_class &= ~1;
	}
	if (p->sack_ok)
		s->flags |= SPLICE_SERVER_SACK;
	if (p->wscale != NO_OPTION) {
		s->flags |= SPLICE_SERVER_WSCALE;
		s->server_shift = p->wscale;
	}
}

/* A packet from the surrogate of a leg in state OPENING. Returns enum opening_next. */
static __always_inline __u32 opening_event(struct splice *s, const struct input *in, struct segment *reply)
{
	const struct packet *p = in->packet;

	if (!same_tuple(&s->server, &p->key) || s->state != SPLICE_OPENING)
		return OPENING_STALE;
	if (!(p->flags & ACK) || p->ack != s->snd_nxt) /* RFC 9293, 3.10.7.3 */
		return p->flags & ACK ? OPENING_RESET : OPENING_STALE;
	if (!(p->flags & (RST | SYN)))
		return OPENING_STALE;
	s->seen = s->opened = in->now;
	if (p->flags & RST) {
		enter(s, SPLICE_DEAD, in->now);
		return OPENING_REFUSED;
	}
	note_syn_ack(s, p, in->clock);
	enter(s, s->late ? SPLICE_ANSWERED : SPLICE_IDLE, in->now);
	answer(reply, p, ACK, s->snd_nxt, s->rcv_nxt);
	reply->with_ts = !!(s->flags & SPLICE_TS);
	reply->tsval = s->ts_sent;
	reply->tsecr = p->tsval;
	reply->window = idle_window(s);
	return s->late ? OPENING_ANSWERED : OPENING_UP;
}

/* User space has acknowledged the SYN-ACK of an answered leg. False: the leg is in another state by now. */
static __always_inline bool complete_event(struct splice *s, __u32 surrogate, __u32 now, __u32 clock)
{
	if (s->state != SPLICE_ANSWERED || s->surrogate != surrogate)
		return false;
	if (now - s->since < s->late)
		s->late = now - s->since ?: 1; /* early, because a client is waiting */
	enter(s, SPLICE_IDLE, now);
	s->seen = s->opened = now;
	s->ts_sent = later(s->ts_sent, clock);
	return true;
}
