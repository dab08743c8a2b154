/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From a request's bytes to a pool and a surrogate, as far as the kernel can; what it cannot, user space is asked. */
#pragma once

#include "legs.h"
#include "scan.h"

static __always_inline __u32 method_of(__u64 x, __u32 *path)
{
	if (FIRST(5, x) == FIRST(5, WORD('G', 'E', 'T', ' ', '/', 0, 0, 0))) {
		*path = 4;
		return METHOD_GET;
	}
	if (FIRST(6, x) == FIRST(6, WORD('H', 'E', 'A', 'D', ' ', '/', 0, 0))) {
		*path = 5;
		return METHOD_HEAD;
	}
	if (FIRST(6, x) == FIRST(6, WORD('P', 'O', 'S', 'T', ' ', '/', 0, 0))) {
		*path = 5;
		return METHOD_POST;
	}
	if (FIRST(5, x) == FIRST(5, WORD('P', 'U', 'T', ' ', '/', 0, 0, 0))) {
		*path = 4;
		return METHOD_PUT;
	}
	if (x == WORD('D', 'E', 'L', 'E', 'T', 'E', ' ', '/')) {
		*path = 7;
		return METHOD_DELETE;
	}
	return METHOD_NONE;
}

/*
 * The host's number. Names are compared in lower case; a port is not part of one, nor is the dot of the root that it may end with.
 * 0: no route names it. -1: ask.
 */
static __always_inline int host_of(struct work *w)
{
	__u32 off = w->scan.host, len = 0, *id;
	__u64 *to = (__u64 *)w->host.name;
	bool ended = false;

	w->host.vip = w->vip.id;
	w->host.pad[0] = w->host.pad[1] = w->host.pad[2] = 0;
	if (off > HEAD_BYTES || w->head[off] == '[' || w->head[off] == ' ' || w->head[off] == '\t')
		return -1;
	for (int i = 0; i < HOST_BYTES / 8; i++) {
		__u64 x = 0, stop;

		if (!ended) {
			if (off > HEAD_BYTES)
				return -1;
			x = *(__u64 *)&w->head[off];
			stop = below(x, 0x21) | equal(x, ':');
			if (stop) {
				__u32 n = first_mark(stop), c = x >> 8 * n & 0xff;

				if (c != '\r' && c != ':')
					return -1;
				x = n ? x & (~0ULL >> (64 - 8 * n)) : 0;
				x |= n ? LOWER & (~0ULL >> (64 - 8 * n)) : 0;
				ended = true;
				len += n;
			} else {
				x |= LOWER;
				len += 8;
			}
			off += 8;
		}
		to[i] = x;
	}
	if (!ended)
		return -1;
	len = (len - 1) & (HOST_BYTES - 1); /* of an empty name, the last byte, which is 0 */
	hide(len);
	if (len < HOST_BYTES && w->host.name[len] == '.')
		w->host.name[len] = 0;
	id = bpf_map_lookup_elem(&hosts, &w->host);
	return id ? *id : 0;
}

