/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Normalizes our packets before anything else looks at them. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/packet.h"
#include "types.h"

/*
 * Clears the urgent pointer: a receiver would remove the urgent byte from the stream (RFC 6093) and count differently
 * than we do. Removes a priority tag (VLAN 0). Offsets stay.
 */
__noinline int strip(struct __sk_buff *skb, struct packet *p)
{
	__be16 old[2], new[2];
	__u32 l4;

	if (!p)
		return -DROP_NOMEM;
	if (skb->vlan_present && bpf_skb_vlan_pop(skb))
		return -DROP_NOMEM;
	if (!p->urgent)
		return 0;
	l4 = p->l4;
	if (bpf_skb_load_bytes(skb, l4 + 12, &old[0], 2) || bpf_skb_load_bytes(skb, l4 + 18, &old[1], 2))
		return -DROP_NOMEM;
	new[0] = old[0] & ~bpf_htons(URG);
	new[1] = 0;
	if (bpf_skb_store_bytes(skb, l4 + 12, &new[0], 2, 0) || bpf_skb_store_bytes(skb, l4 + 18, &new[1], 2, 0) ||
	    bpf_l4_csum_replace(skb, l4 + 16, old[0], new[0], 2) ||
	    bpf_l4_csum_replace(skb, l4 + 16, old[1], new[1], 2))
		return -DROP_NOMEM;
	p->flags &= ~URG;
	return 0;
}
