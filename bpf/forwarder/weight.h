/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a frame counts as, in packets and bytes on the wire. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/fields.h"
#include "types.h"

struct weight {
	__u64 now;     /* ns */
	__u32 packets; /* on the wire */
	__u32 bytes;
};

/*
 * A GSO frame counts as the packets that it will be cut into, each with the headers and with the tag that is not in the bytes. gso_segs
 * cannot be used: it is 0 for packets of a tap.
 */
static __always_inline void weigh(struct __sk_buff *skb, __u32 header, struct weight *w)
{
	__u32 size = skb->gso_size, tag = skb->vlan_present ? 4 : 0;

	w->packets = 1;
	w->bytes = skb->len + tag;
	if (size && skb->len > header + size) {
		w->packets = (skb->len - header + size - 1) / size;
		w->bytes += (w->packets - 1) * (header + tag);
	}
}

/* map: of struct counts. */
static __always_inline void account(void *map, __u32 place, const struct weight *w)
{
	struct counts *c = bpf_map_lookup_elem(map, &place);

	if (!c)
		return;
	__sync_fetch_and_add(&c->packets, w->packets);
	__sync_fetch_and_add(&c->bytes, w->bytes);
	c->used = w->now;
}
