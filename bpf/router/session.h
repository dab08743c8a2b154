/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What begins and ends a session: joining a client to a leg, giving the leg back, and the end of both. */
#pragma once

#include "ask.h"
#include "decide.h"
#include "hold.h"

/*
 * The session of a client is over. That is remembered for a while: a late copy of its first segment still matches the
 * cookie, and would be a new session. exist: BPF_EXIST unless there is no flow yet.
 */
__noinline int linger(const struct tuple *client, __u32 side, __u32 exist, __u32 now)
{
	struct flow f = { .splice = now, .side = side };
	struct work *w = work();
	__u32 key = 0;
	__u64 *lost;

	if (!w || !client || bpf_map_update_elem(&flows, client, &f, exist))
		return 0;
	w->ended.client = *client;
	w->ended.since = now;
	if (!bpf_map_push_elem(&lingering, &w->ended, BPF_ANY))
		return 0;
	lost = bpf_map_lookup_elem(&lingering_lost, &key);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	return 0;
}

/* After the lock: the splice is dead. Forgets the client and tells user space. */
static __always_inline void bury(__u32 idx, struct splice *s, __u32 end, __u32 now)
{
	struct flow *f = bpf_map_lookup_elem(&flows, &s->client);
	struct surrogate *of = surrogate_at(s->surrogate);

	/* a decision about its next request would find the next session of the same port */
	if (s->flags & SPLICE_ASKED)
		forget_undecided(&s->client);
	if (f && f->splice == idx && f->side == SIDE_CLIENT) {
		/* the client's repeated request is decided anew */
		if (end == LEG_FAILED || end == LEG_ABANDONED || end == LEG_REPLACED)
			bpf_map_delete_elem(&flows, &s->client);
		else
			linger(&s->client,
			       end == LEG_SERVER_RESET || end == LEG_EXPIRED || end == LEG_CUT ? SIDE_RESET
											       : SIDE_LINGER,
			       BPF_EXIST, now);
	}
	if (of) {
		__sync_fetch_and_add(&of->active, -1);
		__sync_fetch_and_add(&of->bytes_in, s->bytes_to_server);
		__sync_fetch_and_add(&of->bytes_out, s->bytes_to_client);
		if (end == LEG_FAILED)
			__sync_fetch_and_add(&of->failed, 1);
	}
	tell(EVENT_LEG_DOWN, end, idx, s, now);
}

/* What a spliced client negotiated, as far as the choice of a leg needs it. */
static __always_inline void client_of(const struct splice *s, const struct config *set, struct client *c)
{
	c->flags = (s->flags & SPLICE_TS ? CLIENT_TS : 0) | (s->flags & SPLICE_CLIENT_SACK ? CLIENT_SACK : 0) |
		   (s->flags & SPLICE_CLIENT_WSCALE ? CLIENT_WSCALE : 0);
	c->wscale = s->client_shift;
	c->band = s->client_band;
	c->mss = set->mss[s->leg_class >> 1 & (MSS_CLASSES - 1)];
}

/*
 * After the lock: the client of a dead splice has its first request still unacknowledged and will repeat it. What it
 * negotiated may not be in the cookie.
 */
static __always_inline void remember_client(struct splice *s, const struct config *set, __u32 now)
{
	struct client c = { .state = CLIENT_SYN, .since = now };

	client_of(s, set, &c);
	c.ifindex = s->to_client.ifindex;
	c.seq = s->snd_base - s->to_server_seq;
	bpf_map_update_elem(&clients, &s->client, &c, BPF_ANY);
}

/* Under the lock: both ends have said FIN and know of the other's. A FIN that is repeated from now on meets an RST. */
static __always_inline bool both_over(const struct splice *s)
{
	return (s->flags & (SPLICE_CLIENT_FIN | SPLICE_SERVER_FIN)) == (SPLICE_CLIENT_FIN | SPLICE_SERVER_FIN) &&
	       s->snd_una == s->snd_nxt && s->rcv_acked == s->rcv_nxt;
}

/*
 * Under the lock: the surrogate stands between two messages, and nothing that happened tells on the next client. A packet that began
 * ahead of all bytes would: windows of packets that begin before it are not taken (RFC 9293, 3.10.7.4: SND.WL1).
 */
