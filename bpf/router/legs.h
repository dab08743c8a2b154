/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The leg pools, and joining a client to a leg. */
#pragma once

#include "cookie.h"
#include "framing.h"
#include "window.h"

static __always_inline struct splice *splice_at(__u32 idx)
{
	return bpf_map_lookup_elem(&splices, &idx);
}

static __always_inline struct surrogate *surrogate_at(__u32 n)
{
	return bpf_map_lookup_elem(&surrogates, &n);
}

/* Requests that a leg of the surrogate serves. */
static __always_inline __u32 limit_of(__u32 surrogate)
{
	struct limit *l = bpf_map_lookup_elem(&limits, &surrogate);

	return l && l->requests ? l->requests : ~0U;
}

static __always_inline __u32 reuse_of(const struct work *w, __u32 pool)
{
	__u32 place = w->generation * MAX_POOLS + pool;
	struct pool *p = bpf_map_lookup_elem(&pools, &place);

	return p ? p->reuse : REUSE_NEVER;
}

static __always_inline void count_idle(__u32 surrogate, __u32 leg_class, __u32 band, __s32 by)
{
	struct surrogate *of = surrogate_at(surrogate);

	if (!of || leg_class >= LEG_CLASSES)
		return;
	__sync_fetch_and_add(&of->idle[leg_class], by);
	if (band == BAND_NONE)
		__sync_fetch_and_add(&of->fresh[leg_class], by);
}

static __always_inline void *queue_of(__u32 surrogate, __u32 leg_class, __u32 band)
{
	__u32 key = (surrogate * LEG_CLASSES + leg_class) * LEG_BANDS + band;

	return bpf_map_lookup_elem(&idle_legs, &key);
}

/* Bytes of events that may wait until user space looks by itself, which it does ten times a second. */
#define EVENTS_UNREAD (16 * (sizeof(struct event) + BPF_RINGBUF_HDR_SZ))

/* Not under the lock, but of a splice whose state keeps others away. */
static __always_inline void tell(__u32 kind, __u32 end, __u32 idx, const struct splice *s, __u32 now)
{
	struct event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

	if (!e)
		return;
	e->kind = kind;
	e->end = end;
	e->leg_class = s->leg_class;
	e->announced = !!(s->flags & SPLICE_NO_REUSE);
	e->band = s->band;
	e->surrogate = s->surrogate;
	e->splice = idx;
	e->requests = s->requests;
	e->age = now - s->opened;
	e->idle = now - s->seen;
	/* ends can wait for a while: a wake-up each would cost more than all the rest of them */
	bpf_ringbuf_submit(e, kind != EVENT_LEG_DOWN || end == LEG_MALFORMED ||
					      bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) > EVENTS_UNREAD
				      ? BPF_RB_FORCE_WAKEUP
				      : BPF_RB_NO_WAKEUP);
}

/*
 * An idle leg into its queue. There is none, or it is full: the leg is retired. Whoever takes an idle leg out of that state
 * counts it; the queue may hold legs that died in it.
 */
__noinline int push_leg(__u32 surrogate, __u32 leg_class, __u32 band, __u32 idx)
{
	void *queue = queue_of(surrogate, leg_class, band & (LEG_BANDS - 1));
	struct splice *s = splice_at(idx);
	__u32 now = clock_ms();
	bool retired;

	if (!s || (queue && !bpf_map_push_elem(queue, &idx, 0)))
		return 0;
	bpf_spin_lock(&s->lock);
	retired = s->state == SPLICE_IDLE;
	if (retired) {
		s->state = SPLICE_DEAD;
		s->since = now;
	}
	bpf_spin_unlock(&s->lock);
	if (!retired)
		return 0;
	count_idle(surrogate, leg_class, band, -1);
	tell(EVENT_LEG_DOWN, LEG_RETIRED, idx, s, now);
	return 0;
}

static __always_inline __u16 rescale(__u32 window, __u32 from, __u32 to)
{
	__u32 scaled = window << (from & 15) >> (to & 15);

	if (window && !scaled)
		return 1; /* a small window is not a closed one */
	return scaled > 65535 ? 65535 : scaled;
}

/*
 * The window that an idle leg's surrogate is told, as it is sent. As small as it may be, so that the first request's own is the
 * larger: a surrogate takes a smaller one only with a new acknowledgement or from a later sequence number (Linux,
 * tcp_may_update_window), and a client's request carries neither. But Linux makes no segment larger than half of it
 * (tcp_bound_to_half_wnd), and BBR takes its first pace from that segment.
 */
static __always_inline __u16 idle_window(const struct splice *s)
{
	__u32 window = s->server_mss > IDLE_WINDOW / 2 ? 2 * s->server_mss : IDLE_WINDOW;

	if (s->flags & SPLICE_SERVER_WSCALE)
		return (window + (1 << TOLD_WSCALE) - 1) >> TOLD_WSCALE;
	return window > 65535 ? 65535 : window;
}

/* Half of what a timestamp may lie ahead without being taken for one of the past (RFC 7323, 5.2): 12 days of our clock. */
#define TS_AHEAD (1U << 30)

/*
 * Under the lock: the surrogate is told the client's timestamp, but it may discard the packet. What is told to its next client begins
 * behind all that it may have taken, and behind our clock: so none of it may be further from our clock, or from what the surrogate
 * has echoed, than it would take for one of the future.
 */
static __always_inline void note_told(struct splice *s, const struct packet *p, __u32 clock)
{
	__u32 tsval = p->tsval + s->ts_to_server;

	if (p->ts_at == 0xff || !(s->flags & SPLICE_TS))
		return;
	s->ts_told = later(s->ts_told, tsval);
	if (s->ts_told - s->ts_heard > TS_AHEAD || tsval - clock + TS_AHEAD > 2 * TS_AHEAD)
		s->flags |= SPLICE_SPOILT;
}

