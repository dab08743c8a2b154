/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which entry a packet is for. */
#pragma once

#include "../wire/packet.h"
#include "maps.h"

/* The entry that wants the destination: the first of the set. And its place. */
static __always_inline struct entry *entry_of(const struct packet *p, __u32 *found)
{
	struct destination_key key = { .prefixlen = 32 + 128, .generation = generation & 1 };
	__u32 place = key.generation << 16 | bpf_ntohs(p->key.dport);
	__u64 *by_port = bpf_map_lookup_elem(&ports, &place), *by_address, both;

	if (!by_port || !*by_port)
		return NULL;
	copy_addr(key.addr, p->key.dst);
	by_address = bpf_map_lookup_elem(&destinations, &key);
	if (!by_address)
		return NULL;
	both = *by_port & *by_address;
	if (!both)
		return NULL;
	*found = place = key.generation * MAX_ENTRIES + __builtin_ctzll(both);
	return bpf_map_lookup_elem(&entries, &place);
}
