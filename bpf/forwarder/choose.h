/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which of a group's buckets a new flow is picked for. */
#pragma once

#include "buckets.h"
#include "flows.h"

/* The port that a bucket puts out by what it watches, if it may be picked. */
static __always_inline struct port *pickable(struct bucket *b)
{
	struct port *p;

	if (!b->watch)
		return NULL;
	p = bpf_map_lookup_elem(&ports, &b->watch);
	if (!p || !(p->flags & PORT_LIVE) || !(p->flags & PORT_THERE) || !p->seat)
		return NULL;
	return p;
}

#define MOST_TIME (1 << 22) /* us, about 4 s: with all flows and the largest weight, 64 bits hold a cost */

/*
 * What a flow takes by a port: what all flows take is divided by the weight. A port that was never measured is tried first, but not by all at
 * once: while it has a flow, it is as good as the fastest.
 */
static __always_inline __u32 time_of(struct selection *s, const struct pick_seat *seat)
{
	__u64 time = seat->peak / 1000 + 1;

	if (s->method == PICK_LEAST || s->method == PICK_EVEN)
		return 1;
	if (s->method != PICK_FASTEST)
		return 0;
	if (!seat->peak)
		return active_flows(seat) ? UNMEASURED : 0;
	if (time > MOST_TIME)
		time = MOST_TIME;
	if (time < s->fastest)
		s->fastest = time;
	return time;
}

static __always_inline void keep(struct candidate *c, struct bucket *b, struct port *p, __u32 relative, __u32 place)
{
	c->bucket = place;
	c->relative = relative;
	c->seat = p->seat & (PICK_SEATS - 1);
	c->weight = b->weight;
	c->port = p->number;
}

struct listing {
	struct selection *selection;
};

static long list_candidate(__u32 i, struct listing *l)
{
	struct picking *all = the_picking();
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
	p = pickable(b);
	if (!p || s->excluded >> (p->seat & (PICK_SEATS - 1)) & 1)
		return 0;
	if (!b->weight) {
		if (!s->standby.port)
			keep(&s->standby, b, p, i, place);
		return 0;
	}
	n = s->candidates;
	if (n >= PICK_SEATS)
		return 1;
	c = &s->candidate[n & (PICK_SEATS - 1)];
	keep(c, b, p, i, place);
	c->time = time_of(s, seat_of(all, p->seat));
	s->candidates = n + 1;
	return 0;
}

/* Finds the least cost. */
static __always_inline void bid(struct picking *all, struct candidate *c, volatile struct bidding *b, __u64 fastest)
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
 * PICK_EVEN passes over who has more than so many times the flows for its weight that another has. Flows that begin together end together, which is
 * no reason to leave the turns: less, and of twenty flows some lose them. More, and a link that has become slower gets too many.
 */
#define EVEN_BOUND 2

/* Says whether a candidate has a turn, in memory. */
static __always_inline void judge(struct candidate *c, volatile struct bidding *b, __u32 method)
{
	__u64 cost = *(volatile __u64 *)&c->cost, mine = cost * b->weight, least = b->cost * c->weight;
	volatile __u32 *turn = &c->turn;

	*turn = 0;
	if (method != PICK_EVEN ? mine == least : b->idle ? cost == 1 : mine <= EVEN_BOUND * least)
		*turn = 1;
}

/* Finds whose turn it is among those that have one. With PICK_EVEN those that are passed over earn, too: they are owed their turn. */
static __always_inline void earn(struct pick_turns *turns, struct candidate *c, volatile struct bidding *b, __u32 i,
				 __u32 method)
{
	__s32 *all = &turns->earned[c->seat & (PICK_SEATS - 1)], earned = *all;
	bool has_turn = *(volatile __u32 *)&c->turn;

	if (!has_turn && method != PICK_EVEN)
		return;
	/* those that were no candidates meanwhile */
	if (earned > b->total)
		earned = b->total;
	if (earned < -b->total)
		earned = -b->total;
	earned += c->weight;
	*all = earned;
	b->among += c->weight;
	if (has_turn && (b->best == PICK_SEATS || earned > b->richest)) {
		b->best = i;
		b->richest = earned;
	}
}

/* Weights are others than before: what was earned by those is worth as many turns now. */
static __always_inline void convert(struct pick_turns *turns, volatile struct bidding *b)
{
	__u32 was = turns->total, is = b->total;

	turns->total = is;
	if (!was || was == is)
		return;
	for (__u32 i = 0; i < PICK_SEATS; i++) {
		__s32 earned = turns->earned[i], sign = earned >> 31;
		__u64 worth = (__u32)((earned ^ sign) - sign);

		worth = worth * is / was;
		turns->earned[i] = ((__s32)worth ^ sign) - sign;
	}
}

/*
 * The candidate that costs least for its weight; among equals by turns: each earns its weight, and the richest pays what all have earned. Its
 * flow is active from here on. Returns which one it is. What is compared is kept in memory, where the verifier does not follow it.
 */
