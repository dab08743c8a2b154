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

/* Under the lock: new bytes from the client. */
static __always_inline __u32 track_request(struct splice *s, const struct walk *k, __u32 seq, __u32 len)
{
	__u32 end = seq + len;

	/* the surrogate may have discarded the first version, and the second may say something else */
	if (before(seq, s->snd_nxt) && before(s->snd_una, end))
		s->flags |= SPLICE_REPEATED;
	if (!before(s->snd_nxt, end))
		return NEXT_SEND; /* seen before */
	if (s->flags & SPLICE_SERVER_FIN) {
		/* nothing left to decide: the surrogate refuses it */
		give_up(s);
		s->flags &= ~SPLICE_ASKED;
	}
	if (s->flags & SPLICE_ASKED && seq != s->snd_nxt)
		return NEXT_ASK; /* behind bytes that user space holds */
	if (quiet(s)) {
		if (seq == s->snd_nxt)
			return NEXT_REQUEST;
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
 * Under the lock of the leg that a moving client leaves: what it acknowledges with its request, its surrogate must know, or
 * it repeats it later and takes its path for congested. False: it does know.
 */
static __always_inline bool fill_last_ack(struct work *w, struct splice *s)
{
	struct segment *r = &w->reply;

	if (s->rcv_acked == s->rcv_nxt)
		return false;
	s->rcv_acked = s->rcv_nxt;
	copy_addr(r->src, s->server.dst);
	copy_addr(r->dst, s->server.src);
	r->sport = s->server.dport;
	r->dport = s->server.sport;
	r->flags = ACK;
	r->seq = s->snd_nxt;
	r->ack = s->rcv_nxt;
	r->with_ts = !!(s->flags & SPLICE_TS);
	r->tsval = s->ts_told;
	r->tsecr = s->ts_server;
	r->window = idle_window(s);
	r->with_sack = r->with_wscale = 0;
	r->mss = 0;
	__builtin_memcpy(r->dmac, s->to_server.dmac, 6);
	__builtin_memcpy(r->smac, s->to_server.smac, 6);
	w->reply_hop = s->to_server;
	return true;
}

/* Sends the request at hand, translated, and the last ACK behind it. */
static __always_inline void leave_twice(struct __sk_buff *skb, struct work *w)
{
	if (!w->out.hop.checked) /* its neighbour is asked for: that is for one packet only */
		return;
	bpf_clone_redirect(skb, w->out.hop.ifindex, 0);
	w->out.hop = w->reply_hop;
	w->action = TC_ACT_SHOT;
	if (!write_reply(skb))
		leave(skb, w);
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

__noinline int next_request(struct __sk_buff *skb, __u32 idx);

__noinline int client_packet(struct __sk_buff *skb, __u32 idx)
{
	struct work *w = work();
	struct config *set = config();
	struct splice *s = splice_at(idx);
	__u32 now = clock_ms(), next = NEXT_SEND, seq, ack, surrogate = 0, leg_class = 0, band = 0, clock, limit;
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
	if (p->flags & (SYN | FIN | RST) && !p->len && !checksum_ok(skb))
		return DROP_BAD_CHECKSUM;
	if (p->len && walked(s->request))
		walk_request(skb, idx);
	if (strange(s, p) && cookie_ok(w, p->seq))
		return replace_session(w, idx, s, now);

	/* most requests: next_request sees under the lock whether it is one */
	if (p->len && quiet(s) && p->seq + s->to_server_seq == s->snd_nxt && s->state == SPLICE_ACTIVE &&
	    !(p->flags & (SYN | RST)) && !(s->flags & (SPLICE_ASKED | SPLICE_MOVING | SPLICE_SERVER_FIN)))
		return next_request(skb, idx);

	bpf_spin_lock(&s->lock);
	if (!same_tuple(&s->client, &p->key) || (s->state != SPLICE_ACTIVE && s->state != SPLICE_CLOSING)) {
		bpf_spin_unlock(&s->lock);
		return p->flags & SYN ? syn_again(skb, w) : DROP_STALE;
	}
	if (s->flags & SPLICE_MOVING) {
		bpf_spin_unlock(&s->lock);
		return DROP_RACE;
	}
	seq = p->seq + s->to_server_seq;
	ack = p->ack + s->to_server_ack;
	if (p->flags & SYN) {
		w->reply.seq = s->rcv_nxt - s->to_server_ack;
		w->reply.ack = s->snd_nxt - s->to_server_seq;
		w->reply.tsval = s->ts_client; /* not the clock: the surrogate's may be slower (RFC 7323, 5) */
		w->reply.with_ts = !!(s->flags & SPLICE_TS);
		next = NEXT_CHALLENGE;
		goto unlock;
	}
	s->seen = now;
	if (p->flags & RST) {
		if (seq == s->snd_nxt && !p->len) { /* any other, the surrogate judges */
			next = quiet(s) && s->state == SPLICE_ACTIVE && s->rcv_acked == s->rcv_nxt &&
					       s->snd_una == s->snd_nxt &&
					       !(s->flags & (SPLICE_NO_REUSE | SPLICE_REPEATED | SPLICE_ASKED))
				       ? NEXT_RECYCLE_RESET
				       : NEXT_RESET;
		}
	} else {
		if (p->len) {
			next = track_request(s, &w->walk, seq, p->len);
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
		if (p->flags & FIN && before(s->snd_nxt, seq + p->len) && quiet(s)) {
			next = NEXT_EARLY; /* a request is missing */
			goto unlock;
		}
		note_ack(s, p);
		if (p->flags & FIN && before(s->snd_nxt, seq + p->len)) {
			give_up(s); /* the surrogate keeps it until the gap before it is filled */
			s->state = SPLICE_CLOSING;
		}
		if (p->flags & FIN && seq + p->len == s->snd_nxt && !(s->flags & SPLICE_CLIENT_FIN)) {
			if (!p->len && quiet(s) && s->state == SPLICE_ACTIVE && ack == s->rcv_nxt &&
			    s->snd_una == s->snd_nxt &&
			    !(s->flags & (SPLICE_NO_REUSE | SPLICE_REPEATED | SPLICE_ASKED))) {
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
		return next_request(skb, idx);
	case NEXT_ASK:
		return to_user_space(w, set);
	case NEXT_EARLY:
		return DROP_EARLY;
	case NEXT_CHALLENGE: {
		__u32 tsval = w->reply.tsval, with_ts = w->reply.with_ts;
		struct segment *r = answer(w, ACK, w->reply.seq, w->reply.ack);

		r->tsval = tsval;
		r->tsecr = p->tsval;
		r->with_ts = with_ts;
		return send_back(skb, w, CHALLENGED);
	}
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

/* The client at hand has moved elsewhere: its leg is idle again. */
__noinline int leave_leg(struct __sk_buff *skb, __u32 idx, int verdict)
{
	struct work *w = work();
	struct splice *s = splice_at(idx);
	__u32 now = clock_ms(), surrogate, leg_class, band, limit;
	bool closes, worn, behind;

	if (!w || !s)
		return 0;
	limit = limit_of(s->surrogate);
	bpf_spin_lock(&s->lock);
	if (!same_tuple(&s->client, &w->packet.key) || s->state != SPLICE_ACTIVE) {
		bpf_spin_unlock(&s->lock);
		return 0;
	}
	closes = s->flags & SPLICE_NO_REUSE;
	s->flags &= ~(SPLICE_ASKED | SPLICE_MOVING);
	/* what the surrogate said meanwhile is nobody's */
	worn = is_worn(s, limit) || s->flags & SPLICE_REPEATED || !quiet(s) || s->snd_una != s->snd_nxt;
	behind = fill_last_ack(w, s) && verdict == MOVED;
	if (!behind || !s->to_server.checked)
		s->flags |= SPLICE_WIDE;
	s->state = closes || worn ? SPLICE_DEAD : SPLICE_IDLE;
	s->since = s->seen = now;
	surrogate = s->surrogate;
	leg_class = s->leg_class;
	band = s->band;
	note_bytes(w, s);
	__builtin_memset(&s->client, 0, sizeof(s->client));
	bpf_spin_unlock(&s->lock);
	if (closes)
		bury(idx, s, LEG_CLOSED, now);
	else
		recycle(w, idx, s, surrogate, leg_class, band, worn, now);
	if (behind)
		leave_twice(skb, w);
	return 0;
}

/* The next request of a spliced session: it stays, or moves to a leg of another pool or surrogate. */
__noinline int next_request(struct __sk_buff *skb, __u32 idx)
{
	struct work *w = work();
	struct config *set = config();
	struct splice *s = splice_at(idx);
	__u32 now = clock_ms(), ts_client;
	int verdict, known = KNOWN_NOT;
	bool local = false, stay;
	struct packet *p;

	if (!w || !s || !set)
		return DROP_NO_ROOM;
	p = &w->packet;
	if (!to_vip(w))
		return DROP_CLOSED;  /* the VIP has gone from the configuration */
	if (s->flags & SPLICE_ASKED) /* unless the question was forgotten meanwhile */
		known = know_client(w);
	if (known == KNOWN_CHANGES)
		return DROP_RACE;
	if (known) {
		if (w->known.state == CLIENT_ASKED)
			return to_user_space(w, set);
		local = w->known.state == CLIENT_LOCAL;
		adopt_decision(w, &w->known);
		w->client = w->known;
	} else {
		client_of(s, set, &w->client);
		if (!decide(skb)) {
			bpf_spin_lock(&s->lock);
			s->flags |= SPLICE_ASKED;
			bpf_spin_unlock(&s->lock);
			return ask(skb, w, set, now);
		}
	}

	if (w->decision.chunked)
		walk_first(skb);
	bpf_spin_lock(&s->lock);
	stay = !local && (w->decision.surrogate == NO_SURROGATE ? s->pool == w->decision.pool
								: s->surrogate == w->decision.surrogate);
	if (!same_tuple(&s->client, &p->key) || !quiet(s) || p->seq + s->to_server_seq != s->snd_nxt ||
	    s->state != SPLICE_ACTIVE || s->flags & SPLICE_MOVING) {
		bpf_spin_unlock(&s->lock);
		return DROP_RACE;
	}
	s->seen = now;
	if (stay || p->ack + s->to_server_ack != s->rcv_nxt || s->snd_una != s->snd_nxt) {
		s->flags &= ~SPLICE_ASKED;
		note_ack(s, p);
		begin_request(s, &w->decision, &w->walk, p->len);
		s->snd_nxt += p->len;
		s->bytes_to_server += p->len;
		if (p->flags & FIN) {
			s->flags |= SPLICE_CLIENT_FIN;
			s->snd_nxt++;
			s->state = SPLICE_CLOSING;
		}
		fill_to_server(w, s);
		bpf_spin_unlock(&s->lock);
		if (known)
			bpf_map_delete_elem(&clients, &p->key);
		return send_to_server(skb, w, s, now, TO_SERVER);
	}
	ts_client = s->ts_client;
	s->flags |= SPLICE_MOVING;
	bpf_spin_unlock(&s->lock);

	if (local) {
		verdict = assign_local(skb);
		if (verdict != ASSIGNED)
			bpf_map_delete_elem(&flows, &p->key);
	} else {
		verdict = splice_client(skb, idx, ts_client);
		if (verdict != MOVED) {
			bpf_spin_lock(&s->lock);
			s->flags &= ~SPLICE_MOVING;
			if (!verdict)
				s->flags |= SPLICE_ASKED;
			bpf_spin_unlock(&s->lock);
			return verdict ?: ask(skb, w, set, now);
		}
	}
	if (known && verdict != ASSIGNED)
		bpf_map_delete_elem(&clients, &p->key);
	leave_leg(skb, idx, verdict);
	return verdict;
}
