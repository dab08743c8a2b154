/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets from surrogates. */
#pragma once

#include "follow.h"

/* The surrogate answered our SYN. */
__noinline int leg_up(struct __sk_buff *skb, __u32 idx)
{
	struct work *w = work();
	struct config *set = config();
	struct splice *s = splice_at(idx);
	__u32 now = clock_ms(), surrogate, leg_class, clock;
	struct packet *p;
	struct segment *r;
	bool up = false, late = false;

	if (!w || !s || !set)
		return DROP_NO_ROOM;
	p = &w->packet;
	clock = now + set->ts_offset;
	p->plain = 0;
	if (p->options && parse_options(skb) < 0)
		return DROP_BAD_OPTIONS;
	if (!checksum_ok(skb))
		return DROP_BAD_CHECKSUM;
	bpf_spin_lock(&s->lock);
	if (!same_tuple(&s->server, &p->key) || s->state != SPLICE_OPENING) {
		bpf_spin_unlock(&s->lock);
		return DROP_STALE;
	}
	if (!(p->flags & ACK) || p->ack != s->snd_nxt) {
		/* the surrogate still has a session on these ports: it is reset, and our SYN repeated (RFC 9293, 3.10.7.3) */
		bpf_spin_unlock(&s->lock);
		return p->flags & ACK ? reset_sender(skb, w) : DROP_STALE;
	}
	if (!(p->flags & (RST | SYN))) {
		bpf_spin_unlock(&s->lock);
		return DROP_STALE;
	}
	s->since = s->seen = s->opened = now;
	if (p->flags & RST) {
		s->state = SPLICE_DEAD;
	} else if (p->flags & SYN) {
		late = s->late;
		s->state = late ? SPLICE_ANSWERED : SPLICE_IDLE;
		s->rcv_nxt = s->rcv_acked = s->rcv_base = p->seq + 1;
		s->snd_una = s->snd_nxt;
		s->snd_edge = s->snd_nxt + p->window;
		s->rcv_edge = s->rcv_nxt + SYN_WINDOW;
		s->snd_span = s->rcv_span = LEAST_SPAN;
		s->server_mss = p->mss ?: (p->v6 ? MSS_DEFAULT_V6 : MSS_DEFAULT_V4);
		s->flags = 0;
		if (p->ts_at != 0xff && s->leg_class & 1) {
			s->flags |= SPLICE_TS;
			s->ts_server = p->tsval;
			s->ts_heard = s->ts_told; /* of our SYN */
			s->ts_told = later(s->ts_told, clock);
		} else {
			s->leg_class &= ~1;
		}
		if (p->sack_ok)
			s->flags |= SPLICE_SERVER_SACK;
		if (p->wscale != 0xff) {
			s->flags |= SPLICE_SERVER_WSCALE;
			s->server_shift = p->wscale;
		}
		up = true;
	}
	r = answer(w, ACK, s->snd_nxt, s->rcv_nxt);
	r->with_ts = !!(s->flags & SPLICE_TS);
	r->tsval = s->ts_told;
	r->tsecr = p->tsval;
	r->window = idle_window(s);
	surrogate = s->surrogate;
	leg_class = s->leg_class;
	bpf_spin_unlock(&s->lock);
	if (!up) {
		tell(EVENT_LEG_DOWN, LEG_REFUSED, idx, s, now);
		return CONSUMED;
	}
	if (late) {
		tell(EVENT_LEG_ANSWERED, 0, idx, s, now);
		return LEG_ANSWERED;
	}
	tell(EVENT_LEG_UP, 0, idx, s, now);
	leg_class &= LEG_CLASSES - 1;
	count_idle(surrogate, leg_class, BAND_NONE, 1);
	push_leg(surrogate, leg_class, BAND_NONE, idx);
	return send_back(skb, w, LEG_UP);
}

/*
 * Under the lock: a packet on a leg whose SYN-ACK user space has not acknowledged yet: the SYN-ACK again, which has its answer
 * soon, or the surrogate has given the leg up.
 */
