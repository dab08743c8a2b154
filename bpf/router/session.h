/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Begins and ends sessions: joins a client to a leg, returns the leg to its pool, ends both. */
#pragma once

#include "../session/join.h"
#include "decide.h"
#include "edit.h"
#include "hold.h"
#include "legs.h"
#include "log.h"
#include "syn_options.h"
#include "sources.h"
#include "walk.h"
#include "work.h"

/*
 * Remembers a closed session for a while: a late duplicate of its first segment still matches the cookie, and would
 * start a new session. exist: BPF_EXIST unless there is no flow yet.
 */
__noinline int linger(const struct tuple *client, __u32 side, __u32 exist, __u32 now)
{
	struct flow f = { .ended_ms = now, .side = side };
	struct ended e;
	__u32 key = 0;
	__u64 *lost;

	if (!client || bpf_map_update_elem(&flows, client, &f, exist))
		return 0;
	e.client = *client;
	e.since = now;
	if (!bpf_map_push_elem(&lingering, &e, BPF_ANY))
		return 0;
	lost = bpf_map_lookup_elem(&lingering_lost, &key);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	return 0;
}

/* After the lock: the splice is dead. Drops the client's state and reports the end to user space. */
static __always_inline void end_session(__u32 idx, struct splice *s, __u32 end, __u32 now)
{
	struct flow *f = bpf_map_lookup_elem(&flows, &s->client);
	struct surrogate *counters = surrogate_at(s->surrogate);

	end_log(idx, end);
	if (s->header == HEADER_PROXY_V2)
		bpf_map_delete_elem(&authorities, &idx);
	/* a decision on its next request would apply to the port's next session */
	if (s->flags & SPLICE_UPCALL)
		forget_undecided(&s->client);
	if (f && f->side == SIDE_CLIENT && f->splice == idx) {
		/* the client's retransmitted request is routed again */
		if (end == LEG_FAILED || end == LEG_ABANDONED || end == LEG_REPLACED)
			bpf_map_delete_elem(&flows, &s->client);
		else
			linger(&s->client,
			       end == LEG_SERVER_RESET || end == LEG_EXPIRED || end == LEG_CUT ? SIDE_RESET
											       : SIDE_LINGER,
			       BPF_EXIST, now);
	}
	if (counters) {
		__sync_fetch_and_add(&counters->active, -1);
		__sync_fetch_and_add(&counters->bytes_in, s->bytes_to_server);
		__sync_fetch_and_add(&counters->bytes_out, s->bytes_to_client);
		if (end == LEG_FAILED)
			__sync_fetch_and_add(&counters->failed, 1);
	}
	report(EVENT_LEG_DOWN, end, idx, s, now);
}

/* The options of a spliced client that the choice of a leg depends on. */
static __always_inline void client_of(const struct splice *s, const struct config *set, struct client *c)
{
	c->flags = (s->flags & SPLICE_TS ? CLIENT_TS : 0) | (s->flags & SPLICE_CLIENT_SACK ? CLIENT_SACK : 0) |
		   (s->flags & SPLICE_CLIENT_WSCALE ? CLIENT_WSCALE : 0);
	c->wscale = s->client_shift;
	c->band = s->client_band;
	c->leg = 0;
	c->mss = set->mss[s->leg_class >> 1 & (MSS_CLASSES - 1)];
}

/*
 * After the lock: the client of a dead splice will retransmit its first request. Keeps its options, which may not be in
 * the cookie.
 */
static __always_inline void remember_client(struct splice *s, const struct config *set, __u32 now)
{
	struct client c = { .state = CLIENT_SYN, .since = now };

	client_of(s, set, &c);
	c.ifindex = s->to_client.ifindex;
	c.seq = s->snd_base - s->to_server_seq;
	bpf_map_update_elem(&clients, &s->client, &c, BPF_ANY);
}

/* After the lock: returns the leg of a client that has left to its pool, or reports it dead. */
static __always_inline void recycle(const struct released_leg *leg, __u32 idx, struct splice *s, __u32 now)
{
	struct surrogate *counters = surrogate_at(leg->surrogate);

	if (leg->worn) {
		report(EVENT_LEG_DOWN, LEG_RETIRED, idx, s, now);
	} else {
		count_idle(leg->surrogate, leg->leg_class, leg->band, 1);
		push_leg(leg->surrogate, leg->leg_class, leg->band, idx);
	}
	if (!counters)
		return;
	__sync_fetch_and_add(&counters->active, -1);
	__sync_fetch_and_add(&counters->recycled, 1);
	__sync_fetch_and_add(&counters->bytes_in, leg->to_server);
	__sync_fetch_and_add(&counters->bytes_out, leg->to_client);
}

