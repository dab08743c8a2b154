/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Groups [5.6]. What a bucket does to a packet is not seen by the actions after the group, so they get a copy, unless nothing comes after. */
#pragma once

#include "output.h"
#include "tables.h"

static __always_inline bool live(struct bucket *b)
{
	struct port *p;

	if (b->flags & BUCKET_WATCHES && !(b->flags & BUCKET_DEAD))
		return true;
	if (!b->watch)
		return !(b->flags & BUCKET_WATCHES);
	p = bpf_map_lookup_elem(&ports, &b->watch);
	return p && p->flags & PORT_LIVE && p->flags & PORT_THERE;
}

/* Whether nothing comes after the op at hand. */
static __always_inline bool last(struct traversal *t)
{
	struct flow_entry *e;

	if (t->list.next < t->list.end || t->depth)
		return false;
	if (t->phase == PHASE_SET || t->phase == PHASE_LIST)
		return true; /* a group is the last of an action set, but for outputs, which it replaces */
	e = bpf_map_lookup_elem(&entries, &t->entry);
	return e && !(e->flags & ENTRY_GOTO) && !e->write && (!t->in_set || e->flags & ENTRY_CLEAR);
}

/* Has the ops [first, first + n) executed next, and what follows the op at hand after them. */
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

/*
 * Whatever differs between two flows tells them apart, and nothing that may differ between two packets of one: flags, priorities, marks of
 * congestion, extension headers; the flow label, which Linux changes when a connection is in trouble, unless there is nothing better; and
 * what is behind a network header, if a fragment may be without it.
 */
static __always_inline __u32 hash_flow(struct traversal *t)
{
	struct fields *f = &t->probe;

	__builtin_memcpy(f, &t->fields, sizeof(*f));
	f->metadata = f->tunnel_id = 0;
	f->vlan_pcp = f->mpls_tc = 0;
	f->ip_ecn = f->ip_dscp = 0;
	f->ipv6_exthdr = f->tcp_flags = 0;
	if (t->fragment) {
		f->l4_src = f->l4_dst = 0;
		if (t->kind3 == L3_IPV6) {
			f->ip_proto = 0;
			__builtin_memset(f->link_src, 0,
					 offsetof(struct fields, subtable) - offsetof(struct fields, link_src));
		}
	} else if (t->kind4) {
		f->flow_label = 0;
	}
	return hash_fields(f);
}

struct choice {
	__u32 first;
	__u32 count;
	__u32 slots;
	__u32 slot;
	__u32 mask;
	__u32 chosen; /* place, if found */
	__u32 found;
};

/* The flows of a dead bucket are told apart again, or its neighbours in slots would get them all. */
static __always_inline __u32 again(__u32 hash, __u32 i)
{
	hash += i * 0x9e3779b1U;
	hash = (hash ^ hash >> 16) * 0x7feb352dU;
	hash = (hash ^ hash >> 15) * 0x846ca68bU;
	return hash ^ hash >> 16;
}

static long choose_slot(__u32 i, struct choice *c)
{
	__u32 slot = i ? again(c->slot, i) : c->slot, place = c->slots + (slot & c->mask), *relative, bucket;
	struct bucket *b;

	relative = bpf_map_lookup_elem(&slots, &place);
	if (!relative)
		return 1;
	bucket = c->first + *relative;
	b = bpf_map_lookup_elem(&buckets, &bucket);
	if (!b)
		return 1;
	if (!live(b))
		return 0;
	c->chosen = bucket;
	c->found = 1;
	return 1;
}

static long choose_first(__u32 i, struct choice *c)
{
	__u32 bucket = c->first + i;
	struct bucket *b = bpf_map_lookup_elem(&buckets, &bucket);

	if (!b)
		return 1;
	if (!live(b))
		return 0;
	c->chosen = bucket;
	c->found = 1;
	return 1;
}

/* Has a bucket's actions executed next. */
static __always_inline int run_bucket(struct __sk_buff *skb, struct traversal *t, struct bucket *b, __u32 place)
{
	if (!(b->flags & BUCKET_PLAIN) && !last(t)) {
		flush(skb);
		return copy_to(skb, place);
	}
	account(&bucket_counts, place, t);
	return nest(t, b->ops, b->count);
}

/* OP_GROUP. Returns 0, or 1 when the packet has ended. */
__noinline int run_group(struct __sk_buff *skb, __u32 place)
{
	struct group_head *head = bpf_map_lookup_elem(&group_heads, &place);
	struct choice c = {};
	struct traversal *t = traversal();
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
		if (t->verdict == DROPPED)
			t->verdict = DROP_GROUP;
		return 0;
	}
	account(&group_counts, place, t);
	if (g->kind == GROUP_ALL)
		return nest(t, g->first, g->count);
	c.first = g->first;
	c.count = g->count;
	c.slots = g->slots;
	c.mask = g->slot_mask;
	if (g->kind == GROUP_SELECT) {
		c.slot = hash_flow(t);
		bpf_loop(c.count ? 64 : 0, choose_slot, &c, 0);
	}
	if (!c.found)
		bpf_loop(c.count < 4096 ? c.count : 4096, choose_first, &c, 0);
	b = c.found ? bpf_map_lookup_elem(&buckets, &c.chosen) : NULL;
	if (!b) {
		if (t->verdict == DROPPED)
			t->verdict = DROP_GROUP;
		return 0;
	}
	return run_bucket(skb, t, b, c.chosen);
}
