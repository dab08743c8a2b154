/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets of spliced clients. */
#pragma once

#include "newclient.h"

/*
 * The client ended cleanly. Answers its FIN, acknowledges the response to the surrogate on the client's behalf, and leaves
 * the leg to the next. w->out is the FIN translated, w->reply is filled.
 */
static __always_inline int end_client(struct __sk_buff *skb, struct work *w)
{
	int err = write_reply(skb);

	if (err)
		return -err;
	bpf_clone_redirect(skb, skb->ifindex, 0);
	ack_like_out(w)->seq = w->out.seq;
	err = write_reply(skb);
	if (err)
		return -err;
	leave(skb, w);
	return RECYCLED;
}

enum client_next {
	NEXT_SEND,
	NEXT_REQUEST,
	NEXT_RECYCLE,
	NEXT_RESET,
	NEXT_RECYCLE_RESET,
	NEXT_CHALLENGE,
	NEXT_OVER,
	NEXT_ASK,
	NEXT_EARLY,
	NEXT_OUTSIDE, /* of the session's windows */
	NEXT_CUT,     /* what comes cannot be told apart */
	NEXT_MALFORMED,
};

/* Under the lock: what the surrogate is about to learn that the client has. */
static __always_inline void note_ack(struct splice *s, const struct packet *p)
{
	__u32 ack = p->ack + s->to_server_ack;

	if (p->flags & ACK && before(s->rcv_acked, ack) && !before(s->rcv_nxt, ack))
		s->rcv_acked = ack;
}

/* What our clock and the surrogate's may be off by, in ms, beside each other. */
#define CLOCK_ERROR 8

/*
 * Under the lock: an ACK of the client. Its handshake may have taken longer than its path is long: then the leg's surrogate has
 * measured less than the leg's band says.
 */
static __always_inline void doubt_band(struct splice *s, const struct packet *p, __u32 clock)
{
	if (s->flags & SPLICE_TS && !(s->flags & SPLICE_ANCHOR) && p->ts_at != 0xff &&
	    before(clock - p->tsecr + CLOCK_ERROR, shortest_of(s->band)))
		s->band = BAND_FAR;
}

/*
 * Under the lock: the session as it stands, told to a client that may have forgotten it (RFC 5961). What the surrogate has not
 * acknowledged, nor is here.
 */
static __always_inline void fill_challenge(struct work *w, struct splice *s)
{
	struct segment *r = answer(w, ACK, s->rcv_nxt - s->to_server_ack, s->snd_una - s->to_server_seq);

	r->window = rescale(s->snd_edge - s->snd_una, 0, s->flags & SPLICE_CLIENT_WSCALE ? TOLD_WSCALE : 0);
	r->tsval = s->ts_client; /* not the clock: the surrogate's may be slower (RFC 7323, 5) */
	r->tsecr = w->packet.tsval;
	r->with_ts = !!(s->flags & SPLICE_TS);
}

#define HELD_MS 1000 /* nothing has moved for so long: nothing will end the wait */

/*
 * Under the lock: new bytes of a client whose requests are held. What is not of the request in front waits; if the response is none
 * that can be followed, all of it so far is acknowledged, and nothing moves any more, the session ends. rest: ms before.
 */
static __always_inline __u32 hold_request(struct splice *s, const struct work *w, __u32 ack, __u32 rest)
{
	const struct walk *k = &w->walk;
	bool behind = behind_request(s, w), heard = ack == s->rcv_nxt;

	if (s->flags & SPLICE_SERVER_FIN && (behind || quiet(s))) /* nobody will answer */
		return heard ? NEXT_CUT : NEXT_EARLY;
	if (walked(s->request) && k->at == s->snd_nxt && k->bad)
		return k->bad == CHUNKS_LONG ? NEXT_EARLY : NEXT_MALFORMED;
	if (!behind)
		return NEXT_SEND;
	return s->response == FRAMING_OPAQUE && heard && rest > HELD_MS ? NEXT_CUT : NEXT_EARLY;
}

/* Under the lock: new bytes from the client. */
static __always_inline __u32 track_request(struct splice *s, const struct work *w, __u32 seq, __u32 ack, __u32 rest)
{
	const struct walk *k = &w->walk;
	__u32 end = seq + w->packet.len, next;

	/* the surrogate may have discarded the first version, and the second may say something else */
	if (before(seq, s->snd_nxt) && before(s->snd_una, end))
		s->flags |= SPLICE_SPOILT;
	if (!before(s->snd_nxt, end))
		return NEXT_SEND; /* seen before */
	if (s->flags & SPLICE_SERVER_FIN && !(s->flags & SPLICE_HOLD)) {
		/* nothing left to decide: the surrogate refuses it */
		give_up(s);
		s->flags &= ~SPLICE_ASKED;
	}
	if (s->flags & SPLICE_ASKED && seq != s->snd_nxt)
		return NEXT_ASK; /* behind bytes that user space holds */
	if (quiet(s) && seq == s->snd_nxt && !(s->flags & SPLICE_SERVER_FIN))
		return NEXT_REQUEST;
	if (s->flags & SPLICE_HOLD) {
		next = hold_request(s, w, ack, rest);
		if (next != NEXT_SEND)
			return next;
	}
	if (quiet(s)) {
		if (before(s->snd_nxt, seq))
			return NEXT_EARLY; /* the start of a request is missing */
		give_up(s);
	} else if (walked(s->request)) {
		if (k->at == s->snd_nxt && k->from == s->request && !k->hidden) {
			after_walk(s, k);
		} else if (s->flags & SPLICE_ROUTED) {
			return NEXT_EARLY; /* or another CPU was here meanwhile */
		} else {
			give_up(s);
		}
	} else if (s->request != FRAMING_OPAQUE) {
		more_request(s, end - s->snd_nxt);
	}
	s->snd_nxt = end;
	return NEXT_SEND;
}