/* Fills w->decision for the request at hand. False: ask user space. */
__noinline int decide(struct __sk_buff *skb)
{
	struct work *w = work();
	struct decision *d;
	struct route *r;
	__u64 version;
	__u32 line;
	int host = 0;

	if (!w || scan_head(skb, w) != SCAN_OK)
		return false;
	d = &w->decision;
	d->method = method_of(word_at(w, 0), &w->scan.path);
	line = w->scan.line;
	if (d->method == METHOD_NONE || line < 9 || line > HEAD_BYTES)
		return false;
	version = word_at(w, line - 8);
	if (w->head[line - 9] != ' ' || w->scan.flags & (HEAD_CODED | HEAD_UPGRADE))
		return false;
	if (version != WORD('H', 'T', 'T', 'P', '/', '1', '.', '1') || !(w->scan.flags & HEAD_HOST)) {
		/* HTTP/1.0 may do without Host */
		if (version != WORD('H', 'T', 'T', 'P', '/', '1', '.', '0'))
			return false;
	}
	d->request = w->scan.head + (w->scan.flags & HEAD_LENGTH ? w->scan.length : 0);
	if (w->vip.flags & VIP_HOLD && d->request < w->packet.len)
		return false; /* another behind it: the proxy takes them one by one */
	d->chunked = 0;
	d->bound = !!(w->scan.flags & HEAD_BOUND);
	d->upgrade = 0;
	d->surrogate = NO_SURROGATE;
	if (w->vip.flags & VIP_ONE_POOL) {
		d->pool = w->vip.pool;
		return true;
	}
	if (!(w->vip.flags & VIP_NO_HOSTS) && w->scan.flags & HEAD_HOST) {
		host = host_of(w);
		if (host < 0)
			return false;
	}
	w->route.prefixlen = 8 * (offsetof(struct route_key, pad) - offsetof(struct route_key, vip));
	w->route.vip = w->vip.id;
	w->route.host = host;
	w->route.method = d->method;
	if (w->scan.path > 8)
		return false;
	__builtin_memcpy(w->route.target, &w->head[w->scan.path], ROUTE_BYTES);
	r = bpf_map_lookup_elem(&routes, &w->route);
	if (!r || r->ask)
		return false;
	d->pool = r->pool;
	return true;
}

struct least {
	__u32 pool; /* place */
	__u32 turn;
	__u32 active;
	int chosen;
};

static long least_step(__u32 i, struct least *l)
{
	struct pool *pool = bpf_map_lookup_elem(&pools, &l->pool);
	struct surrogate *of;
	__u32 at;

	if (!pool || i >= pool->members)
		return 1;
	at = (l->turn + i) % pool->members;
	hide(at);
	if (at >= POOL_MEMBERS)
		return 1;
	of = surrogate_at(pool->member[at]);
	if (of && of->active < l->active) {
		l->active = of->active;
		l->chosen = pool->member[at];
	}
	return 0;
}

/* The member with the fewest sessions; ties take turns. */
static __always_inline int least_sessions(__u32 place, struct pool *pool)
{
	struct least l = { .pool = place, .active = ~0U, .chosen = -1 };

	l.turn = __sync_fetch_and_add(&pool->turn, 1);
	bpf_loop(POOL_MEMBERS, least_step, &l, 0);
	return l.chosen;
}

/* A surrogate of the pool for the request at hand, or -1: ask user space. */
__noinline int choose(__u32 pool_id)
{
	struct work *w = work();
	__u32 place, table_at, turn, *zone;
	struct path_hash h = { .hash = 0xcbf29ce484222325ULL };
	struct zone_key z = { .prefixlen = 160 };
	struct pool *pool;
	struct table *t;

	if (!w || pool_id >= MAX_POOLS)
		return -1;
	place = w->generation * MAX_POOLS + pool_id;
	table_at = w->generation * MAX_TABLES + pool_id;
	pool = bpf_map_lookup_elem(&pools, &place);
	if (!pool)
		return -1;
	switch (pool->policy) {
	case POLICY_LEAST:
		return least_sessions(place, pool);
	case POLICY_TURNS:
		turn = __sync_fetch_and_add(&pool->turn, 1);
		break;
	case POLICY_HASH:
		h.off = w->scan.path;
		bpf_loop(HASH_BYTES, hash_step, &h, 0);
		if (!h.done)
			return -1;
		turn = h.hash ^ h.hash >> 32;
		break;
	case POLICY_NEAREST:
		z.pool = place;
		copy_addr(z.addr, w->packet.key.src);
		zone = bpf_map_lookup_elem(&zones, &z);
		if (zone)
			table_at = *zone;
		turn = __sync_fetch_and_add(&pool->turn, 1);
		break;
	default:
		return -1;
	}
	t = bpf_map_lookup_elem(&tables, &table_at);
	if (!t || !t->slots)
		return -1;
	turn %= t->slots;
	hide(turn);
	return turn < TABLE_SLOTS ? t->surrogate[turn] : -1;
}