static __always_inline __u32 track_answered(struct splice *s, const struct packet *p, __u32 now)
{
	if (!(p->flags & RST) || p->seq != s->rcv_nxt)
		return SERVER_NOTHING;
	s->state = SPLICE_DEAD;
	s->since = now;
	return SERVER_REFUSED;
}

/* Under the lock: a packet on a leg that no client is joined to. */
static __always_inline __u32 track_idle(struct splice *s, const struct packet *p, __u32 now)
{
	if (p->flags & RST) {
		if (p->seq != s->rcv_nxt)
			return SERVER_NOTHING;
		s->state = SPLICE_DEAD;
		s->since = now;
		return SERVER_IDLE_OVER;
	}
	if (p->flags & SYN || before(p->seq, s->rcv_nxt))
		return SERVER_ACK; /* our ACK was lost; keepalive; old bytes */
	if (!p->len && !(p->flags & FIN))
		return SERVER_NOTHING;
	s->state = SPLICE_DEAD; /* closed, or bytes that nobody asked for */
	s->since = now;
	return SERVER_IDLE_CLOSED;
}

/* After the lock: an idle leg is dead. */
static __always_inline void idle_leg_over(__u32 idx, struct splice *s, __u32 end, __u32 now)
{
	count_idle(s->surrogate, s->leg_class, s->band, -1);
	tell(EVENT_LEG_DOWN, end, idx, s, now);
}

static __always_inline bool joined_or_idle(const struct splice *s)
{
	return s->state == SPLICE_IDLE || s->state == SPLICE_ACTIVE || s->state == SPLICE_CLOSING;
}

/* Whether a route to the leg's surrogate leads over the interface. */
static __always_inline bool leads_to(struct work *w, const struct splice *s, __u32 ifindex)
{
	if (ifindex == s->to_server.ifindex)
		return true;
	w->path.surrogate = s->surrogate;
	w->path.ifindex = ifindex;
	return bpf_map_lookup_elem(&paths, &w->path);
}

/*
 * Under the lock: the packet does not answer the request: the surrogate has closed before it said anything, or said something before
 * it took a byte of the request (AckFloor), which may come behind a part of the response.
 */
static __always_inline __u32 before_answer(const struct splice *s, const struct packet *p)
{
	bool unasked = p->len && !(p->flags & RST) && !before(s->snd_base, p->ack);

	/* the client still holds its request, and is known by its cookie when it repeats it */
	if (s->rcv_nxt == s->rcv_base && s->client_requests == 1 && s->flags & SPLICE_FIRST &&
	    s->snd_una == s->snd_base && p->seq == s->rcv_base && (p->flags & (RST | FIN) || p->len) &&
	    !(s->flags & SPLICE_CLIENT_FIN))
		return SERVER_FAILED;
	return unasked ? SERVER_UNASKED : SERVER_SEND;
}

