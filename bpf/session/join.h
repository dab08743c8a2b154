/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Joins a client to a leg at the start of a request. */
#pragma once

#include "framing.h"
#include "state.h"
#include "timestamps.h"
#include "translate.h"
#include "window.h"

/* Sets the leg's band. The surrogate's RTT estimate is at most as long as its SYN-ACK was left unacknowledged. */
static __always_inline void join_band(struct splice *s, __u8 band)
{
	s->client_band = band;
	if (s->band != BAND_NONE)
		return;
	/* unknown client: it may be near */
	s->band = band == BAND_NONE ? BAND_NEAREST : band;
	if (s->late && s->late < shortest_of(s->band))
		s->band = BAND_FAR;
}

/* Opens an insertion at the client's byte seq, which is the next. */
static __always_inline void open_insertion(struct splice *s, const struct insertion *i, __u32 seq)
{
	s->ins_at = s->snd_nxt;
	s->ins_len = i->len;
	s->ins_head = i->head;
	s->header = i->header;
	s->ins_sum = i->sum;
	s->snd_nxt += i->len;
	s->to_server_seq = s->snd_nxt - seq;
}

/*
 * Sets the offsets (paper, equations 1 to 4, and those of timestamps) and the sequence numbers from which on this
 * client owns the leg.
 */
static __always_inline void join_numbers(struct splice *s, const struct input *in, const struct joining *j)
{
	const struct packet *p = in->packet;
	__u32 window = client_window(s, p);

	open_insertion(s, &j->insertion, p->seq);
	s->to_server_ack = s->rcv_nxt - p->ack;
	s->rcv_base = s->rcv_acked = s->rcv_nxt;
	s->snd_base = s->snd_ahead = s->snd_nxt;
	s->ts_to_server = later(in->clock, s->ts_sent) - p->tsval;
	note_sent_ts(s, p, in->clock);
	s->ts_client = j->ts_client;
	s->rcv_edge = later(s->rcv_edge, s->rcv_nxt + window);
	if (window > s->rcv_span)
		s->rcv_span = window;
}

/* Accounts for the request's first bytes, which go to the surrogate. */
static __always_inline void send_first(struct splice *s, const struct input *in, const struct decision *d)
{
	const struct packet *p = in->packet;

	begin_request(s, d, in->walk, p->len);
	s->flags &= ~SPLICE_NARROW;
	s->snd_nxt += p->len;
	s->bytes_to_server += p->len;
	if (p->flags & FIN)
		pass_client_fin(s, s->snd_nxt);
}

/*
 * Joins the current client to an idle leg of this surrogate and class. False: the leg is no longer idle, or was
 * reassigned.
 */
static __always_inline bool join_event(struct splice *s, const struct input *in, const struct decision *d,
				       const struct joining *j, __u32 surrogate, __u32 leg_class,
				       struct translation *out, struct joined *joined)
{
	if (s->state != SPLICE_IDLE || s->surrogate != surrogate || s->leg_class != leg_class ||
	    !may_serve(s, &in->packet->key))
		return false;
	joined->leg_band = s->band;
	joined->widen = s->flags & SPLICE_WIDE;
	enter(s, SPLICE_ACTIVE, in->now);
	s->seen = in->now;
	s->client = in->packet->key;
	join_band(s, j->band);
	s->client_shift = j->shift;
	s->flags &= SPLICE_TS | SPLICE_SERVER_SACK | SPLICE_SERVER_WSCALE | SPLICE_KEEP;
	s->flags |= SPLICE_ANCHOR | j->flags;
	if (s->flags & SPLICE_KEEP)
		s->flags |= SPLICE_SPOILT;
	s->challenged = 0;
	join_numbers(s, in, j);
	s->client_requests = 0;
	s->pool = d->pool;
	s->bytes_to_server = s->bytes_to_client = 0;
	if (j->insertion.len && !j->insertion.head)
		begin_request(s, d, in->walk, 0); /* its bytes follow, in a packet that is received again */
	else
		send_first(s, in, d);
	s->to_client.ifindex = j->ifindex;
	s->to_client.checked = 0;
	fill_to_server(s, in->packet, out);
	joined->widen |= out->window < idle_window(s);
	joined->behind = s->snd_nxt;
	return true;
}