static __always_inline bool clean(const struct splice *s)
{
	return quiet(s) && s->snd_una == s->snd_nxt && !before(s->snd_nxt, s->snd_ahead) &&
	       !(s->flags & (SPLICE_NO_REUSE | SPLICE_SPOILT | SPLICE_ASKED));
}

/* Under the lock: what recycle counts. */
static __always_inline void note_bytes(struct work *w, const struct splice *s)
{
	w->to_server = s->bytes_to_server;
	w->to_client = s->bytes_to_client;
}

/* Of a response to a client that is not near: more, and the surrogate's congestion window is that client's. */
#define LITTLE_BYTES 65536

/*
 * Under the lock: whether the leg has served enough, or what its surrogate has learnt of the path of this client would be
 * wrong for the next. A near one is soon put right: that takes some round trips.
 */
static __always_inline bool is_worn(const struct splice *s, __u32 limit)
{
	return s->requests >= limit || s->band >= BAND_FAR ||
	       (s->band >= BAND_4MS && s->bytes_to_client > LITTLE_BYTES);
}

/* After the lock: the leg is idle again, with its current numbers, or dead, as it is worn. */
static __always_inline void recycle(const struct work *w, __u32 idx, struct splice *s, __u32 surrogate, __u32 leg_class,
				    __u32 band, bool worn, __u32 now)
{
	struct surrogate *of = surrogate_at(surrogate);

	if (worn) {
		tell(EVENT_LEG_DOWN, LEG_RETIRED, idx, s, now);
	} else {
		count_idle(surrogate, leg_class, band, 1);
		push_leg(surrogate, leg_class, band, idx);
	}
	if (!of)
		return;
	__sync_fetch_and_add(&of->active, -1);
	__sync_fetch_and_add(&of->recycled, 1);
	__sync_fetch_and_add(&of->bytes_in, w->to_server);
	__sync_fetch_and_add(&of->bytes_out, w->to_client);
}

/* Sends w->out, whose next hop is the splice's towards the surrogate. */
static __always_inline int send_to_server(struct __sk_buff *skb, struct work *w, struct splice *s, __u32 now,
					  int verdict)
{
	int err;

	if (hop_is_old(&w->out.hop, now) && resolve(skb, now)) {
		bpf_spin_lock(&s->lock);
		if (same_tuple(&s->client, &w->packet.key))
			s->to_server = w->out.hop;
		bpf_spin_unlock(&s->lock);
	}
	err = rewrite(skb);
	if (err)
		return -err;
	leave(skb, w);
	return verdict;
}

/* An ACK of ours, from and to where the translated packet goes, with its timestamps and window. */
static __always_inline struct segment *ack_like_out(struct work *w)
{
	struct translation *t = &w->out;
	struct segment *r = &w->reply;

	copy_addr(r->src, t->src);
	copy_addr(r->dst, t->dst);
	r->sport = t->sport;
	r->dport = t->dport;
	r->flags = ACK;
	r->ack = t->ack;
	r->tsval = t->tsval;
	r->tsecr = t->tsecr;
	r->window = t->window;
	__builtin_memcpy(r->dmac, t->hop.dmac, 6);
	__builtin_memcpy(r->smac, t->hop.smac, 6);
	return r;
}

/*
 * Sends the request at hand, translated, and behind it an ACK that tells the client's window again. It begins after the
 * request, so that the surrogate takes it even when it is smaller than an earlier client's. w->reply.seq is set.
 */
static __always_inline void widen(struct __sk_buff *skb, struct work *w)
{
	struct translation *t = &w->out;
	struct segment *r;

	if (!t->hop.checked) /* its neighbour is asked for: that is for one packet only */
		return;
	bpf_clone_redirect(skb, t->hop.ifindex, 0);
	r = ack_like_out(w);
	r->with_ts = t->keep_ts && w->packet.ts_at != 0xff;
	r->with_sack = r->with_wscale = 0;
	r->mss = 0;
	w->action = TC_ACT_SHOT;
	if (!write_reply(skb))
		leave(skb, w);
}

/* Legs that turn out closed, before a request gives up on the pool. */
#define STALE_LEGS 8

