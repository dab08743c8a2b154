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
