/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of a spliced client. */
#pragma once

#include "requests.h"
#include "timestamps.h"
#include "translate.h"
#include "window.h"

/*
 * Whether the packet's connection began after the session's, both being between the same ports: by the client's clock;
 * within a tick of that by its initial sequence numbers, which count up with time (RFC 6528).
 */
static __always_inline bool began_later(const struct splice *s, const struct packet *p)
{
	__u32 at = p->tsval + s->ts_to_server;

	if (s->flags & SPLICE_TS && has_ts(p) && at != s->ts_sent)
		return before(s->ts_sent, at);
	return before(s->snd_base, p->seq + s->to_server_seq);
}

/*
 * A packet that neither starts its session nor is the next one, while the client has not acknowledged a byte. A delayed
 * packet of an earlier connection may have started this session after the SYN of the current one.
 */
static __always_inline bool may_be_old_connection(const struct splice *s, const struct packet *p)
{
	__u32 seq = p->seq + s->to_server_seq;

	return p->len && s->flags & SPLICE_FIRST && s->rcv_acked == s->rcv_base && seq != s->snd_base &&
	       seq != s->snd_nxt && began_later(s, p);
}

/* Whether the packet probably starts a request. Checked without the lock; request_event decides. */
static __always_inline bool may_begin_request(const struct splice *s, const struct packet *p)
{
	return p->len && quiet(s) && p->seq + s->to_server_seq == s->snd_nxt && s->state == SPLICE_ACTIVE &&
	       !(p->flags & (SYN | RST)) && !(s->flags & (SPLICE_UPCALL | SPLICE_MOVING | SPLICE_SERVER_FIN));
}

/*
 * The packet starts a new connection on this session's port, which ends the session. False: the session is not this
 * client's.
 */
static __always_inline bool replaced_event(struct splice *s, const struct packet *p, __u32 now)
{
	if (!same_tuple(&s->client, &p->key) || !may_be_old_connection(s, p) || !is_joined(s))
		return false;
	enter(s, SPLICE_DEAD, now);
	return true;
}

/*
 * A challenge ACK: reports the session's state to a client that may have lost it (RFC 5961). Acknowledges only what the
 * surrogate has acknowledged.
 */
static __always_inline __u32 challenge(struct splice *s, const struct input *in, struct segment *reply)
{
	const struct packet *p = in->packet;
	__u32 has = heard(s, s->snd_una);

	answer(reply, p, ACK, s->rcv_nxt - s->to_server_ack, has - s->to_server_seq);
	reply->window = rescale(heard(s, s->snd_edge) - has, 0, s->flags & SPLICE_CLIENT_WSCALE ? OUR_WSCALE : 0);
	reply->tsval = s->ts_client; /* not the clock: the surrogate's may be slower (RFC 7323, 5) */
	reply->tsecr = p->tsval;
	reply->with_ts = !!(s->flags & SPLICE_TS);
	return may_challenge(s, in->now) ? NEXT_CHALLENGE : NEXT_OUTSIDE;
}

/* The client's FIN is the next in sequence. */
static __always_inline __u32 client_fin(struct splice *s, const struct packet *p, __u32 ack, bool fresh)
{
	if (p->len || !clean(s) || s->state != SPLICE_ACTIVE || ack != s->rcv_nxt) {
		pass_client_fin(s, s->snd_nxt);
		return NEXT_SEND;
	}
	note_idle_window(s, fresh);
	return NEXT_RECYCLE;
}

/* Bytes, an ACK, a FIN. */
static __always_inline __u32 client_segment(struct splice *s, const struct input *in, __u32 seq, __u32 ack, __u32 rest)
{
	const struct packet *p = in->packet;
	bool fresh, fin = p->flags & FIN;
	__u32 next = NEXT_SEND;

	if (p->len) {
		next = track_request(s, in, seq, ack, rest);
		if (next != NEXT_SEND)
			return next;
		s->bytes_to_server += p->len;
	}
	fresh = before(s->rcv_acked, ack);
	if (fresh)
		doubt_band(s, p, in->clock);
	if (fin && s->flags & SPLICE_UPCALL)
		return NEXT_UPCALL; /* behind bytes that user space holds */
	if (fin && before(s->snd_nxt, seq + p->len) && (quiet(s) || s->flags & SPLICE_HOLD))
		return NEXT_EARLY; /* a request is missing */
	note_sent_ts(s, p, in->clock);
	s->snd_ahead = later(s->snd_ahead, seq);
	note_ack(s, p);
	note_client_window(s, p, ack);
	note_rest(s, ack, fresh);
	if (fin && before(s->snd_nxt, seq + p->len)) {
		give_up(s); /* the surrogate keeps it until the gap before it is filled */
		pass_client_fin(s, seq + p->len);
	}
	if (fin && seq + p->len == s->snd_nxt && !(s->flags & SPLICE_CLIENT_FIN))
		next = client_fin(s, p, ack, fresh);
	return both_over(s) ? NEXT_OVER : next;
}

