/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Groups [5.6]. A bucket's changes must not affect the actions after the group, so buckets get a copy, unless the group is in tail position. */
#pragma once

#include "buckets.h"
#include "output.h"

/* Whether the current op is in tail position. */
static __always_inline bool last(struct traversal *t)
{
	struct flow_entry *e;

	if (t->list.next < t->list.end || t->depth)
		return false;
	if (t->phase == PHASE_SET || t->phase == PHASE_LIST)
		return true; /* in an action set a group is last but for outputs, which it replaces */
	e = bpf_map_lookup_elem(&entries, &t->entry);
	return e && !(e->flags & ENTRY_GOTO) && !e->write && (!t->in_set || e->flags & ENTRY_CLEAR);
}

/* Executes ops[first, first + n) next, then the rest of the current list. */
static __always_inline int nest(struct traversal *t, __u32 first, __u32 n)
{
	if (t->list.next < t->list.end) {
		if (t->depth >= MAX_NESTED)
			return stop(t, DROP_TOO_LONG);
		t->outer[t->depth & (MAX_NESTED - 1)] = t->list;
		t->depth++;
	}
	t->list.next = first;
	t->list.end = first + n;
	return 0;
}

/* Executes a bucket's actions next. */
static __always_inline int run_bucket(struct __sk_buff *skb, struct traversal *t, struct bucket *b, __u32 place)
{
	if (!(b->flags & BUCKET_PLAIN) && !last(t)) {
		flush(skb, &t->outcome);
		return copy_to(skb, t, place);
	}
	account(&bucket_counts, place, &t->weight);
	return nest(t, b->ops, b->count);
}

/* OP_GROUP. Returns 0, or 1 when the packet has ended. */
__noinline int run_group(struct __sk_buff *skb, struct traversal *t, __u32 place)
{
	struct group_head *head = bpf_map_lookup_elem(&group_heads, &place);
	struct choice c = {};
	struct group *g = NULL;
	struct bucket *b;
	__u32 version;

	if (!t)
		return 1;
	if (head) {
		version = *(volatile __u32 *)&head->version;
		g = bpf_map_lookup_elem(&groups, &version);
	}
	if (!g || !g->kind) {
		if (t->outcome.verdict == DROPPED)
			t->outcome.verdict = DROP_GROUP;
		return 0;
	}
	account(&group_counts, place, &t->weight);
	if (g->kind == GROUP_ALL)
		return nest(t, g->first, g->count);
	c.first = g->first;
	c.count = g->count;
	c.slots = g->slots;
	c.mask = g->slot_mask;
	if (g->kind == GROUP_SELECT) {
		c.slot = hash_flow(&t->frame, &t->probe);
		bpf_loop(c.count ? 64 : 0, choose_slot, &c, 0);
	}
	if (!c.found)
		bpf_loop(c.count < 4096 ? c.count : 4096, choose_first, &c, 0);
	b = c.found ? bpf_map_lookup_elem(&buckets, &c.chosen) : NULL;
	if (!b) {
		if (t->outcome.verdict == DROPPED)
			t->outcome.verdict = DROP_GROUP;
		return 0;
	}
	return run_bucket(skb, t, b, c.chosen);
}
