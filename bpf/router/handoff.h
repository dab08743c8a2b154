/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hands a client off: joins it to a leg of its decided request's surrogate. */
#pragma once

#include "../session/join.h"
#include "decide.h"
#include "hold.h"
#include "insertion.h"
#include "legs.h"
#include "log.h"
#include "syn_options.h"
#include "walk.h"
#include "work.h"

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

/* Splices the client to a leg for its decided request. Returns a verdict, or NO_LEG. */
__noinline int splice_client(struct __sk_buff *skb, __u32 moved_from, __u32 ts_client)
{
	struct work *w = work();
	struct config *set = config();
	struct popped_leg t = { .idx = NO_SPLICE };
	__u32 now = clock_ms();
	struct surrogate *counters;
	int chosen, verdict;
	struct splice *s;

	if (!w || !set)
		return NO_LEG;
	chosen = w->decision.surrogate == NO_SURROGATE
			 ? choose(&w->packet, &w->reading.scan, &w->routing, w->decision.pool)
			 : w->decision.surrogate;
	if (chosen < 0 || chosen >= MAX_SURROGATES)
		return NO_LEG;
	t.surrogate = chosen;
	counters = surrogate_at(t.surrogate);
	if (!counters)
		return NO_LEG;
	t.leg_class = class_for(set, &w->client) & (LEG_CLASSES - 1);
	t.reuse = reuse_of(w->routing.generation, w->decision.pool);
	s = pop_leg(&w->client, &w->packet.key, moved_from == NO_SPLICE, &t);
	if (!s) {
		__sync_fetch_and_add(&counters->missed[class_of(&t)], 1);
		return NO_LEG;
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
