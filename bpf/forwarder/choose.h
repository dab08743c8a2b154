/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Selects a bucket of a group for a new flow. */
#pragma once

#include "buckets.h"
#include "bindings.h"

/* The port that a bucket watches, if flows can be bound to it now. */
static __always_inline struct port *eligible(struct bucket *b)
{
	struct port *p;

	if (!b->watch)
		return NULL;
	p = bpf_map_lookup_elem(&ports, &b->watch);
	if (!p || !(p->flags & PORT_LIVE) || !(p->flags & PORT_THERE) || !p->seat)
		return NULL;
	return p;
}

#define MAX_TIME (1 << 22) /* us, about 4 s: a cost of all flows at the largest weight fits into 64 bits */

/*
 * Cost of one flow on a port; the method divides the cost of all its flows by the weight. An unmeasured port is tried first, but by one
 * flow at a time: while it has a flow, it counts as fast as the fastest.
 */
static __always_inline __u32 time_of(struct selection *s, const struct bind_seat *seat)
{
	__u64 time = seat->peak / 1000 + 1;

	if (s->method == BIND_LEAST || s->method == BIND_EVEN)
		return 1;
	if (s->method != BIND_FASTEST)
		return 0;
	if (!seat->peak)
		return active_flows(seat) ? UNMEASURED : 0;
	if (time > MAX_TIME)
		time = MAX_TIME;
	if (time < s->fastest)
		s->fastest = time;
	return time;
}

static __always_inline void set_candidate(struct candidate *c, struct bucket *b, struct port *p, __u32 relative,
					  __u32 place)
{
	c->bucket = place;
	c->relative = relative;
	c->seat = p->seat & (BIND_SEATS - 1);
	c->weight = b->weight;
	c->port = p->number;
}

struct listing {
	struct selection *selection;
};

static long list_candidate(__u32 i, struct listing *l)
{
	struct binder *all = the_binder();
	struct selection *s = l->selection;
	struct candidate *c;
	struct bucket *b;
	struct port *p;
	__u32 place, n;

	if (!all)
		return 1;
	place = s->first + i;
	b = bpf_map_lookup_elem(&buckets, &place);
	if (!b)
		return 1;
	p = eligible(b);
	if (!p || s->excluded >> (p->seat & (BIND_SEATS - 1)) & 1)
		return 0;
	if (!b->weight) {
		if (!s->standby.port)
			set_candidate(&s->standby, b, p, i, place);
		return 0;
	}
	n = s->candidates;
	if (n >= BIND_SEATS)
		return 1;
	c = &s->candidate[n & (BIND_SEATS - 1)];
	set_candidate(c, b, p, i, place);
	c->time = time_of(s, seat_of(all, p->seat));
	s->candidates = n + 1;
	return 0;
}

/* Updates the least cost per weight. */
static __always_inline void rank_cost(struct binder *all, struct candidate *c, volatile struct ranking *b,
				      __u64 fastest)
{
	__u64 cost = c->time;

	if (cost == UNMEASURED)
		cost = fastest;
	cost *= active_flows(seat_of(all, c->seat)) + 1;
	c->cost = cost;
	b->total += c->weight;
	if (cost == 1)
		b->idle = 1;
	if (!b->weight || cost * b->weight < b->cost * c->weight) {
		b->cost = cost;
		b->weight = c->weight;
	}
}

/*
 * BIND_EVEN skips a port with more than this many times the flows per weight of the least loaded one. Flows that start together end
 * together, which alone should not break the round-robin: with a lower bound, some of twenty flows lose. With a higher one, a link that
 * has become slow gets too many.
 */
#define EVEN_BOUND 2

/* Decides whether a candidate takes part in the round-robin. */
static __always_inline void mark_due(struct candidate *c, volatile struct ranking *b, __u32 method)
{
	__u64 cost = *(volatile __u64 *)&c->cost, mine = cost * b->weight, least = b->cost * c->weight;
	volatile __u32 *due = &c->due;

	*due = 0;
	if (method != BIND_EVEN ? mine == least : b->idle ? cost == 1 : mine <= EVEN_BOUND * least)
		*due = 1;
}

/* Finds the due candidate with the most credit. With BIND_EVEN skipped candidates earn credit, too, and use it later. */
static __always_inline void add_credit(struct bind_credits *credits, struct candidate *c, volatile struct ranking *b,
				       __u32 i, __u32 method)
{
	__s32 *all = &credits->credit[c->seat & (BIND_SEATS - 1)], credit = *all;
	bool due = *(volatile __u32 *)&c->due;

	if (!due && method != BIND_EVEN)
		return;
	/* it may not have been a candidate for a while */
	if (credit > b->total)
		credit = b->total;
	if (credit < -b->total)
		credit = -b->total;
	credit += c->weight;
	*all = credit;
	b->due_weight += c->weight;
	if (due && (b->best == BIND_SEATS || credit > b->highest)) {
		b->best = i;
		b->highest = credit;
	}
}

/* Rescales the credits when weights change: a credit is worth as many turns as before. */
static __always_inline void rescale_credits(struct bind_credits *credits, volatile struct ranking *b)
{
	__u32 was = credits->total, is = b->total;

	credits->total = is;
	if (!was || was == is)
		return;
	for (__u32 i = 0; i < BIND_SEATS; i++) {
		__s32 credit = credits->credit[i], sign = credit >> 31;
		__u64 worth = (__u32)((credit ^ sign) - sign);

		worth = worth * is / was;
		credits->credit[i] = ((__s32)worth ^ sign) - sign;
	}
}

