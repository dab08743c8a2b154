/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Holds a client to one request at a time, where each is routed: what is behind it waits with the client, which sends it again. */
#pragma once

#include "walk.h"

/* The lengths of a packet that has lost bytes at its end. Returns 0 when they are written. */
static __always_inline int write_lengths(struct __sk_buff *skb, const struct packet *p)
{
	__be16 old, new = bpf_htons(skb->len - ETH_HLEN);

	if (p->v6) {
		new = bpf_htons(skb->len - ETH_HLEN - 40);
		return bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct ipv6hdr, payload_len), &new, 2,
					   BPF_F_RECOMPUTE_CSUM);
	}
	/* a device's sum of the whole packet: the header's checksum makes up for it */
	return bpf_skb_load_bytes(skb, ETH_HLEN + offsetof(struct iphdr, tot_len), &old, 2) ||
	       bpf_skb_store_bytes(skb, ETH_HLEN + offsetof(struct iphdr, tot_len), &new, 2, 0) ||
	       bpf_l3_csum_replace(skb, ETH_HLEN + offsetof(struct iphdr, check), old, new, 2);
}

/*
 * Takes bytes off the end of the packet at hand, and the FIN behind them. Uses w->head. False: it has to be dropped, and comes
 * again; a packet that stands for many, then as single ones.
 */
__noinline int cut_packet(struct __sk_buff *skb, __u32 bytes)
{
	struct work *w = work();
	struct packet *p;
	__u16 check = 0;
	bool partial;

	if (!w)
		return false;
	p = &w->packet;
	if (bytes >= p->len || (skb->gso_size && p->len > skb->gso_size))
		return false;
	partial = partial_checksum(skb, p->l4);
	if (bpf_skb_change_tail(skb, p->payload + p->len - bytes, 0))
		return false;
	p->len -= bytes;
	p->flags &= ~FIN;
	if (write_lengths(skb, p) || bpf_skb_store_bytes(skb, p->l4 + 13, &p->flags, 1, BPF_F_RECOMPUTE_CSUM) ||
	    bpf_skb_store_bytes(skb, p->l4 + 16, &check, 2, BPF_F_RECOMPUTE_CSUM))
		return false;
	if (partial)
		check = fold(pseudo_header(p->key.src, p->key.dst, p->payload - p->l4 + p->len, p->v6));
	else
		check = ~segment_sum(skb, w);
	return !bpf_skb_store_bytes(skb, p->l4 + 16, &check, 2, BPF_F_RECOMPUTE_CSUM);
}

/*
 * More bytes of a client whose requests are held. Returns 0, or the verdict on a packet that has to be dropped. What is cut gets a
 * checksum of ours: it must have had a right one.
 */
static __always_inline int hold_more(struct __sk_buff *skb, struct work *w, const struct splice *s)
{
	__u32 over = cut_of_more(s, &w->packet, &w->walk);

	if (!over)
		return 0;
	w->walk.behind = 0;
	if (!checksum_ok(skb))
		return DROP_BAD_CHECKSUM;
	return cut_packet(skb, over) ? 0 : DROP_EARLY;
}

/* The first packet of a decided request, where requests are held. False: it has to be dropped. */
static __always_inline bool hold_first(struct __sk_buff *skb, struct work *w)
{
	__u32 over;

	if (!(w->vip.flags & VIP_HOLD))
		return true;
	if (w->decision.chunked && w->walk.bad)
		return false; /* user space has seen no such bytes */
	over = cut_of_first(&w->decision, &w->walk, w->packet.len);
	if (!over)
		return true;
	w->walk.behind = 0;
	return cut_packet(skb, over);
}