/* A leg for the decided request, joined to the client; its flow is w->flow. Returns a verdict, or 0: there is none. */
__noinline int splice_client(struct __sk_buff *skb, __u32 moved_from, __u32 ts_client)
{
	struct work *w = work();
	struct config *set = config();
	struct flow f = { .side = SIDE_CLIENT };
	__u32 now = clock_ms(), leg_class, band, reuse, idx = NO_SPLICE;
	struct surrogate *of;
	void *queue;
	struct splice *s = NULL;
	int surrogate, verdict;

	if (!w || !set)
		return 0;
	surrogate = w->decision.surrogate;
	if (surrogate == NO_SURROGATE)
		surrogate = choose(w->decision.pool);
	if (surrogate < 0 || surrogate >= MAX_SURROGATES)
		return 0;
	of = surrogate_at(surrogate);
	if (!of)
		return 0;
	leg_class = class_for(set, &w->client) & (LEG_CLASSES - 1);
	band = w->client.band & (LEG_BANDS - 1);
	reuse = reuse_of(w, w->decision.pool);
	if (band >= BAND_FAR || reuse == REUSE_NEVER || (reuse == REUSE_SAFE && moved_from == NO_SPLICE))
		band = BAND_NONE; /* whose legs have served nobody */
	queue = queue_of(surrogate, leg_class, band);
	for (int i = 0; i < STALE_LEGS; i++) {
		if (!queue || bpf_map_pop_elem(queue, &idx)) {
			if (band == BAND_NONE)
				break;
			band = BAND_NONE;
			queue = queue_of(surrogate, leg_class, band);
			continue;
		}
		s = splice_at(idx);
		if (s && s->state == SPLICE_IDLE && s->surrogate == surrogate && s->leg_class == leg_class)
			break;
		s = NULL; /* closed while it lay there */
	}
	if (!s) {
		__sync_fetch_and_add(&of->missed[leg_class], 1);
		return 0;
	}
	if (w->decision.chunked)
		walk_first(skb);
	if (!hold_first(skb, w)) {
		push_leg(surrogate, leg_class, band, idx);
		return DROP_EARLY;
	}
	w->begins = (moved_from == NO_SPLICE ? SPLICE_FIRST : 0) | (w->vip.flags & VIP_ONE_POOL ? 0 : SPLICE_ROUTED) |
		    (w->vip.flags & VIP_HOLD ? SPLICE_HOLD | SPLICE_ROUTED : 0) |
		    (reuse == REUSE_NEVER ? SPLICE_SPOILT : 0);
	f.splice = idx;
	if (bpf_map_update_elem(&flows, &w->packet.key, &f, moved_from == NO_SPLICE ? BPF_NOEXIST : BPF_EXIST)) {
		push_leg(surrogate, leg_class, band, idx);
		return bpf_map_lookup_elem(&flows, &w->packet.key) ? DROP_RACE : DROP_FLOWS_FULL;
	}
	if (!attach(skb, w, s, surrogate, leg_class, ts_client, ts_clock(set), now)) {
		f.splice = moved_from;
		if (moved_from == NO_SPLICE)
			bpf_map_delete_elem(&flows, &w->packet.key);
		else
			bpf_map_update_elem(&flows, &w->packet.key, &f, BPF_EXIST);
		return DROP_RACE;
	}
	count_idle(surrogate, leg_class, w->leg_band, -1);
	__sync_fetch_and_add(&of->taken[leg_class], 1);
	if (w->leg_band == BAND_NONE)
		__sync_fetch_and_add(&of->taken_fresh[leg_class], 1);
	__sync_fetch_and_add(&of->active, 1);
	__sync_fetch_and_add(&of->handoffs, 1);
	verdict = send_to_server(skb, w, s, now, moved_from == NO_SPLICE ? HANDOFF : MOVED);
	if (w->widen && (verdict == HANDOFF || verdict == MOVED))
		widen(skb, w);
	return verdict;
}

/* The decision that user space took for the client at hand, into w->decision. */
static __always_inline void adopt_decision(struct work *w, const struct client *c)
{
	w->decision.request = c->request;
	w->decision.chunked = c->chunked;
	w->decision.method = c->method;
	w->decision.bound = !!(c->flags & CLIENT_BOUND);
	w->decision.upgrade = !!(c->flags & CLIENT_UPGRADE);
	w->decision.pool = c->pool;
	w->decision.surrogate = c->surrogate;
}