/*
 * A packet that neither begins its session nor is the next, while the client has not acknowledged a byte: the session may
 * be one that a late packet of an earlier connection began, after the SYN of the one that is there now.
 */
static __always_inline bool strange(const struct splice *s, const struct packet *p)
{
	__u32 seq = p->seq + s->to_server_seq;

	return p->len && s->flags & SPLICE_FIRST && s->rcv_acked == s->rcv_base && seq != s->snd_base &&
	       seq != s->snd_nxt;
}

/* The packet begins a connection: the session that is in its way ends. The client repeats the packet. */
static __always_inline int replace_session(struct work *w, __u32 idx, struct splice *s, __u32 now)
{
	bool over;

	bpf_spin_lock(&s->lock);
	over = same_tuple(&s->client, &w->packet.key) && strange(s, &w->packet) &&
	       (s->state == SPLICE_ACTIVE || s->state == SPLICE_CLOSING);
	if (over) {
		s->state = SPLICE_DEAD;
		s->since = now;
	}
	bpf_spin_unlock(&s->lock);
	if (over)
		bury(idx, s, LEG_REPLACED, now);
	return DROP_RACE;
}

/* Of client_packet, in place of a verdict: the packet begins a request, and next_request is next. Not a call within: stacks add up. */
#define BEGINS_REQUEST VERDICTS