/*
 * The candidate with the least cost per weight; ties are broken by smooth weighted round-robin: each earns its weight, and the winner pays
 * the sum. Its active count is incremented. Returns its index. Comparisons go through memory, where the verifier does not track the
 * values.
 */
__noinline int choose_candidate(struct selection *s)
{
	struct binder *all = the_binder();
	struct bind_credits *credits;
	struct ranking *b;
	volatile __u32 *n; /* read anew: the verifier would follow each count by itself through all three loops */
	__u32 best, method;

	if (!s || !all)
		return BIND_SEATS;
	credits = bpf_map_lookup_elem(&bind_credits, &s->head);
	if (!credits)
		return BIND_SEATS;
	b = &s->ranking;
	__builtin_memset(b, 0, sizeof(*b));
	b->best = BIND_SEATS;
	n = &s->candidates;
	method = s->method;
	bpf_spin_lock(&all->lock);
	for (__u32 i = 0; i < BIND_SEATS && i < *n; i++)
		rank_cost(all, &s->candidate[i], b, s->fastest);
	rescale_credits(credits, b);
	for (__u32 i = 0; i < BIND_SEATS && i < *n; i++)
		mark_due(&s->candidate[i], b, method);
	for (__u32 i = 0; i < BIND_SEATS && i < *n; i++)
		add_credit(credits, &s->candidate[i], b, i, method);
	best = *(volatile __u32 *)&b->best;
	if (best < BIND_SEATS) {
		__u32 seat = s->candidate[best].seat & (BIND_SEATS - 1);

		credits->credit[seat] -= b->due_weight;
		__sync_fetch_and_add(&all->seat[seat].active, ONE_CHANGE + 1);
	}
	bpf_spin_unlock(&all->lock);
	return best;
}

/* Selects a candidate without choose_candidate. */
static __always_inline void assign(struct selection *s, const struct candidate *c)
{
	struct binder *all = the_binder();

	s->chosen = *c;
	if (all)
		__sync_fetch_and_add(&seat_of(all, c->seat)->active, ONE_CHANGE + 1);
}

/* Search for the candidate with a port or, if that is 0, a bucket. */
struct candidate_match {
	const struct selection *selection;
	__be32 port;
	__u32 bucket;
	__u32 found; /* BIND_SEATS: none */
};

static long find_candidate(__u32 i, struct candidate_match *want)
{
	const struct candidate *c;

	if (i >= BIND_SEATS)
		return 1;
	c = &want->selection->candidate[i];
	if (want->port ? c->port != want->port : c->bucket != want->bucket)
		return 0;
	want->found = i;
	return 1;
}

static __always_inline bool assign_match(struct selection *s, struct candidate_match *want)
{
	want->selection = s;
	want->found = BIND_SEATS;
	bpf_loop(s->candidates & (2 * BIND_SEATS - 1), find_candidate, want, 0);
	if (want->found >= BIND_SEATS)
		return false;
	assign(s, &s->candidate[want->found & (BIND_SEATS - 1)]);
	return true;
}

static __always_inline void remote_of(struct flow_at_hand *f, __u32 group)
{
	f->remote.group = group;
	f->remote.family = f->key.family;
	__builtin_memcpy(f->remote.remote, f->key.remote, 16);
}

/* The port that another flow to the same address uses. */
static __always_inline __be32 affinity_port(struct flow_at_hand *f, const struct selection *s, __u64 now)
{
	struct binding_remote *r;

	remote_of(f, s->id);
	r = bpf_map_lookup_elem(&binding_remotes, &f->remote);
	if (!r || now - r->used > s->affinity * NS)
		return 0;
	return r->port;
}

/* Records the port in use for the flow's remote address. */
static __always_inline void update_remote(struct flow_at_hand *f, __u32 group, __be32 port, __u64 now)
{
	remote_of(f, group);
	f->last.port = port;
	f->last.reserved = 0;
	f->last.used = now;
	bpf_map_update_elem(&binding_remotes, &f->remote, &f->last, BPF_ANY);
}

/* Selects into s->chosen, among candidates not excluded, and counts the flow as active. probe: scratch. Returns -1 if no bucket is live. */
__noinline int choose(struct selection *s, struct flow_at_hand *f, const struct frame *frame, struct fields *probe,
		      __u64 now)
{
	struct candidate_match want = {};
	struct listing l = { .selection = s };
	struct choice c = {};
	__u32 best;

	if (!s || !f || !frame || !probe)
		return -1;
	s->candidates = 0;
	s->fastest = MAX_TIME;
	s->standby.port = 0;
	bpf_loop(s->count < 4096 ? s->count : 4096, list_candidate, &l, 0);
	if (!s->candidates) {
		if (!s->standby.port)
			return -1;
		assign(s, &s->standby);
		return 0;
	}
	if (s->affinity) {
		want.port = affinity_port(f, s, now);
		if (want.port && assign_match(s, &want))
			return 0;
	}
	if (s->method == BIND_HASH) {
		c.first = s->first;
		c.slots = s->slots;
		c.mask = s->slot_mask;
		c.slot = hash_flow(frame, probe);
		bpf_loop(64, choose_slot, &c, 0);
		want.port = 0;
		want.bucket = c.chosen;
		if (c.found && assign_match(s, &want))
			return 0;
	}
	best = choose_candidate(s);
	if (best >= BIND_SEATS)
		return -1;
	s->chosen = s->candidate[best & (BIND_SEATS - 1)];
	return 0;
}
