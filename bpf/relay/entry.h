/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Entry lookup. */
#pragma once

#include "../wire/packet.h"
#include "maps.h"

/* The first entry that matches the destination. */
static __always_inline struct entry *entry_of(const struct packet *p)
{
	__u32 now = generation & 1, place;
	__u64 both = set_by_port(now, p->key.dport);

	if (both)
		both &= set_by_prefix(&destinations, now, p->key.dst);
	if (!both)
		return NULL;
	place = now * MAX_ENTRIES + __builtin_ctzll(both);
	return bpf_map_lookup_elem(&entries, &place);
}