/* Sends w->out to the surrogate; its next hop is the splice's. */
static __always_inline int send_to_server(struct __sk_buff *skb, struct work *w, struct splice *s, __u32 now,
					  int verdict)
{
	int err;

	if (hop_is_old(&w->out.hop, now) && resolve(skb, &w->out, &w->fib, w->packet.v6, now)) {
		bpf_spin_lock(&s->lock);
		if (same_tuple(&s->client, &w->packet.key))
			s->to_server = w->out.hop;
		bpf_spin_unlock(&s->lock);
	}
	err = rewrite(skb, &w->packet, &w->out, &w->option);
	if (err)
		return -err;
	w->action = redirect(&w->out.hop);
	return verdict;
}

/* Prepares an ACK with the addresses, timestamps and window of the translated packet. */
static __always_inline struct segment *ack_like(struct segment *r, const struct translation *t)
{
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
 * Sends the translated request, followed by an ACK with the client's window. The ACK's sequence number is after the
 * request, so the surrogate accepts its window even if smaller than an earlier client's. w->reply.seq is set.
 */
static __always_inline void widen(struct __sk_buff *skb, struct work *w)
{
	struct translation *t = &w->out;
	struct segment *r;

	if (!t->hop.checked) /* the neighbour is resolved on output, which works for one packet only */
		return;
	bpf_clone_redirect(skb, t->hop.ifindex, 0);
	r = ack_like(&w->reply, t);
	r->with_ts = t->keep_ts && has_ts(&w->packet);
	r->with_sack = 0;
	r->wscale = NO_SCALE;
	r->mss = 0;
	r->v6 = w->packet.v6;
	w->action = TC_ACT_SHOT;
	if (write_segment(skb, r))
		w->action = redirect(&t->hop);
}

/* Flags of a new session. */
static __always_inline __u32 first_flags(const struct work *w, bool first, __u32 reuse)
{
	__u32 flags = first ? SPLICE_FIRST : 0;

	if (w->client.flags & CLIENT_SACK)
		flags |= SPLICE_CLIENT_SACK;
	if (w->client.flags & CLIENT_WSCALE)
		flags |= SPLICE_CLIENT_WSCALE;
	if (!(w->routing.vip.flags & VIP_ONE_POOL))
		flags |= SPLICE_ROUTED;
	if (w->routing.vip.flags & VIP_HOLD)
		flags |= SPLICE_HOLD | SPLICE_ROUTED;
	if (reuse == REUSE_NEVER)
		flags |= SPLICE_SPOILT;
	return flags;
}

/* Copies the name in the current hello, if it fits, and keeps it for the session. */
static __always_inline void keep_authority(struct __sk_buff *skb, struct work *w, __u32 idx)
{
	struct authority *a = &w->introduction.authority, *read;
	__u32 len = w->routing.name_len;

	a->len = 0;
	if (w->introduction.kind != HEADER_PROXY_V2)
		return;
	bpf_map_delete_elem(&authorities, &idx); /* of an earlier session */
	if (!w->decision.opaque)
		return;
	if (w->client.state == CLIENT_SPLICE) {
		read = bpf_map_lookup_elem(&hello_names, &w->packet.key);
		if (read)
			*a = *read;
	} else {
		__builtin_memset(a, 0, sizeof(*a));
		if (is_within(len, 1, AUTHORITY) && !bpf_skb_load_bytes(skb, w->routing.name_at, a->name, len))
			a->len = len;
	}
	if (a->len && bpf_map_update_elem(&authorities, &idx, a, BPF_ANY))
		a->len = 0;
}

/*
 * Makes the planned bytes of our own, which go to the surrogate of leg idx. ack: of the client, when it joined the leg. False:
 * the packet cannot be read.
 */
static __always_inline bool prepare_insertion(struct __sk_buff *skb, struct work *w, __u32 idx, __u32 ack)
{
	struct introduction *i = &w->introduction;

	i->len = 0;
	if (i->kind == HEADER_NONE)
		return true;
	i->client = w->packet.key;
	i->seq = w->packet.seq;
	i->ack = ack;
	if (i->head) {
		if (!edit_head(skb, &w->packet, i, &w->payload, &w->edited))
			return false;
		i->len = w->edited.len - i->head;
		return true;
	}
	keep_authority(skb, w, idx);
	make_header(&w->payload, i);
	i->len = w->payload.len;
	return true;
}

static __always_inline struct insertion insertion_of(const struct work *w)
{
	return (struct insertion){ w->introduction.len, w->introduction.head, w->introduction.kind,
				   w->introduction.sum };
}

/* Whether bytes of our own go first, and then the packet, which is received again. */
static __always_inline bool insertion_goes_first(const struct work *w)
{
	return w->introduction.len && !w->introduction.head;
}

/*
 * Sends the client's packet, and then w->payload, which goes before its bytes. The order is of no matter to a receiver that
 * lacks both.
 */
static __always_inline int send_behind(struct __sk_buff *skb, struct work *w, struct splice *s, __u32 now, int verdict)
{
	struct translation *t = &w->out;
	int sent = send_to_server(skb, w, s, now, verdict);
	struct segment *r;

	if (sent != verdict || !t->hop.checked) /* else it is resolved on output, for one packet only */
		return sent;
	bpf_clone_redirect(skb, t->hop.ifindex, 0);
	r = ack_like(&w->reply, t);
	r->flags = ACK | PSH;
	r->seq = t->seq - w->payload.len;
	r->with_ts = t->keep_ts && has_ts(&w->packet);
	r->with_sack = 0;
	r->wscale = NO_SCALE;
	r->mss = 0;
	r->v6 = w->packet.v6;
	w->action = TC_ACT_SHOT;
	if (write_payload(skb, r, &w->payload))
		w->action = redirect(&t->hop);
	return verdict;
}

/* Sends a packet that begins with a request's head, with the edited head if there is one. */
static __always_inline int send_head(struct __sk_buff *skb, struct work *w, struct splice *s, __u32 now, int verdict)
{
	if (!w->introduction.len)
		return send_to_server(skb, w, s, now, verdict);
	if (has_room(skb, &w->packet, &w->edited, w->routing.vip.mss))
		return put_head(skb, &w->packet, &w->edited, &w->sum) ? send_to_server(skb, w, s, now, verdict)
								      : DROP_NOMEM;
	if (!lay_over(skb, &w->packet, &w->edited, &w->payload, &w->sum))
		return DROP_NOMEM;
	w->out.seq += w->introduction.len;
	return send_behind(skb, w, s, now, verdict);
}

/* Makes the header of leg idx, which w->introduction is of, again. False: it would be another one. */
static __always_inline bool rebuild_header(struct work *w, __u32 idx)
{
	struct introduction *i = &w->introduction;
	struct authority *a = bpf_map_lookup_elem(&authorities, &idx);

	i->authority.len = 0;
	if (a)
		i->authority = *a;
	make_header(&w->payload, i);
	return w->payload.len == i->len;
}

/* Sends the insertion in place of the client's packet, which is received again to follow it. */
static __always_inline int send_inserted(struct __sk_buff *skb, struct work *w, __u32 now, int verdict)
{
	struct translation *t = &w->out;
	struct segment *r = ack_like(&w->reply, t);

	if (hop_is_old(&t->hop, now))
		resolve(skb, t, &w->fib, w->packet.v6, now);
	bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS);
	__builtin_memcpy(r->dmac, t->hop.dmac, 6);
	__builtin_memcpy(r->smac, t->hop.smac, 6);
	r->flags = ACK | PSH;
	r->seq = w->joined.behind - w->payload.len;
	r->with_ts = t->keep_ts && has_ts(&w->packet);
	r->with_sack = 0;
	r->wscale = NO_SCALE;
	r->mss = 0;
	r->v6 = w->packet.v6;
	if (!write_payload(skb, r, &w->payload))
		return DROP_NOMEM;
	w->action = redirect(&t->hop);
	return verdict;
}

