/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Liveness of buckets, and selection by hash. */
#pragma once

#include "frame.h"
#include "hash.h"
#include "maps.h"

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

/*
 * Hashes the flow: all fields that distinguish flows, and none that may vary within one (flags, priorities, ECN, extension headers). The
 * IPv6 flow label, which Linux changes when a connection is in trouble, is hashed only if there is no transport header; for fragments,
 * nothing behind the network header is. f: scratch.
 */
static __always_inline __u32 hash_flow(const struct frame *frame, struct fields *f)
{
	__builtin_memcpy(f, &frame->fields, sizeof(*f));
	f->metadata = f->tunnel_id = 0;
	f->vlan_pcp = f->mpls_tc = 0;
	f->ip_ecn = f->ip_dscp = 0;
	f->ipv6_exthdr = f->tcp_flags = 0;
	if (frame->fragment) {
		f->l4_src = f->l4_dst = 0;
		if (frame->kind3 == L3_IPV6) {
			f->ip_proto = 0;
			__builtin_memset(f->link_src, 0,
					 offsetof(struct fields, subtable) - offsetof(struct fields, link_src));
		}
	} else if (frame->kind4) {
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
	__u32 chosen; /* index, if found */
	__u32 found;
};

/* Rehashes for a dead bucket, so that its flows spread over all others and not to its neighbour in slots. */
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
