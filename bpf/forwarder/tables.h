/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Table lookup. The second level of the flow cache holds the entries of a packet's whole walk through the tables; behind it each table is
 * looked up once per subtable (tuple space search).
 */
#pragma once

#include "hash.h"
#include "maps.h"
#include "traversal.h"

struct search {
	const struct fields *have;
	struct fields *probe;
	__u32 first;
	__u32 count;
	__u32 entry;
	__u32 priority;
};

static long look_up_one(__u32 i, struct search *s)
{
	const __u64 *mask, *have = (const __u64 *)s->have;
	__u64 *word, *probe = (__u64 *)s->probe;
	__u32 place = s->first + i;
	struct subtable *sub;
	struct listed item;
	struct rule *hit;

	word = bpf_map_lookup_elem(&lists, &place);
	if (!word)
		return 1;
	*(__u64 *)&item = *(volatile __u64 *)word;
	if (s->entry != NO_ENTRY && s->priority >= item.best)
		return 1; /* no better priority follows */
	sub = bpf_map_lookup_elem(&subtables, &item.subtable);
	if (!sub)
		return 1;
	mask = (const __u64 *)&sub->mask;
#pragma unroll
	for (int j = 0; j < FIELD_WORDS; j++)
		probe[j] = have[j] & mask[j];
	s->probe->subtable = item.subtable;
	s->probe->unused = 0;
	hit = bpf_map_lookup_elem(&rules, s->probe);
	if (hit) {
		struct rule f;

		*(__u64 *)&f = *(volatile __u64 *)hit;
		if (s->entry == NO_ENTRY || f.priority > s->priority) {
			s->entry = f.entry;
			s->priority = f.priority;
		}
	}
	return 0;
}

/* Returns the entry's index, or NO_ENTRY. */
__noinline __u32 classify(const struct fields *have, struct fields *probe, __u32 number)
{
	struct table *from = bpf_map_lookup_elem(&tables, &number);
	struct search s = { .have = have, .probe = probe, .entry = NO_ENTRY };
	__u64 list;

	if (!from || !have || !probe)
		return NO_ENTRY;
	list = *(volatile __u64 *)from;
	s.first = (__u32)list;
	s.count = list >> 32;
	if (s.count > MAX_SUBTABLES)
		s.count = MAX_SUBTABLES;
	bpf_loop(s.count, look_up_one, &s, 0);
	return s.entry;
}

/* The cache is 2-way set-associative: the slot of the hash, and its neighbour. */
static __always_inline struct megaflow *megaflow_slot(struct pipeline *st, __u32 hash, __u32 way)
{
	__u32 place;

	if (st->megaflows <= way)
		return NULL;
	place = bpf_get_smp_processor_id() * st->megaflows + ((hash & (st->megaflows - 1)) ^ way);
	return bpf_map_lookup_elem(&megaflows, &place);
}

static __always_inline bool same_megaflow(const struct megaflow *p, const struct megaflow *want)
{
	const __u64 *a = (const __u64 *)&p->fields, *b = (const __u64 *)&want->fields;
	__u64 differs = 0;

	if (p->epoch != want->epoch || p->hash != want->hash || p->count > MEGAFLOW_TABLES)
		return false;
#pragma unroll
	for (int i = 0; i < FIELD_WORDS; i++)
		differs |= a[i] ^ b[i];
	return !differs;
}

/* Looks up the packet's megaflow. fields are those that it came in with. */
__noinline int lookup_megaflow(struct trail *trail, const struct fields *fields)
{
	struct pipeline *st = the_pipeline();
	const __u64 *have, *mask;
	struct megaflow *p;
	__u64 *want;

	if (!trail || !fields || !st)
		return 0;
	have = (const __u64 *)fields;
	mask = (const __u64 *)&st->used;
	want = (__u64 *)&trail->megaflow.fields;
	trail->megaflow.epoch = *(volatile __u64 *)&st->epoch;
	asm volatile("" ::: "memory"); /* used is of that epoch or a later one */
#pragma unroll
	for (int i = 0; i < FIELD_WORDS; i++)
		want[i] = have[i] & mask[i];
	trail->megaflow.hash = hash_fields(&trail->megaflow.fields);
	trail->at = trail->cached = 0;
	trail->megaflow.count = 0;
	trail->learning = 1;
	p = megaflow_slot(st, trail->megaflow.hash, 0);
	if (!p)
		return 0;
	if (!same_megaflow(p, &trail->megaflow)) {
		p = megaflow_slot(st, trail->megaflow.hash, 1);
		if (!p || !same_megaflow(p, &trail->megaflow))
			return 0;
	}
	__builtin_memcpy(trail->megaflow.entry, p->entry, sizeof(trail->megaflow.entry));
	trail->cached = p->count;
	trail->learning = 0;
	count(MEGAFLOWS_HIT);
	return 0;
}

/* Caches the packet's walk; prefers a stale slot. */
__noinline int store_megaflow(struct trail *trail)
{
	struct pipeline *st = the_pipeline();
	struct megaflow *p, *other;

	if (!trail || !st || !trail->megaflow.count)
		return 0;
	p = megaflow_slot(st, trail->megaflow.hash, 0);
	if (!p)
		return 0;
	if (p->epoch == trail->megaflow.epoch) {
		other = megaflow_slot(st, trail->megaflow.hash, 1);
		if (other && (other->epoch != trail->megaflow.epoch || bpf_get_prandom_u32() & 1))
			p = other;
	}
	__builtin_memcpy(p, &trail->megaflow, sizeof(*p));
	return 0;
}

/* Stops using or recording the megaflow: later lookups do not depend on the incoming fields only. */
static __always_inline void leave_megaflow(struct trail *trail)
{
	if (trail->learning) {
		store_megaflow(trail);
		trail->learning = 0;
	}
	trail->cached = trail->at;
}

/* Returns the index of the entry that the packet matches in a table. */
static __always_inline __u32 match_entry(struct trail *trail, const struct fields *have, struct fields *probe,
					 __u32 table)
{
	__u32 at = trail->at, entry;

	if (at < trail->cached && at < MEGAFLOW_TABLES) {
		trail->at = at + 1;
		return trail->megaflow.entry[at];
	}
	entry = classify(have, probe, table);
	if (trail->learning && at < MEGAFLOW_TABLES) {
		trail->megaflow.entry[at] = entry;
		trail->megaflow.count = trail->at = at + 1;
	}
	return entry;
}
