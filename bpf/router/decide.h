/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Routes a request to a pool and a surrogate as far as the kernel can. The rest is an upcall. */
#pragma once

#include "host.h"
#include "maps.h"
#include "parse.h"

/*
 * The host's number. Names are compared in lower case, without the port and a trailing dot. 0: in no route. -1: upcall.
 */
static __always_inline int host_of(const struct scan *s, struct host_key *host, __u16 vip)
{
	__u32 off = s->host, end = s->name_end, last = end - 1;
	__u64 *to = (__u64 *)host->name;
	__u16 *id;
	int left;

	host->vip = vip;
	host->pad[0] = host->pad[1] = host->pad[2] = 0;
	if (off > HEAD_BYTES || end > HEAD_BYTES || s->bytes[off] == '[')
		return -1;
	hide(last);
	if (end > off && last < HEAD_BYTES && s->bytes[last] == '.')
		end = last;
	left = end - off;
	if (left >= HOST_BYTES)
		return -1;
#pragma unroll
	for (int i = 0; i < HOST_BYTES / 8; i++) {
		__u64 x = word_at(s, off) | LOWER;

		to[i] = left <= 0 ? 0 : left < 8 ? FIRST(left, x) : x;
		left -= 8;
		off += 8;
	}
	id = bpf_map_lookup_elem(&hosts, host);
	return id ? *id : 0;
}

static __always_inline struct vip *vip_of(const struct packet *p, __be16 port, __u32 *generation)
{
	struct vip_key key = { .port = port };
	struct config *set = config();

	if (!set)
		return NULL;
	*generation = *(volatile __u32 *)&set->generation;
	key.generation = *generation;
	copy_addr(key.addr, p->key.dst);
	return bpf_map_lookup_elem(&vips, &key);
}

/* Copies the packet's VIP and its generation, whose tables decide the request. False: no VIP in mode handoff. */
static __always_inline bool to_vip(const struct packet *p, struct routing *q)
{
	struct vip *vip = vip_of(p, p->key.dport, &q->generation);

	if (!vip || vip->mode != MODE_HANDOFF)
		return false;
	q->vip = *vip;
	return true;
}

/*
 * Whether the kernel can decide the request that s has read: with a path as its target, and HTTP/1.1 with Host, or
 * HTTP/1.0.
 */
static __always_inline bool plain_request(struct scan *s)
{
	__u32 flags = s->head.flags;

	if (s->method == METHOD_NONE || flags & (HEAD_CODED | HEAD_UPGRADE))
		return false;
	return flags & HEAD_HOST ? read_host_name(s) : flags & HEAD_OLD;
}

/* The pool that the VIP's routes select; also d->header. -1: upcall. */
static __always_inline int route_of(const struct scan *s, struct routing *q, struct decision *d)
{
	struct route *r;
	int host = 0;

	if (!(q->vip.flags & VIP_NO_HOSTS) && s->head.flags & HEAD_HOST) {
		host = host_of(s, &q->host, q->vip.id);
		if (host < 0)
			return -1;
	}
	q->route.prefixlen = 8 * (offsetof(struct route_key, pad) - offsetof(struct route_key, vip));
	q->route.vip = q->vip.id;
	q->route.host = host;
	q->route.method = d->method;
	if (s->path > METHOD_BYTES)
		return -1;
	__builtin_memcpy(q->route.target, &s->bytes[s->path], ROUTE_BYTES);
	r = bpf_map_lookup_elem(&routes, &q->route);
	if (!r || r->upcall)
		return -1;
	d->header = r->header;
	return r->pool;
}

/* The names that a client must not send to this VIP's pools. */
static __always_inline void watch_names(struct scan *s, const struct vip *vip)
{
	__u32 id = vip->id;
	struct watches *w;

	s->watching = 0;
	if (!(vip->flags & VIP_WATCH))
		return;
	w = bpf_map_lookup_elem(&watched_fields, &id);
	if (!w)
		return;
	s->watch = *w;
	s->watching = 1;
}

/* Parses and routes the current request. False: upcall. */
__noinline int decide(struct __sk_buff *skb, const struct packet *p, struct scan *s, struct routing *q,
		      struct decision *d)
{
	int pool;

