/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What wants a connection, by its port and its addresses: sets of 64 bits, so that what wants both is one AND. There are two generations of
 * them: user space writes the one that is not in force, then the word that says which is.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/fields.h"

/* The longest prefix of these has the set of those that want, or spare, the address. */
struct prefix_key {
	__u32 prefixlen; /* bits from generation on */
	__u32 generation;
	__u8 addr[16];
};

/* Which generation is in force: 0 or 1. */
volatile __u32 generation;

/* By generation << 16 | port. Looked up first, as most packets end here. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 << 16);
	__type(key, __u32);
	__type(value, __u64);
} ports SEC(".maps");

/* A map of sets by address. A miss is the empty set. */
#define SETS_BY_PREFIX(name)                          \
	struct {                                      \
		__uint(type, BPF_MAP_TYPE_LPM_TRIE);  \
		__uint(max_entries, 65536);           \
		__uint(map_flags, BPF_F_NO_PREALLOC); \
		__type(key, struct prefix_key);       \
		__type(value, __u64);                 \
	} name SEC(".maps")

static __always_inline __u64 set_by_port(__u32 of, __be16 port)
{
	__u32 place = of << 16 | bpf_ntohs(port);
	__u64 *set = bpf_map_lookup_elem(&ports, &place);

	return set ? *set : 0;
}

static __always_inline __u64 set_by_prefix(void *prefixes, __u32 of, const __u8 *addr)
{
	struct prefix_key key = { .prefixlen = 32 + 128, .generation = of };
	__u64 *set;

	copy_addr(key.addr, addr);
	set = bpf_map_lookup_elem(prefixes, &key);
	return set ? *set : 0;
}
