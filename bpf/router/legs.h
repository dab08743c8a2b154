/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Leg pools: queues of idle legs, and events about legs for user space. */
#pragma once

#include "../kernel/clock.h"
#include "../session/state.h"
#include "maps.h"

/* The request limit of the surrogate's legs. */
static __always_inline __u32 limit_of(__u32 surrogate)
{
	struct limit *l = bpf_map_lookup_elem(&limits, &surrogate);

	return l && l->requests ? l->requests : ~0U;
}

static __always_inline __u32 reuse_of(__u32 generation, __u32 pool)
{
	__u32 place = generation * MAX_POOLS + pool;
	struct pool *p = bpf_map_lookup_elem(&pools, &place);

	return p ? p->reuse : REUSE_NEVER;
}

static __always_inline __u16 header_of(__u32 generation, __u32 pool)
{
	__u32 place = generation * MAX_POOLS + pool;
	struct pool *p = bpf_map_lookup_elem(&pools, &place);

	return p ? p->header : HEADER_NONE;
}

static __always_inline void count_idle(__u32 surrogate, __u32 leg_class, __u32 band, __s32 by)
{
	struct surrogate *counters = surrogate_at(surrogate);

	if (!counters || leg_class >= LEG_CLASSES)
		return;
	__sync_fetch_and_add(&counters->idle[leg_class], by);
	if (band == BAND_NONE)
		__sync_fetch_and_add(&counters->fresh[leg_class], by);
}

static __always_inline void *queue_of(__u32 surrogate, __u32 leg_class, __u32 band)
{
	__u32 key = (surrogate * LEG_CLASSES + leg_class) * LEG_BANDS + band;

	return bpf_map_lookup_elem(&idle_legs, &key);
}

/* Unread bytes of events before a wake-up, and for how many more there is one: several CPUs may report at once. User space also
 * polls ten times a second, and more often when it opens legs. */
#define EVENT_BYTES   (sizeof(struct leg_event) + BPF_RINGBUF_HDR_SZ)
#define EVENTS_UNREAD (64 * EVENT_BYTES)
#define EVENTS_MORE   (4 * EVENT_BYTES)

/* Called without the lock; the splice's state keeps others away. */
static __always_inline void report(__u32 kind, __u32 end, __u32 idx, const struct splice *s, __u32 now)
{
	struct leg_event *e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);

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
	e->at = now;
	/* all but legs that a request may wait for, or whose tuple one may: a wake-up for each would cost more than everything else */
	bpf_ringbuf_submit(
		e, kind == EVENT_LEG_UP || kind == EVENT_LEG_STALE || end == LEG_MALFORMED || s->flags & SPLICE_KEEP ||
				   bpf_ringbuf_query(&events, BPF_RB_AVAIL_DATA) - EVENTS_UNREAD < EVENTS_MORE
			   ? BPF_RB_FORCE_WAKEUP
			   : BPF_RB_NO_WAKEUP);
}

/*
 * Queues an idle leg; without a queue, or if it is full, retires it. Whoever moves a leg out of state IDLE updates the
 * counters; the queue may hold legs that have died.
 */
__noinline int push_leg(__u32 surrogate, __u32 leg_class, __u32 band, __u32 idx)
{
	void *queue = queue_of(surrogate, leg_class, band & (LEG_BANDS - 1));
	struct splice *s = splice_at(idx);
	__u32 now = clock_ms();
	bool retired;

	/* one that keeps its client's address is found by its number */
	if (!s || s->flags & SPLICE_KEEP || (queue && !bpf_map_push_elem(queue, &idx, 0)))
		return 0;
	bpf_spin_lock(&s->lock);
	retired = retire_event(s, now);
	bpf_spin_unlock(&s->lock);
	if (!retired)
		return 0;
	count_idle(surrogate, leg_class, band, -1);
	report(EVENT_LEG_DOWN, LEG_RETIRED, idx, s, now);
	return 0;
}

/* Dead legs to skip before a request gives up on the pool. */
#define STALE_LEGS 8

/* Bounded again, as the verifier has lost track. */
static __always_inline __u32 class_of(const struct popped_leg *t)
{
	__u32 leg_class = t->leg_class;

	hide(leg_class);
	return leg_class & (LEG_CLASSES - 1);
}

static __always_inline void return_leg(const struct popped_leg *t)
{
	push_leg(t->surrogate, t->leg_class, t->band, t->idx);
}

static __always_inline bool is_idle_of(const struct splice *s, const struct popped_leg *t)
{
	return s && s->state == SPLICE_IDLE && s->surrogate == t->surrogate && s->leg_class == t->leg_class;
}

/* Pops an idle leg of t's surrogate, class and reuse for the client of key. NULL: none. */
static __always_inline struct splice *pop_leg(const struct client *c, const struct tuple *key, bool first,
					      struct popped_leg *t)
{
	void *queue;

	t->band = c->band & (LEG_BANDS - 1);
	if (t->band >= BAND_FAR || t->reuse == REUSE_NEVER || (t->reuse == REUSE_SAFE && first))
		t->band = BAND_NONE; /* legs that have served nobody */
	if (c->leg) {
		struct splice *kept = splice_at(c->leg - 1);

		t->idx = c->leg - 1;
		return is_idle_of(kept, t) && may_serve(kept, key) ? kept : NULL;
	}
	queue = queue_of(t->surrogate, t->leg_class, t->band);
	for (int i = 0; i < STALE_LEGS; i++) {
		struct splice *s;

		if (!queue || bpf_map_pop_elem(queue, &t->idx)) {
			if (t->band == BAND_NONE)
				break;
			t->band = BAND_NONE;
			queue = queue_of(t->surrogate, t->leg_class, t->band);
			continue;
		}
		s = splice_at(t->idx);
		if (is_idle_of(s, t))
			return s; /* others have died in the queue */
	}
	return NULL;
}