__noinline int choose_candidate(struct selection *s)
{
	struct picking *all = the_picking();
	struct pick_turns *turns;
	struct bidding *b;
	__u32 n, best, method;

	if (!s || !all)
		return PICK_SEATS;
	turns = bpf_map_lookup_elem(&pick_turns, &s->head);
	if (!turns)
		return PICK_SEATS;
	b = &s->bidding;
	__builtin_memset(b, 0, sizeof(*b));
	b->best = PICK_SEATS;
	n = s->candidates;
	method = s->method;
	bpf_spin_lock(&all->lock);
	for (__u32 i = 0; i < PICK_SEATS && i < n; i++)
		bid(all, &s->candidate[i], b, s->fastest);
	convert(turns, b);
	for (__u32 i = 0; i < PICK_SEATS && i < n; i++)
		judge(&s->candidate[i], b, method);
	for (__u32 i = 0; i < PICK_SEATS && i < n; i++)
		earn(turns, &s->candidate[i], b, i, method);
	best = *(volatile __u32 *)&b->best;
	if (best < PICK_SEATS) {
		__u32 seat = s->candidate[best].seat & (PICK_SEATS - 1);

		turns->earned[seat] -= b->among;
		__sync_fetch_and_add(&all->seat[seat].active, ONE_CHANGE + 1);
	}
	bpf_spin_unlock(&all->lock);
	return best;
}

/* Takes a candidate otherwise than by choose_candidate. */
static __always_inline void take(struct selection *s, const struct candidate *c)
{
	struct picking *all = the_picking();

	s->chosen = *c;
	if (all)
		__sync_fetch_and_add(&seat_of(all, c->seat)->active, ONE_CHANGE + 1);
}

/* Which candidate has a port or, if that is 0, a bucket. */
struct wanted_candidate {
	const struct selection *selection;
	__be32 port;
	__u32 bucket;
	__u32 found; /* PICK_SEATS: none */
};

static long find_candidate(__u32 i, struct wanted_candidate *want)
{
	const struct candidate *c;

	if (i >= PICK_SEATS)
		return 1;
	c = &want->selection->candidate[i];
	if (want->port ? c->port != want->port : c->bucket != want->bucket)
		return 0;
	want->found = i;
	return 1;
}

static __always_inline bool take_wanted(struct selection *s, struct wanted_candidate *want)
{
	want->selection = s;
	want->found = PICK_SEATS;
	bpf_loop(s->candidates & (2 * PICK_SEATS - 1), find_candidate, want, 0);
	if (want->found >= PICK_SEATS)
		return false;
	take(s, &s->candidate[want->found & (PICK_SEATS - 1)]);
	return true;
}

static __always_inline void remote_of(struct flow_at_hand *f, __u32 group)
{
	f->remote.group = group;
	f->remote.family = f->key.family;
	__builtin_memcpy(f->remote.remote, f->key.remote, 16);
}

/* The port of another flow to the same address. */
static __always_inline __be32 companion(struct flow_at_hand *f, const struct selection *s, __u64 now)
{
	struct pick_remote *r;

	remote_of(f, s->id);
	r = bpf_map_lookup_elem(&pick_remotes, &f->remote);
	if (!r || now - r->used > s->together * NS)
		return 0;
	return r->port;
}

/* Notes that a flow to its address uses a port. */
static __always_inline void note_remote(struct flow_at_hand *f, __u32 group, __be32 port, __u64 now)
{
	remote_of(f, group);
	f->last.port = port;
	f->last.reserved = 0;
	f->last.used = now;
	bpf_map_update_elem(&pick_remotes, &f->remote, &f->last, BPF_ANY);
}

/* Chooses into s->chosen, among what is not excluded, and counts the flow as active. probe: room. Returns -1 when nothing lives. */
__noinline int choose(struct selection *s, struct flow_at_hand *f, const struct frame *frame, struct fields *probe,
		      __u64 now)
{
	struct wanted_candidate want = {};
	struct listing l = { .selection = s };
	struct choice c = {};
	__u32 best;

	if (!s || !f || !frame || !probe)
		return -1;
	s->candidates = 0;
	s->fastest = MOST_TIME;
	s->standby.port = 0;
	bpf_loop(s->count < 4096 ? s->count : 4096, list_candidate, &l, 0);
	if (!s->candidates) {
		if (!s->standby.port)
			return -1;
		take(s, &s->standby);
		return 0;
	}
	if (s->together) {
		want.port = companion(f, s, now);
		if (want.port && take_wanted(s, &want))
			return 0;
	}
	if (s->method == PICK_HASH) {
		c.first = s->first;
		c.slots = s->slots;
		c.mask = s->slot_mask;
		c.slot = hash_flow(frame, probe);
		bpf_loop(64, choose_slot, &c, 0);
		want.port = 0;
		want.bucket = c.chosen;
		if (c.found && take_wanted(s, &want))
			return 0;
	}
	best = choose_candidate(s);
	if (best >= PICK_SEATS)
		return -1;
	s->chosen = s->candidate[best & (PICK_SEATS - 1)];
	return 0;
}
