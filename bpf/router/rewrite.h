/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Applies a translation to a packet. The only place that does. */
#pragma once

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include "../session/splice.h"
#include "../wire/packet.h"
#include "../wire/sum.h"
#include "types.h"

#ifndef AF_INET
#define AF_INET  2
#define AF_INET6 10
#endif

/* The current packet's options, new and old. */
struct option_bytes {
	struct options now;
	struct options before;
};

static __always_inline void put_be32(__u8 *at, __u32 value)
{
	*(__be32 *)at = bpf_htonl(value);
}

static __always_inline void shift_be32(__u8 *at, __u32 by)
{
	put_be32(at, bpf_ntohl(*(__be32 *)at) + by);
}

static __always_inline void rewrite_ts(__u8 *o, __u32 at, const struct translation *t)
{
	if (at > OPTION_BYTES - 10)
		return;
	if (t->keep_ts) {
		put_be32(&o[at + 2], t->tsval);
		put_be32(&o[at + 6], t->tsecr);
		return;
	}
	for (int i = 0; i < 10; i++)
		o[at + i] = OPTION_NOP;
}

static __always_inline void rewrite_sack(__u8 *o, __u32 at, __u32 len, const struct translation *t)
{
	if (at > OPTION_BYTES - 10)
		return;
	for (__u32 i = 0; i < 4; i++) {
		__u32 edge = at + 2 + 8 * i;

		if (2 + 8 * i + 8 > len || edge > sizeof(struct options) - 8)
			break;
		if (t->keep_sack) {
			shift_be32(&o[edge], t->ack_shift);
			shift_be32(&o[edge + 4], t->ack_shift);
		} else {
			*(__u64 *)&o[edge] = (__u64)FOUR_NOPS << 32 | FOUR_NOPS;
		}
	}
	if (!t->keep_sack)
		o[at] = o[at + 1] = OPTION_NOP;
}

/* Rewrites timestamps and SACK edges. Returns the checksum difference. */
static __always_inline __u64 rewrite_options(struct __sk_buff *skb, const struct packet *p, const struct translation *t,
					     struct option_bytes *o)
{
	__u32 len = p->options;

	o->before = o->now;
	rewrite_ts(o->now.bytes, p->ts_at, t);
	rewrite_sack(o->now.bytes, p->sack_at, p->sack_len, t);
	if (!is_within(len, 1, OPTION_BYTES) || bpf_skb_store_bytes(skb, p->l4 + TCP_BYTES, o->now.bytes, len, 0))
		return 0;
	return (__u32)bpf_csum_diff((__be32 *)o->before.bytes, OPTION_BYTES, (__be32 *)o->now.bytes, OPTION_BYTES, 0);
}

/* Rewrites addresses and TTL. Returns the difference of the pseudo header's sum. */
static __always_inline __u64 rewrite_ipv4(struct iphdr *ip, __u8 ttl, const struct translation *t)
{
	__be32 src = unmap_addr(t->src), dst = unmap_addr(t->dst);
	__u64 pseudo = swapped(ip->saddr, src) + swapped(ip->daddr, dst), sum;

	sum = (__u64)(__u16)~ip->check + (__u16)~bpf_htons(ttl << 8) + bpf_htons((ttl - 1) << 8);
	ip->check = ~fold(sum + pseudo);
	ip->ttl = ttl - 1;
	ip->saddr = src;
	ip->daddr = dst;
	return pseudo;
}

static __always_inline __u64 rewrite_ipv6(struct ipv6hdr *ip, __u8 ttl, const struct translation *t)
{
	__u64 pseudo = swapped_addr(&ip->saddr, t->src) + swapped_addr(&ip->daddr, t->dst);

	ip->hop_limit = ttl - 1;
	copy_addr(&ip->saddr, t->src);
	copy_addr(&ip->daddr, t->dst);
	return pseudo;
}

/* Rewrites ports, numbers and window. Returns the checksum difference. */
static __always_inline __u64 rewrite_tcp(struct tcphdr *th, const struct translation *t)
{
	__be32 seq = bpf_htonl(t->seq), ack = bpf_htonl(t->ack);
	__be16 window = bpf_htons(t->window);
	__u64 sum = swapped(th->seq, seq) + swapped(th->ack_seq, ack) + swapped(th->source, t->sport) +
		    swapped(th->dest, t->dport) + swapped(th->window, window);

	th->source = t->sport;
	th->dest = t->dport;
	th->seq = seq;
	th->ack_seq = ack;
	th->window = window;
	return sum;
}

/* Rewrites timestamps in Linux's usual layout. Returns the checksum difference. */
static __always_inline __u64 rewrite_plain_ts(__be32 *opt, const struct translation *t)
{
	__be32 val = bpf_htonl(t->tsval), ecr = bpf_htonl(t->tsecr), none = bpf_htonl(FOUR_NOPS);
	__u64 sum;

	if (t->keep_ts) {
		sum = swapped(opt[1], val) + swapped(opt[2], ecr);
		opt[1] = val;
		opt[2] = ecr;
	} else {
		sum = swapped(opt[0], none) + swapped(opt[1], none) + swapped(opt[2], none);
		opt[0] = opt[1] = opt[2] = none;
	}
	return sum;
}

