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
static __always_inline __u32 first_flags(const struct deciding *d)
{
	__u32 flags = d->moved_from == NO_SPLICE ? SPLICE_FIRST : 0;

	if (d->client.flags & CLIENT_SACK)
		flags |= SPLICE_CLIENT_SACK;
	if (d->client.flags & CLIENT_WSCALE)
		flags |= SPLICE_CLIENT_WSCALE;
	if (!(d->routing.vip.flags & VIP_ONE_POOL))
		flags |= SPLICE_ROUTED;
	if (d->routing.vip.flags & VIP_HOLD)
		flags |= SPLICE_HOLD | SPLICE_ROUTED;
	if (d->leg.reuse == REUSE_NEVER)
		flags |= SPLICE_SPOILT;
	return flags;
}

/*
 * Sends the translated request, followed by an ACK with the client's window. The ACK's sequence number is after the
 * request, so the surrogate accepts its window even if smaller than an earlier client's. out->reply.seq is set.
 */
static __always_inline void widen(struct __sk_buff *skb, const struct packet *p, struct outbound *out)
{
	struct translation *t = &out->translation;
	struct segment *r;

	if (!t->hop.checked) /* the neighbour is resolved on output, which works for one packet only */
		return;
	bpf_clone_redirect(skb, t->hop.ifindex, 0);
	r = ack_like(&out->reply, t);
	r->with_ts = t->keep_ts && has_ts(p);
	r->with_sack = 0;
	r->wscale = NO_SCALE;
	r->mss = 0;
	r->v6 = p->v6;
	out->action = TC_ACT_SHOT;
	if (write_segment(skb, r))
		out->action = redirect(&t->hop);
}

/* Joins the client to d->leg and points its flow to it, in place of d->moved_from. Returns 0, or a verdict. */
__noinline int join_leg(struct __sk_buff *skb, const struct inbound *in, struct deciding *d, struct outbound *out)
{
	struct config *set = config();
	struct input event = { .now = clock_ms() };
	struct flow f = { .side = SIDE_CLIENT };
	struct request_log *l;
	bool first, joined;
	struct splice *s;

	if (!in || !d || !out || !set)
		return DROP_NOMEM;
	s = splice_at(d->leg.idx);
	if (!s)
		return DROP_NOMEM;
	begin_event(&event, in, set);
	first = d->moved_from == NO_SPLICE;
	d->joining.ifindex = skb->ifindex;
	d->joining.flags = first_flags(d);
	d->joining.insertion = insertion_of(&out->own.introduction);
	d->joining.band = d->client.band;
	d->joining.shift = d->client.wscale;
	f.splice = d->leg.idx;
	if (bpf_map_update_elem(&flows, &in->packet.key, &f, first ? BPF_NOEXIST : BPF_EXIST)) {
		return_leg(&d->leg);
		return bpf_map_lookup_elem(&flows, &in->packet.key) ? DROP_RACE : DROP_FLOWS_FULL;
	}
	l = log_at(d->leg.idx);
	bpf_spin_lock(&s->lock);
	joined = join_event(s, &event, &d->decision, &d->joining, d->leg.surrogate, d->leg.leg_class, &out->translation,
			    &out->joined);
	if (joined && l)
		begin_log(l, &d->request, s, in->packet.seq,
			  insertion_goes_first(&out->own.introduction) ? 0 : in->packet.len);
	bpf_spin_unlock(&s->lock);
	if (joined) {
		miss_log(&d->request, l);
		return 0;
	}
	f.splice = d->moved_from;
	if (first)
		bpf_map_delete_elem(&flows, &in->packet.key);
	else
		bpf_map_update_elem(&flows, &in->packet.key, &f, BPF_EXIST);
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
__noinline int splice_client(struct __sk_buff *skb, struct inbound *in, struct deciding *d, struct outbound *out)
{
	struct config *set = config();
	struct popped_leg *leg;
	__u32 now = clock_ms();
	struct surrogate *counters;
	int chosen, verdict;
	struct splice *s;

	if (!in || !d || !out || !set)
		return NO_LEG;
	leg = &d->leg;
	chosen = d->decision.surrogate == NO_SURROGATE
			 ? choose(&in->packet, &d->reading.scan, &d->routing, d->decision.pool)
			 : d->decision.surrogate;
	if (chosen < 0 || chosen >= MAX_SURROGATES)
		return NO_LEG;
	leg->surrogate = chosen;
	counters = surrogate_at(leg->surrogate);
	if (!counters)
		return NO_LEG;
	leg->leg_class = class_for(set, &d->client) & (LEG_CLASSES - 1);
	leg->reuse = reuse_of(d->routing.generation, d->decision.pool);
	s = pop_leg(&d->client, &in->packet.key, d->moved_from == NO_SPLICE, leg);
	if (!s) {
		__sync_fetch_and_add(&counters->missed[class_of(leg)], 1);
		return NO_LEG;
	}
	if (!prepare_insertion(skb, &in->packet, d, &out->own, leg->idx, in->packet.ack)) {
		return_leg(leg);
		return DROP_NOMEM;
	}
	if (insertion_goes_first(&out->own.introduction))
		walk_later(&d->decision, &in->walk);
	else if (d->decision.chunked)
		walk_first(skb, &in->packet, &d->decision, &in->walk);
	if (!insertion_goes_first(&out->own.introduction) && d->routing.vip.flags & VIP_HOLD &&
	    !hold_first(skb, &in->packet, &d->decision, &in->walk, &in->sum)) {
		return_leg(leg);
		return DROP_EARLY;
	}
	verdict = join_leg(skb, in, d, out);
	if (verdict)
		return verdict;
	count_handoff(counters, leg, out->joined.leg_band);
	if (insertion_goes_first(&out->own.introduction))
		return send_inserted(skb, &in->packet, out, now, d->moved_from == NO_SPLICE ? HANDOFF : MOVED);
	verdict = send_head(skb, in, out, &d->routing.vip, s, now, d->moved_from == NO_SPLICE ? HANDOFF : MOVED);
	if (out->joined.widen && (verdict == HANDOFF || verdict == MOVED)) {
		out->reply.seq = out->joined.behind;
		widen(skb, &in->packet, out);
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