/* Under the lock: the way from the client at hand to the surrogate. */
static __always_inline void fill_to_server(struct work *w, struct splice *s)
{
	struct translation *t = &w->out;
	struct packet *p = &w->packet;

	copy_addr(t->src, s->server.dst);
	copy_addr(t->dst, s->server.src);
	t->sport = s->server.dport;
	t->dport = s->server.sport;
	t->seq = p->seq + s->to_server_seq;
	t->ack_shift = s->to_server_ack;
	t->ack = p->flags & ACK ? p->ack + s->to_server_ack : p->ack;
	t->keep_ts = !!(s->flags & SPLICE_TS);
	t->keep_sack =
		(s->flags & (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK)) == (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK);
	t->tsval = p->tsval + s->ts_to_server;
	t->tsecr = s->flags & SPLICE_ANCHOR ? s->ts_server : p->tsecr - s->ts_to_client;
	if (!(p->flags & ACK))
		t->tsecr = p->tsecr;
	t->window = rescale(p->window, s->flags & SPLICE_CLIENT_WSCALE ? s->client_shift : 0,
			    s->flags & SPLICE_SERVER_WSCALE ? TOLD_WSCALE : 0);
	s->window_told = t->window;
	t->hop = s->to_server;
}

static __always_inline void fill_to_client(struct work *w, struct splice *s)
{
	struct translation *t = &w->out;
	struct packet *p = &w->packet;

	copy_addr(t->src, s->client.dst);
	copy_addr(t->dst, s->client.src);
	t->sport = s->client.dport;
	t->dport = s->client.sport;
	t->seq = p->seq - s->to_server_ack;
	t->ack_shift = -s->to_server_seq;
	t->ack = p->flags & ACK ? p->ack - s->to_server_seq : p->ack;
	t->keep_ts = !!(s->flags & SPLICE_TS);
	t->keep_sack =
		(s->flags & (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK)) == (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK);
	t->tsval = p->tsval + s->ts_to_client;
	t->tsecr = p->flags & ACK ? p->tsecr - s->ts_to_server : p->tsecr;
	t->window = rescale(p->window, s->flags & SPLICE_SERVER_WSCALE ? s->server_shift : 0,
			    s->flags & SPLICE_CLIENT_WSCALE ? TOLD_WSCALE : 0);
	t->hop = s->to_client;
	if (p->ts_at != 0xff && s->flags & SPLICE_TS) {
		s->ts_client = later(s->ts_client, t->tsval);
		s->ts_server = later(s->ts_server, p->tsval);
	}
}

/*
 * Joins the client whose request is at hand to an idle leg: paper eqs. 1-4, the offsets of the timestamps, the framing.
 * ts_client: the newest timestamp told to the client. False: the leg is not idle any more.
 */
static __always_inline bool attach(struct __sk_buff *skb, struct work *w, struct splice *s, __u32 surrogate,
				   __u32 leg_class, __u32 ts_client, __u32 clock, __u32 now)
{
	struct packet *p = &w->packet;
	struct client *c = &w->client;
	__u32 ifindex = skb->ifindex;

	bpf_spin_lock(&s->lock);
	if (s->state != SPLICE_IDLE || s->surrogate != surrogate || s->leg_class != leg_class) {
		bpf_spin_unlock(&s->lock);
		return false;
	}
	s->state = SPLICE_ACTIVE;
	s->client = p->key;
	w->leg_band = s->band;
	if (s->band == BAND_NONE) { /* of a client that nothing is known of: it may be near */
		s->band = c->band == BAND_NONE ? BAND_NEAREST : c->band;
		if (s->late && s->late < shortest_of(s->band))
			s->band = BAND_FAR; /* its surrogate has measured less */
	}
	s->client_band = c->band;
	s->client_shift = c->wscale;
	w->widen = s->flags & SPLICE_WIDE;
	s->flags &= SPLICE_TS | SPLICE_SERVER_SACK | SPLICE_SERVER_WSCALE;
	s->flags |= SPLICE_ANCHOR | w->begins;
	s->challenged = 0;
	if (c->flags & CLIENT_SACK)
		s->flags |= SPLICE_CLIENT_SACK;
	if (c->flags & CLIENT_WSCALE)
		s->flags |= SPLICE_CLIENT_WSCALE;
	s->to_server_seq = s->snd_nxt - p->seq;
	s->to_server_ack = s->rcv_nxt - p->ack;
	s->rcv_base = s->rcv_acked = s->rcv_nxt;
	s->snd_base = s->snd_ahead = s->snd_nxt;
	s->ts_to_server = later(clock, s->ts_told) - p->tsval;
	note_told(s, p, clock);
	s->ts_client = ts_client;
	s->rcv_edge = later(s->rcv_edge, s->rcv_nxt + client_window(s, p));
	if (client_window(s, p) > s->rcv_span)
		s->rcv_span = client_window(s, p);
	s->client_requests = 0;
	s->pool = w->decision.pool;
	begin_request(s, &w->decision, &w->walk, p->len);
	s->snd_nxt += p->len;
	if (p->flags & FIN) {
		s->snd_nxt++;
		s->flags |= SPLICE_CLIENT_FIN;
		s->state = SPLICE_CLOSING;
	}
	s->since = s->seen = now;
	s->bytes_to_server = p->len;
	s->bytes_to_client = 0;
	s->to_client.ifindex = ifindex;
	s->to_client.checked = 0;
	fill_to_server(w, s);
	if (w->out.window < idle_window(s))
		w->widen = 1;
	w->reply.seq = s->snd_nxt;
	bpf_spin_unlock(&s->lock);
	return true;
}