/*
 * Corrects CHECKSUM_COMPLETE for IPv6: the checksum helpers assume an IPv4 header, whose own checksum compensates for
 * new addresses and TTL. No effect otherwise.
 */
static __always_inline void update_device_sum(struct __sk_buff *skb, const struct packet *p, __u64 pseudo)
{
	if (p->v6)
		bpf_csum_update(skb, difference(pseudo + swapped(bpf_htons(p->ttl), bpf_htons(p->ttl - 1))));
}

/* Rewrites packet p by t. o holds its options, if they are not plain. Returns 0, or -verdict. */
__noinline int rewrite(struct __sk_buff *skb, const struct packet *p, const struct translation *t,
		       struct option_bytes *o)
{
	__u64 pseudo, rest = 0;
	struct tcphdr *th;
	struct ethhdr *eth;
	void *data, *end;

	if (!p || !t || !o)
		return -DROP_NOMEM;
	if (p->ttl <= 1)
		return -DROP_TTL;
	if (!p->plain)
		rest = rewrite_options(skb, p, t, o);
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + ETH_HLEN + (p->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)) + TCP_BYTES > end &&
	    bpf_skb_pull_data(skb, p->payload))
		return -DROP_NOMEM;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	eth = data;
	if (p->v6) {
		struct ipv6hdr *ip = (void *)(eth + 1);

		th = (void *)(ip + 1);
		if ((void *)(th + 1) > end)
			return -DROP_NOMEM;
		pseudo = rewrite_ipv6(ip, p->ttl, t);
	} else {
		struct iphdr *ip = (void *)(eth + 1);

		th = (void *)(ip + 1);
		if ((void *)(th + 1) > end)
			return -DROP_NOMEM;
		pseudo = rewrite_ipv4(ip, p->ttl, t);
	}
	rest += rewrite_tcp(th, t);
	if (p->plain && p->options) {
		__be32 *opt = (void *)(th + 1);

		if ((void *)(opt + 3) > end)
			return -DROP_NOMEM;
		rest += rewrite_plain_ts(opt, t);
	}
	if (t->hop.checked) {
		__builtin_memcpy(eth->h_dest, t->hop.dmac, 6);
		__builtin_memcpy(eth->h_source, t->hop.smac, 6);
	}
	if (bpf_l4_csum_replace(skb, p->l4 + CHECKSUM_AT, 0, difference(pseudo), BPF_F_PSEUDO_HDR) ||
	    bpf_l4_csum_replace(skb, p->l4 + CHECKSUM_AT, 0, difference(rest), 0))
		return -DROP_NOMEM;
	update_device_sum(skb, p, pseudo);
	return 0;
}

/* Looks up the route to t->dst (FIB); fib is scratch. True if t->hop can be used as it is. */
__noinline int resolve(struct __sk_buff *skb, struct translation *t, struct bpf_fib_lookup *fib, __u32 v6, __u32 now)
{
	long found;

	if (!t || !fib)
		return false;
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->ifindex = skb->ifindex;
	fib->l4_protocol = IPPROTO_TCP;
	fib->tot_len = 1; /* asks for the MTU, and refuses nothing */
	if (v6) {
		fib->family = AF_INET6;
		copy_addr(fib->ipv6_src, t->src);
		copy_addr(fib->ipv6_dst, t->dst);
	} else {
		fib->family = AF_INET;
		fib->ipv4_src = unmap_addr(t->src);
		fib->ipv4_dst = unmap_addr(t->dst);
	}
	found = bpf_fib_lookup(skb, fib, sizeof(*fib), 0);
	if (found == BPF_FIB_LKUP_RET_SUCCESS || found == BPF_FIB_LKUP_RET_NO_NEIGH)
		t->hop.ifindex = fib->ifindex;
	if (found != BPF_FIB_LKUP_RET_SUCCESS) {
		t->hop.checked = 0; /* the neighbour is resolved on output */
		return false;
	}
	t->hop.mtu = fib->mtu_result;
	__builtin_memcpy(t->hop.dmac, fib->dmac, 6);
	__builtin_memcpy(t->hop.smac, fib->smac, 6);
	t->hop.checked = now | 1; /* never 0 */
	return true;
}

static __always_inline bool hop_is_old(const struct next_hop *hop, __u32 now)
{
	return !hop->checked || (__s32)(now - hop->checked) > NEXT_HOP_MS;
}

/* Sends the packet to the next hop. Returns the program's action. */
static __always_inline int redirect(const struct next_hop *hop)
{
	return hop->checked ? bpf_redirect(hop->ifindex, 0) : bpf_redirect_neigh(hop->ifindex, NULL, 0, 0);
}
