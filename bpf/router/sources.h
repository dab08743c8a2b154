/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Limits undecided clients per source, so that none takes the whole table. Costs time only at an upcall. */
#pragma once

#include "maps.h"

/* It takes at least LEAST_SOURCES sources to fill the table; each may always have up to LEAST_CLIENTS. */
#define LEAST_SOURCES 4096
#define LEAST_CLIENTS 16

/* The counter of a client's source: its address, or its /64 for IPv6, salted against chosen collisions. */
static __always_inline __u32 source_of(const struct tuple *key, __u32 salt)
{
	const __u32 *addr = (const __u32 *)key->src;
	bool v6 = !is_mapped(addr);
	__u32 h = salt;

	h = (h ^ (v6 ? addr[0] : addr[3])) * 0x9e3779b1;
	h = (h ^ h >> 15 ^ (v6 ? addr[1] : 0)) * 0x85ebca77;
	h = (h ^ h >> 13 ^ salt) * 0xc2b2ae3d;
	return (h ^ h >> 16) & (SOURCES - 1);
}

static __always_inline void count_one(__u32 at, __s32 by)
{
	__s32 *n = bpf_map_lookup_elem(&sources, &at);

	if (n)
		__sync_fetch_and_add(n, by);
}

static __always_inline void count_client(const struct tuple *key, const struct config *set, __s32 by)
{
	count_one(source_of(key, set->salt), by);
	count_one(SOURCES, by);
}

/*
 * Whether a source has used up its share: an eighth of the free entries, so that some remain for others. A counter
 * below 0, which user space's recount will correct, counts as 0.
 */
static __always_inline bool source_full(const struct tuple *key, const struct config *set)
{
	__u32 at = source_of(key, set->salt), all = SOURCES;
	__s32 *has = bpf_map_lookup_elem(&sources, &at), *total = bpf_map_lookup_elem(&sources, &all);
	__s32 room = set->pending, least = set->pending / LEAST_SOURCES, share = set->pending / 8;

	if (!has || !total)
		return false;
	if (*total > 0)
		share = *total < room ? (__u32)(room - *total) / 8 : 0;
	least = least > LEAST_CLIENTS ? LEAST_CLIENTS : least ?: 1;
	return *has >= (share > least ? share : least);
}

/* Forgets an undecided client. Returns 0 if it existed. */
__noinline int forget_undecided(const struct tuple *key)
{
	struct config *set = config();

	if (!key || !set || bpf_map_delete_elem(&clients, key))
		return -1;
	bpf_map_delete_elem(&log_heads, key);
	bpf_map_delete_elem(&hello_names, key);
	count_client(key, set, -1);
	return 0;
}