	if (!p || !s || !q || !d)
		return false;
	watch_names(s, &q->vip);
	if (scan_head(skb, p, s) != SCAN_OK || !plain_request(s))
		return false;
	d->method = s->method;
	d->request = s->size + (s->head.flags & HEAD_LENGTH ? s->head.length : 0);
	if (q->vip.flags & VIP_HOLD && d->request < p->len)
		return false; /* pipelined: the proxy takes them one by one */
	d->chunked = 0;
	d->bound = !!(s->head.flags & HEAD_BOUND);
	d->upgrade = d->opaque = 0;
	d->surrogate = NO_SURROGATE;
	d->header = HEADER_NONE;
	pool = q->vip.flags & VIP_ONE_POOL ? q->vip.pool : route_of(s, q, d);
	if (pool < 0)
		return false;
	d->pool = pool;
	return true;
}

/* FNV-1a of the path up to '?' or ' ', HASH_BYTES at most. */
struct path_hash {
	const struct scan *scan;
	__u64 hash;
	__u32 off;
	__u32 done;
};

static long hash_step(__u32 i, struct path_hash *h)
{
	__u32 off = h->off;
	__u8 b;

	if (off >= HEAD_BYTES)
		return 1;
	b = h->scan->bytes[off];
	if (b == '?' || b == ' ') {
		h->done = 1;
		return 1;
	}
	h->hash = (h->hash ^ b) * 0x100000001b3ULL;
	h->off = off + 1;
	return 0;
}

struct least {
	__u32 pool;  /* index into pools */
	__u32 start; /* first member */
	__u32 active;
	int chosen;
};

static long least_step(__u32 i, struct least *l)
{
	struct pool *pool = bpf_map_lookup_elem(&pools, &l->pool);
	struct surrogate *counters;
	__u32 at;

	if (!pool || i >= pool->members)
		return 1;
	at = (l->start + i) % pool->members;
	hide(at);
	if (at >= POOL_MEMBERS)
		return 1;
	counters = surrogate_at(pool->member[at]);
	if (counters && counters->active < l->active) {
		l->active = counters->active;
		l->chosen = pool->member[at];
	}
	return 0;
}

/* The member with the fewest sessions; ties are broken by round-robin. */
static __always_inline int least_sessions(__u32 place, struct pool *pool)
{
	struct least l = { .pool = place, .active = ~0U, .chosen = -1 };

	l.start = __sync_fetch_and_add(&pool->next, 1);
	bpf_loop(POOL_MEMBERS, least_step, &l, 0);
	return l.chosen;
}

/* Chooses a surrogate of the pool for the current request, whose head is in s, or for the hello that q is of. -1: upcall. */
__noinline int choose(const struct packet *p, const struct scan *s, const struct routing *q, __u32 pool_id)
{
	struct path_hash h = { .scan = s, .hash = 0xcbf29ce484222325ULL };
	__u32 place, table_at, slot, *zone;
	struct zone_key z = { .prefixlen = 160 };
	struct pool *pool;
	struct choices *t;

	if (!p || !s || !q || pool_id >= MAX_POOLS)
		return -1;
	place = q->generation * MAX_POOLS + pool_id;
	table_at = q->generation * MAX_TABLES + pool_id;
	pool = bpf_map_lookup_elem(&pools, &place);
	if (!pool)
		return -1;
	switch (pool->policy) {
	case POLICY_LEAST:
		return least_sessions(place, pool);
	case POLICY_ROUND_ROBIN:
		slot = __sync_fetch_and_add(&pool->next, 1);
		break;
	case POLICY_HASH:
		if (q->vip.flags & VIP_TLS) {
			slot = q->hash ^ q->hash >> 32;
			break;
		}
		h.off = s->path;
		bpf_loop(HASH_BYTES, hash_step, &h, 0);
		if (!h.done)
			return -1;
		slot = h.hash ^ h.hash >> 32;
		break;
	case POLICY_NEAREST:
		z.pool = place;
		copy_addr(z.addr, p->key.src);
		zone = bpf_map_lookup_elem(&zones, &z);
		if (zone)
			table_at = *zone;
		slot = __sync_fetch_and_add(&pool->next, 1);
		break;
	default:
		return -1;
	}
	t = bpf_map_lookup_elem(&tables, &table_at);
	if (!t || !t->slots)
		return -1;
	slot %= t->slots;
	hide(slot);
	return slot < TABLE_SLOTS ? t->surrogate[slot] : -1;
}