/* Joins the client to the leg and points its flow to it, in place of moved_from. Returns 0, or a verdict. */
__noinline int join_leg(struct __sk_buff *skb, const struct popped_leg *t, __u32 moved_from, __u32 ts_client)
{
	struct work *w = work();
	struct config *set = config();
	bool first = moved_from == NO_SPLICE, joined;
	struct input in = { .now = clock_ms() };
	struct joining j = { .ts_client = ts_client, .ifindex = skb->ifindex };
	struct flow f = { .side = SIDE_CLIENT };
	struct request_log *l;
	struct splice *s;

	if (!w || !set || !t)
		return DROP_NOMEM;
	s = splice_at(t->idx);
	if (!s)
		return DROP_NOMEM;
	in.packet = &w->packet;
	in.walk = &w->walk;
	in.clock = in.now + set->ts_offset;
	j.decision = &w->decision;
	j.flags = first_flags(w, first, t->reuse);
	j.insertion = insertion_of(w);
	j.band = w->client.band;
	j.shift = w->client.wscale;
	f.splice = t->idx;
	if (bpf_map_update_elem(&flows, &w->packet.key, &f, first ? BPF_NOEXIST : BPF_EXIST)) {
		return_leg(t);
		return bpf_map_lookup_elem(&flows, &w->packet.key) ? DROP_RACE : DROP_FLOWS_FULL;
	}
	l = log_at(t->idx);
	bpf_spin_lock(&s->lock);
	joined = join_event(s, &in, &j, t->surrogate, t->leg_class, &w->out, &w->joined);
	if (joined && l)
		begin_log(l, &w->request, s, w->packet.seq, insertion_goes_first(w) ? 0 : w->packet.len);
	bpf_spin_unlock(&s->lock);
	if (joined) {
		miss_log(&w->request, l);
		return 0;
	}
	f.splice = moved_from;
	if (first)
		bpf_map_delete_elem(&flows, &w->packet.key);
	else
		bpf_map_update_elem(&flows, &w->packet.key, &f, BPF_EXIST);
	return DROP_RACE;
}