__noinline int server_packet(struct __sk_buff *skb, __u32 idx)
{
	struct work *w = work();
	struct config *set = config();
	struct splice *s = splice_at(idx);
	__u32 now = clock_ms(), next = SERVER_SEND, seq, ack, tsval, clock;
	bool with_ts;
	__u16 window;
	struct packet *p;
	struct segment *r;

	if (!w || !s || !set)
		return DROP_NO_ROOM;
	p = &w->packet;
	clock = now + set->ts_offset;
	if (!leads_to(w, s, skb->ifindex))
		return DROP_INTERFACE;
	if (s->state == SPLICE_OPENING)
		return leg_up(skb, idx);
	if (p->ttl <= 1)
		return DROP_TTL;
	if (!p->plain && parse_options(skb) < 0)
		return DROP_BAD_OPTIONS;
	if (!(p->flags & (SYN | RST | ACK)))
		return DROP_BAD_FLAGS;
	if ((p->flags & (SYN | FIN | RST) || (p->len && read_on(s->response))) && !checksum_ok(skb))
		return DROP_BAD_CHECKSUM;
	if (p->len && read_on(s->response))
		walk_response(skb, idx);

	bpf_spin_lock(&s->lock);
	if (!same_tuple(&s->server, &p->key)) {
		bpf_spin_unlock(&s->lock);
		return DROP_STALE;
	}
	if (joined_or_idle(s) && !(p->flags & SYN) && !server_fits(s, p)) {
		bpf_spin_unlock(&s->lock);
		return DROP_WINDOW;
	}
	switch (s->state) {
	case SPLICE_ANSWERED:
		next = track_answered(s, p, now);
		break;
	case SPLICE_IDLE:
		note_server(s, p);
		next = track_idle(s, p, now);
		break;
	case SPLICE_ACTIVE:
	case SPLICE_CLOSING:
		s->seen = now;
		if (p->flags & SYN || (p->len && before(p->seq, s->rcv_base))) {
			next = SERVER_ACK;
			break;
		}
		if (s->flags & SPLICE_MOVING && (p->len || p->flags & (FIN | RST))) {
			next = SERVER_RACE; /* repeated, it finds the leg idle */
			break;
		}
		note_server(s, p);
		if (p->len && before(p->seq, s->rcv_nxt) && s->band >= BAND_4MS)
			s->band = BAND_FAR; /* repeated: the surrogate's window has shrunk for it */
		if (s->flags & SPLICE_ANCHOR && p->ts_at != 0xff) {
			s->ts_to_client = later(clock, s->ts_client) - p->tsval;
			s->flags &= ~SPLICE_ANCHOR;
		}
		next = before_answer(s, p);
		if (next != SERVER_SEND) {
			s->state = SPLICE_DEAD;
			s->since = now;
			break;
		}
		if (p->flags & RST) {
			if (server_resets(s, p->seq)) { /* any other, the client judges */
				next = SERVER_OVER;
				s->state = SPLICE_DEAD;
				s->since = now;
			}
		} else if (p->len) {
			next = track_response(s, w);
			if (next == SERVER_SEND)
				s->bytes_to_client += p->len;
		}
		if (next == SERVER_SEND && track_server_fin(s, p, now))
			next = SERVER_CLOSED;
		if (next == SERVER_SEND || next == SERVER_OVER || next == SERVER_CLOSED)
			fill_to_client(w, s);
		break;
	default:
		next = SERVER_RESET;
	}
	seq = s->snd_nxt;
	ack = s->state == SPLICE_IDLE ? s->rcv_nxt : s->rcv_base; /* no more than the clients have had */
	if (s->state == SPLICE_IDLE)
		s->ts_told = later(s->ts_told, clock); /* with a client, whose clock may be slower, its own */
	tsval = s->ts_told;
	with_ts = s->flags & SPLICE_TS && p->ts_at != 0xff;
	window = s->state == SPLICE_IDLE ? idle_window(s) : s->window_told;
	bpf_spin_unlock(&s->lock);

	switch (next) {
	case SERVER_GAP:
		return DROP_GAP;
	case SERVER_RACE:
		return DROP_RACE;
	case SERVER_NOTHING:
		return CONSUMED;
	case SERVER_ACK:
		r = answer(w, ACK, seq, ack);
		r->window = window;
		r->with_ts = with_ts;
		r->tsval = tsval;
		r->tsecr = p->tsval;
		return send_back(skb, w, p->len ? DROP_OLD_BYTES : LEG_ACKED);
	case SERVER_IDLE_CLOSED:
		idle_leg_over(idx, s, LEG_CLOSED_IDLE, now);
		return reset_sender(skb, w);
	case SERVER_RESET:
		return reset_sender(skb, w);
	case SERVER_FAILED:
		remember_client(s, set, now);
		bury(idx, s, LEG_FAILED, now);
		return reset_sender(skb, w);
	case SERVER_UNASKED:
		bury(idx, s, LEG_CUT, now);
		return reset_sender(skb, w);
	case SERVER_REFUSED:
		tell(EVENT_LEG_DOWN, LEG_REFUSED, idx, s, now);
		return CONSUMED;
	case SERVER_IDLE_OVER:
		idle_leg_over(idx, s, LEG_RESET_IDLE, now);
		return CONSUMED;
	case SERVER_CLOSED:
		bury(idx, s, LEG_CLOSED, now);
		break;
	case SERVER_OVER:
		bury(idx, s, LEG_SERVER_RESET, now);
		break;
	}
	return send_to_client(skb, w, s, now);
}