static __always_inline __u32 client_reset(const struct splice *s)
{
	return clean(s) && s->state == SPLICE_ACTIVE && s->rcv_acked == s->rcv_nxt ? NEXT_RECYCLE_RESET : NEXT_RESET;
}

/* The packet is valid: fills in what goes out and what remains of the session. */
static __always_inline void translate_and_finish(struct splice *s, const struct input *in, __u32 next,
						 struct translation *out, struct released_leg *released,
						 struct segment *reply)
{
	fill_to_server(s, in->packet, out);
	if (s->flags & SPLICE_NARROW)
		narrow(s, out);
	switch (next) {
	case NEXT_RECYCLE:
	case NEXT_RECYCLE_RESET:
		out->window = idle_window(s);
		if (next == NEXT_RECYCLE_RESET)
			note_idle_window(s, false);
		reply->tsval = later(s->ts_client, in->clock);
		release_leg(s, is_worn(s, in->limit), in->now, released);
		break;
	case NEXT_RESET:
	case NEXT_OVER:
		enter(s, SPLICE_DEAD, in->now);
		break;
	}
}

/* Whether the client's packet begins where the head begins that the insertion is in. */
static __always_inline bool begins_head(const struct splice *s, const struct packet *p)
{
	return s->ins_len && s->ins_head && p->len && p->seq + s->to_server_seq == head_start(s);
}

/*
 * Whether the client sends the segment again that the insertion goes in front of, or in. A head must be the same, so that a
 * surrogate that has got parts of both has put the one together; and the request must have the same end.
 */
static __always_inline bool repeats_insertion(const struct splice *s, const struct input *in, __u32 behind)
{
	if (s->ins_head)
		return begins_head(s, in->packet) && in->head == s->ins_head && in->sum == s->ins_sum &&
		       in->request == request_length(s);
	return s->ins_len && in->packet->len && behind == insertion_end(s) && before(behind, s->snd_nxt);
}

/* The client repeats a head that is another, or only a part of it, which nobody could complete: the session ends. */
static __always_inline __u32 refuse_other_head(struct splice *s, const struct input *in)
{
	if (!in->reread)
		return NEXT_RACE; /* another CPU has sent the head since this packet arrived */
	enter(s, SPLICE_DEAD, in->now);
	return NEXT_CUT;
}

/*
 * A packet from a client. Returns enum client_next.
 *
 * out: the translated packet, if it is forwarded. reply: for NEXT_CHALLENGE; for NEXT_RECYCLE only its timestamp.
 * released: for NEXT_RECYCLE and NEXT_RECYCLE_RESET.
 */
static __always_inline __u32 client_event(struct splice *s, const struct input *in, struct translation *out,
					  struct segment *reply, struct released_leg *released)
{
	const struct packet *p = in->packet;
	__u32 behind = p->seq + s->to_server_seq, ack = p->ack + s->to_server_ack;
	__u32 rest = in->now - s->seen, next, seq;
	bool again = repeats_insertion(s, in, behind);

	seq = again ? behind : client_seq(s, p, behind);
	if (!same_tuple(&s->client, &p->key) || !is_joined(s))
		return NEXT_STALE;
	if (s->flags & SPLICE_MOVING)
		return NEXT_RACE;
	if (!(p->flags & SYN) && ((!again && straddles(s, behind, p->len)) || !client_fits(s, p, seq, ack)))
		return begins_head(s, p) && client_fits(s, p, seq, ack) ? refuse_other_head(s, in) : NEXT_OUTSIDE;
	if (p->flags & SYN || (p->flags & RST && !client_resets(s, seq)))
		return challenge(s, in, reply);
	s->seen = in->now;
	next = p->flags & RST ? client_reset(s) : client_segment(s, in, seq, ack, rest);
	switch (next) {
	case NEXT_CUT:
	case NEXT_MALFORMED:
		enter(s, SPLICE_DEAD, in->now);
		return next;
	case NEXT_REQUEST:
	case NEXT_UPCALL:
	case NEXT_EARLY:
		return next;
	}
	translate_and_finish(s, in, next, out, released, reply);
	out->insert = again;
	return next;
}
