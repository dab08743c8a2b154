/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Gives a datagram the addresses and ports of its session's other side, and sends it there. */
#pragma once

#include <linux/pkt_cls.h>
#include "../kernel/clock.h"
#include "../wire/sum.h"
#include "maps.h"
#include "parse.h"

#define HOP_MS          1000
#define UDP_CHECKSUM_AT 6 /* offset in a UDP header */
#define FAMILY_V4       2
#define FAMILY_V6       10

/* What a translated datagram gets. */
struct readdressed {
	__u8 src[16];
	__u8 dst[16];
	__be16 sport;
	__be16 dport;
};

/* The reverse of a tuple: what datagrams to its sender have. */
static __always_inline void reversed(struct readdressed *t, const struct tuple *from)
{
	copy_addr(t->src, from->dst);
	copy_addr(t->dst, from->src);
	t->sport = from->dport;
	t->dport = from->sport;
}

/* Returns the difference of the pseudo header's sum. */
static __always_inline __u64 readdress_v4(struct iphdr *ip, const struct readdressed *t)
{
	__be32 src = unmap_addr(t->src), dst = unmap_addr(t->dst);
	__u64 pseudo = swapped(ip->saddr, src) + swapped(ip->daddr, dst);

	ip->check = ~fold((__u64)(__u16)~ip->check + pseudo);
	ip->saddr = src;
	ip->daddr = dst;
	return pseudo;
}

static __always_inline __u64 readdress_v6(struct ipv6hdr *ip, const struct readdressed *t)
{
	__u64 pseudo = swapped_addr(&ip->saddr, t->src) + swapped_addr(&ip->daddr, t->dst);

	copy_addr(&ip->saddr, t->src);
	copy_addr(&ip->daddr, t->dst);
	return pseudo;
}

/* One hop less. The word of the TTL is the one that the IPv4 header's sum has it in. */
static __always_inline void age_v4(struct iphdr *ip)
{
	__be16 *word = (__be16 *)&ip->ttl, was = *word;

	ip->ttl--;
	ip->check = ~fold((__u64)(__u16)~ip->check + (__u16)~was + *word);
}

/*
 * Corrects CHECKSUM_COMPLETE for IPv6, which has no checksum of its own to compensate for its new addresses and hop limit. No
 * effect otherwise.
 */
static __always_inline void correct_device_sum(struct __sk_buff *skb, const struct datagram *d, __u64 pseudo)
{
	if (d->v6)
		bpf_csum_update(skb, difference(pseudo + swapped(bpf_htons(d->ttl), bpf_htons(d->ttl - 1))));
}

/* Rewrites the IP header. Returns the difference of the pseudo header's sum, or a negative verdict. */
static __always_inline __s64 rewrite_header(struct __sk_buff *skb, const struct datagram *d,
					    const struct readdressed *t, const struct quic_hop *hop)
{
	struct ethhdr *eth = (void *)(long)skb->data;
	void *end = (void *)(long)skb->data_end;
	struct ipv6hdr *ip6 = (void *)(eth + 1);
	struct iphdr *ip = (void *)(eth + 1);
	__u64 pseudo;

	if (d->ttl <= 1)
		return -DROP_TTL;
	if (d->v6) {
		if ((void *)(ip6 + 1) > end)
			return -DROP_NOMEM;
		pseudo = readdress_v6(ip6, t);
		ip6->hop_limit--;
	} else {
		if ((void *)(ip + 1) > end)
			return -DROP_NOMEM;
		pseudo = readdress_v4(ip, t);
		age_v4(ip);
	}
	if (hop->checked) {
		__builtin_memcpy(eth->h_dest, hop->dmac, 6);
		__builtin_memcpy(eth->h_source, hop->smac, 6);
	}
	return pseudo;
}

/* Returns 0, or -verdict. A checksum of 0, which IPv4 allows, stays. */
static __always_inline int rewrite_datagram(struct __sk_buff *skb, const struct datagram *d,
					    const struct readdressed *t, const struct quic_hop *hop)
{
	__s64 pseudo = rewrite_header(skb, d, t, hop);
	__u32 check = d->l4 + UDP_CHECKSUM_AT;
	__be16 was[2] = { d->key.sport, d->key.dport }, is[2] = { t->sport, t->dport };
	__u32 ports;

	if (pseudo < 0)
		return pseudo;
	ports = difference(swapped(was[0], is[0]) + swapped(was[1], is[1]));
	if (bpf_l4_csum_replace(skb, check, 0, difference(pseudo), BPF_F_PSEUDO_HDR | BPF_F_MARK_MANGLED_0) ||
	    bpf_l4_csum_replace(skb, check, 0, ports, BPF_F_MARK_MANGLED_0) ||
	    bpf_skb_store_bytes(skb, d->l4, is, sizeof(is), 0))
		return -DROP_NOMEM;
	correct_device_sum(skb, d, pseudo);
	return 0;
}

/* Looks the route up again after a while. */
static __always_inline void refresh(struct __sk_buff *skb, struct quic_hop *hop, const struct readdressed *t, bool v6,
				    __u32 now)
{
	struct bpf_fib_lookup fib = { .ifindex = skb->ifindex, .l4_protocol = IPPROTO_UDP };
	long found;

	if (hop->checked && !past(hop->checked, HOP_MS, now))
		return;
	if (v6) {
		fib.family = FAMILY_V6;
		copy_addr(fib.ipv6_src, t->src);
		copy_addr(fib.ipv6_dst, t->dst);
	} else {
		fib.family = FAMILY_V4;
		fib.ipv4_src = unmap_addr(t->src);
		fib.ipv4_dst = unmap_addr(t->dst);
	}
	found = bpf_fib_lookup(skb, &fib, sizeof(fib), 0);
	if (found != BPF_FIB_LKUP_RET_SUCCESS) {
		if (found == BPF_FIB_LKUP_RET_NO_NEIGH)
			hop->ifindex = fib.ifindex;
		hop->checked = 0; /* the neighbour is resolved on output */
		return;
	}
	hop->ifindex = fib.ifindex;
	__builtin_memcpy(hop->dmac, fib.dmac, 6);
	__builtin_memcpy(hop->smac, fib.smac, 6);
	hop->checked = now | 1; /* never 0 */
}

static __always_inline int leave(const struct quic_hop *hop)
{
	if (!hop->checked)
		return bpf_redirect_neigh(hop->ifindex, NULL, 0, 0);
	return bpf_redirect(hop->ifindex, 0);
}