__noinline int client_packet(struct __sk_buff *skb, __u32 idx)
{
	struct work *w = work();
	struct config *set = config();
	struct splice *s = splice_at(idx);
	__u32 now = clock_ms(), next = NEXT_SEND, seq, ack, surrogate = 0, leg_class = 0, band = 0, clock, limit, rest;
	bool worn = false, fresh;
	struct packet *p;

	if (!w || !s || !set)
		return DROP_NO_ROOM;
	p = &w->packet;
	clock = now + set->ts_offset;
	limit = p->flags & (FIN | RST) ? limit_of(s->surrogate) : 0;
	if (p->ttl <= 1)
		return DROP_TTL;
	if (!p->plain && parse_options(skb) < 0)
		return DROP_BAD_OPTIONS;
	if (!(p->flags & (SYN | RST | ACK)))
		return DROP_BAD_FLAGS;
	if ((p->flags & (SYN | FIN | RST) || (p->len && walked(s->request))) && !checksum_ok(skb))
		return DROP_BAD_CHECKSUM;
	if (p->len && walked(s->request))
		walk_request(skb, idx);
	if (strange(s, p) && cookie_ok(w, p->seq))
		return checksum_ok(skb) ? replace_session(w, idx, s, now) : DROP_BAD_CHECKSUM;

	/* most requests: next_request sees under the lock whether it is one */
	if (p->len && quiet(s) && p->seq + s->to_server_seq == s->snd_nxt && s->state == SPLICE_ACTIVE &&
	    !(p->flags & (SYN | RST)) && !(s->flags & (SPLICE_ASKED | SPLICE_MOVING | SPLICE_SERVER_FIN)))
		return BEGINS_REQUEST;
	if (s->flags & SPLICE_HOLD && p->len && !(s->flags & SPLICE_ASKED)) {
		int verdict = hold_more(skb, w, s);

		if (verdict)
			return verdict;
	}

	bpf_spin_lock(&s->lock);
	if (!same_tuple(&s->client, &p->key) || (s->state != SPLICE_ACTIVE && s->state != SPLICE_CLOSING)) {
		bpf_spin_unlock(&s->lock);
		return DROP_STALE; /* it has moved, or is being ended: a SYN finds out when it is repeated */
	}
	if (s->flags & SPLICE_MOVING) {
		bpf_spin_unlock(&s->lock);
		return DROP_RACE;
	}
	seq = p->seq + s->to_server_seq;
	ack = p->ack + s->to_server_ack;
	if (!(p->flags & SYN) && !client_fits(s, p, seq, ack)) {
		next = NEXT_OUTSIDE;
		goto unlock;
	}
	if (p->flags & SYN || (p->flags & RST && !client_resets(s, seq))) {
		next = may_challenge(s, now) ? NEXT_CHALLENGE : NEXT_OUTSIDE;
		fill_challenge(w, s);
		goto unlock;
	}
	rest = now - s->seen;
	s->seen = now;
	if (p->flags & RST) {
		next = clean(s) && s->state == SPLICE_ACTIVE && s->rcv_acked == s->rcv_nxt ? NEXT_RECYCLE_RESET
											   : NEXT_RESET;
	} else {
		if (p->len) {
			next = track_request(s, w, seq, ack, rest);
			if (next == NEXT_CUT || next == NEXT_MALFORMED) {
				s->state = SPLICE_DEAD;
				s->since = now;
			}
			if (next != NEXT_SEND)
				goto unlock;
			s->bytes_to_server += p->len;
		}
		fresh = before(s->rcv_acked, ack);
		if (fresh && s->band >= BAND_4MS)
			doubt_band(s, p, clock);
		if (p->flags & FIN && s->flags & SPLICE_ASKED) {
			next = NEXT_ASK; /* behind bytes that user space holds */
			goto unlock;
		}
		if (p->flags & FIN && before(s->snd_nxt, seq + p->len) && (quiet(s) || s->flags & SPLICE_HOLD)) {
			next = NEXT_EARLY; /* a request is missing */
			goto unlock;
		}
		note_told(s, p, clock);
		s->snd_ahead = later(s->snd_ahead, seq);
		note_ack(s, p);
		note_client_window(s, p, ack);
		if (p->flags & FIN && before(s->snd_nxt, seq + p->len)) {
			give_up(s); /* the surrogate keeps it until the gap before it is filled */
			s->flags |= SPLICE_CLIENT_FIN;
			s->snd_nxt = seq + p->len + 1;
			s->state = SPLICE_CLOSING;
		}
		if (p->flags & FIN && seq + p->len == s->snd_nxt && !(s->flags & SPLICE_CLIENT_FIN)) {
			if (!p->len && clean(s) && s->state == SPLICE_ACTIVE && ack == s->rcv_nxt) {
				next = NEXT_RECYCLE;
				s->flags &= ~SPLICE_WIDE;
				if (!fresh)
					s->flags |= SPLICE_WIDE;
			} else {
				s->flags |= SPLICE_CLIENT_FIN;
				s->snd_nxt++;
				s->state = SPLICE_CLOSING;
			}
		}
		if (both_over(s))
			next = NEXT_OVER;
	}
	fill_to_server(w, s);
	surrogate = s->surrogate;
	leg_class = s->leg_class;
	band = s->band;
	note_bytes(w, s);
	if (next == NEXT_RECYCLE || next == NEXT_RECYCLE_RESET) {
		w->out.window = idle_window(s);
		if (next == NEXT_RECYCLE_RESET)
			s->flags |= SPLICE_WIDE;
		w->reply.tsval = later(s->ts_client, clock);
		worn = is_worn(s, limit);
		s->state = worn ? SPLICE_DEAD : SPLICE_IDLE;
		s->since = now;
		__builtin_memset(&s->client, 0, sizeof(s->client));
	} else if (next == NEXT_RESET || next == NEXT_OVER) {
		s->state = SPLICE_DEAD;
		s->since = now;
	}
unlock:
	bpf_spin_unlock(&s->lock);

	switch (next) {
	case NEXT_REQUEST:
		return BEGINS_REQUEST;
	case NEXT_ASK:
		return to_user_space(w, set);
	case NEXT_EARLY:
		return DROP_EARLY;
	case NEXT_OUTSIDE:
		return DROP_WINDOW;
	case NEXT_CUT:
		bury(idx, s, LEG_CUT, now);
		return reset_sender(skb, w);
	case NEXT_MALFORMED: /* user space answers */
		bury(idx, s, LEG_MALFORMED, now);
		return DROP_MALFORMED;
	case NEXT_CHALLENGE:
		return send_back(skb, w, CHALLENGED);
	case NEXT_RECYCLE: {
		__u32 tsval = w->reply.tsval;
		struct segment *r = answer(w, FIN | ACK, p->ack, p->seq + 1);

		linger(&p->key, SIDE_LINGER, BPF_EXIST, now);
		r->with_ts = w->out.keep_ts && p->ts_at != 0xff;
		r->tsval = tsval;
		r->tsecr = p->tsval;
		if (hop_is_old(&w->out.hop, now))
			resolve(skb, now);
		recycle(w, idx, s, surrogate, leg_class, band, worn, now);
		return end_client(skb, w);
	}
	case NEXT_RECYCLE_RESET:
		linger(&p->key, SIDE_LINGER, BPF_EXIST, now);
		recycle(w, idx, s, surrogate, leg_class, band, worn, now);
		return RECYCLED;
	case NEXT_RESET:
		bury(idx, s, LEG_CLIENT_RESET, now);
		break;
	case NEXT_OVER:
		bury(idx, s, LEG_CLOSED, now);
		break;
	}
	return send_to_server(skb, w, s, now, TO_SERVER);
}
