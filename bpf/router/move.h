/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests after the first: each is decided anew, and its client stays or moves to another leg. */
#pragma once

#include "client.h"

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
	worn = is_worn(s, limit) || s->flags & SPLICE_SPOILT || !quiet(s) || s->snd_una != s->snd_nxt ||
	       before(s->snd_nxt, s->snd_ahead);
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
	__u32 now = clock_ms(), ts_client, clock;
	int verdict, known = KNOWN_NOT;
	bool local = false, stay;
	struct packet *p;

	if (!w || !s || !set)
		return DROP_NO_ROOM;
	p = &w->packet;
	if (!to_vip(w))
		return DROP_CLOSED; /* the VIP has gone from the configuration */
	clock = now + set->ts_offset;
	/* without the lock: what the client acknowledges was counted before it left */
	if (!client_fits(s, p, p->seq + s->to_server_seq, p->ack + s->to_server_ack))
		return DROP_WINDOW;
	if (s->flags & SPLICE_ASKED) /* unless the question was forgotten meanwhile */
		known = know_client(w);
	if (known == KNOWN_CHANGES)
		return DROP_RACE;
	if (!checksum_ok(skb))
		return DROP_BAD_CHECKSUM;
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
	if (!local && !hold_first(skb, w))
		return DROP_EARLY;
	bpf_spin_lock(&s->lock);
	stay = !local && (w->decision.surrogate == NO_SURROGATE ? s->pool == w->decision.pool
								: s->surrogate == w->decision.surrogate);
	if (!same_tuple(&s->client, &p->key) || !quiet(s) || p->seq + s->to_server_seq != s->snd_nxt ||
	    s->state != SPLICE_ACTIVE || s->flags & SPLICE_MOVING) {
		bpf_spin_unlock(&s->lock);
		return DROP_RACE;
	}
	if (!stay && s->flags & SPLICE_HOLD && (p->ack + s->to_server_ack != s->rcv_nxt || s->snd_una != s->snd_nxt)) {
		bpf_spin_unlock(&s->lock);
		return DROP_EARLY; /* it cannot move yet, and is not this surrogate's */
	}
	s->seen = now;
	if (stay || p->ack + s->to_server_ack != s->rcv_nxt || s->snd_una != s->snd_nxt) {
		s->flags &= ~SPLICE_ASKED;
		note_ack(s, p);
		note_client_window(s, p, p->ack + s->to_server_ack);
		note_told(s, p, clock);
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
			forget_undecided(&p->key);
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
		forget_undecided(&p->key);
	leave_leg(skb, idx, verdict);
	return verdict;
}