static __always_inline void count_handoff(struct surrogate *counters, const struct popped_leg *t, __u32 leg_band)
{
	__u32 leg_class = class_of(t);

	count_idle(t->surrogate, leg_class, leg_band, -1);
	__sync_fetch_and_add(&counters->popped[leg_class], 1);
	if (leg_band == BAND_NONE)
		__sync_fetch_and_add(&counters->popped_fresh[leg_class], 1);
	__sync_fetch_and_add(&counters->active, 1);
	__sync_fetch_and_add(&counters->handoffs, 1);
}

/* Splices the client to a leg for its decided request. Returns a verdict, or 0: no leg. */
__noinline int splice_client(struct __sk_buff *skb, __u32 moved_from, __u32 ts_client)
{
	struct work *w = work();
	struct config *set = config();
	struct popped_leg t = { .idx = NO_SPLICE };
	__u32 now = clock_ms();
	struct surrogate *counters;
	struct splice *s;
	int verdict;

	if (!w || !set)
		return 0;
	verdict = w->decision.surrogate == NO_SURROGATE
			  ? choose(&w->packet, &w->reading.scan, &w->routing, w->decision.pool)
			  : w->decision.surrogate;
	if (verdict < 0 || verdict >= MAX_SURROGATES)
		return 0;
	t.surrogate = verdict;
	counters = surrogate_at(t.surrogate);
	if (!counters)
		return 0;
	t.leg_class = class_for(set, &w->client) & (LEG_CLASSES - 1);
	t.reuse = reuse_of(w->routing.generation, w->decision.pool);
	s = pop_leg(&w->client, &w->packet.key, moved_from == NO_SPLICE, &t);
	if (!s) {
		__sync_fetch_and_add(&counters->missed[class_of(&t)], 1);
		return 0;
	}
	if (!prepare_insertion(skb, w, t.idx, w->packet.ack)) {
		return_leg(&t);
		return DROP_NOMEM;
	}
	if (insertion_goes_first(w))
		walk_later(&w->decision, &w->walk);
	else if (w->decision.chunked)
		walk_first(skb, &w->packet, &w->decision, &w->walk);
	if (!insertion_goes_first(w) && w->routing.vip.flags & VIP_HOLD &&
	    !hold_first(skb, &w->packet, &w->decision, &w->walk, &w->sum)) {
		return_leg(&t);
		return DROP_EARLY;
	}
	verdict = join_leg(skb, &t, moved_from, ts_client);
	if (verdict)
		return verdict;
	count_handoff(counters, &t, w->joined.leg_band);
	if (insertion_goes_first(w))
		return send_inserted(skb, w, now, moved_from == NO_SPLICE ? HANDOFF : MOVED);
	verdict = send_head(skb, w, s, now, moved_from == NO_SPLICE ? HANDOFF : MOVED);
	if (w->joined.widen && (verdict == HANDOFF || verdict == MOVED)) {
		w->reply.seq = w->joined.behind;
		widen(skb, w);
	}
	return verdict;
}

/* Adopts user space's decision. */
static __always_inline void adopt_decision(struct decision *d, const struct client *c)
{
	d->request = c->request;
	d->chunked = c->chunked;
	d->method = c->method;
	d->bound = !!(c->flags & CLIENT_BOUND);
	d->upgrade = !!(c->flags & CLIENT_UPGRADE);
	d->opaque = !!(c->flags & CLIENT_OPAQUE);
	d->pool = c->pool;
	d->surrogate = c->surrogate;
	d->header = c->header;
}
