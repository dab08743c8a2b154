/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The translation, applied: a packet of one leg becomes a packet of the other. The only place that does it. */
#pragma once

#include "csum.h"
#include "parse.h"

#ifndef AF_INET
#define AF_INET  2
#define AF_INET6 10
#endif

static __always_inline void put_be32(__u8 *at, __u32 value)
{
	*(__be32 *)at = bpf_htonl(value);
}

/* Timestamps and SACK edges among other options. Returns what the change adds to the checksum. */
static __always_inline __u64 rewrite_options(struct __sk_buff *skb, struct work *w)
{
	struct translation *t = &w->out;
	struct packet *p = &w->packet;
	__u32 len = p->options, at = p->ts_at;

	__builtin_memcpy(w->old_options, w->options, sizeof(w->options));
	if (at <= OPTION_BYTES - 10) {
		if (t->keep_ts) {
			put_be32(&w->options[at + 2], t->tsval);
			put_be32(&w->options[at + 6], t->tsecr);
		} else {
			for (int i = 0; i < 10; i++)
				w->options[at + i] = OPTION_NOP;
		}
	}
	at = p->sack_at;
	if (at <= OPTION_BYTES - 10) {
		for (int i = 0; i < 4; i++) {
			__u32 edge = at + 2 + 8 * i;

			if (2 + 8 * i + 8 > p->sack_len || edge > 64 - 8)
				break;
			if (t->keep_sack) {
				put_be32(&w->options[edge], bpf_ntohl(*(__be32 *)&w->options[edge]) + t->ack_shift);
				put_be32(&w->options[edge + 4],
					 bpf_ntohl(*(__be32 *)&w->options[edge + 4]) + t->ack_shift);
			} else {
				*(__u64 *)&w->options[edge] = 0x0101010101010101ULL;
			}
		}
		if (!t->keep_sack)
			w->options[at] = w->options[at + 1] = OPTION_NOP;
	}
	if (len < 1 || len > OPTION_BYTES || bpf_skb_store_bytes(skb, p->l4 + 20, w->options, len, 0))
		return 0;
	return (__u32)bpf_csum_diff((__be32 *)w->old_options, OPTION_BYTES, (__be32 *)w->options, OPTION_BYTES, 0);
}

/* Returns 0, or -verdict. */
__noinline int rewrite(struct __sk_buff *skb)
{
	struct work *w = work();
	const __u32 *src, *dst, *old_src, *old_dst;
	struct translation *t;
	struct packet *p;
	__u64 pseudo, rest = 0;
	struct tcphdr *th;
	struct ethhdr *eth;
	void *data, *end;
	__be16 window;
	__be32 seq, ack;

	if (!w)
		return -DROP_NO_ROOM;
	t = &w->out;
	p = &w->packet;
	src = (const __u32 *)t->src;
	dst = (const __u32 *)t->dst;
	old_src = (const __u32 *)p->key.src;
	old_dst = (const __u32 *)p->key.dst;
	if (p->ttl <= 1)
		return -DROP_TTL;
	if (!p->plain)
		rest = rewrite_options(skb, w);
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (data + ETH_HLEN + (p->v6 ? 40 : 20) + 20 > end && bpf_skb_pull_data(skb, p->payload))
		return -DROP_NO_ROOM;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	eth = data;
	pseudo = swapped(old_src[3], src[3]) + swapped(old_dst[3], dst[3]);
	if (!p->v6) {
		struct iphdr *ip = data + ETH_HLEN;
		__u64 sum;

		th = (void *)(ip + 1);
		if ((void *)(th + 1) > end)
			return -DROP_NO_ROOM;
		sum = (__u64)(__u16)~ip->check + (__u16)~bpf_htons(p->ttl << 8) + bpf_htons((p->ttl - 1) << 8);
		sum += (__u64)(__u32)~old_src[3] + src[3] + (__u32)~old_dst[3] + dst[3];
		ip->check = ~fold(sum);
		ip->ttl = p->ttl - 1;
		ip->saddr = src[3];
		ip->daddr = dst[3];
	} else {
		struct ipv6hdr *ip = data + ETH_HLEN;

		th = (void *)(ip + 1);
		if ((void *)(th + 1) > end)
			return -DROP_NO_ROOM;
		ip->hop_limit = p->ttl - 1;
		copy_addr(&ip->saddr, src);
		copy_addr(&ip->daddr, dst);
		pseudo += swapped(old_src[0], src[0]) + swapped(old_src[1], src[1]) + swapped(old_src[2], src[2]) +
			  swapped(old_dst[0], dst[0]) + swapped(old_dst[1], dst[1]) + swapped(old_dst[2], dst[2]);
	}
	seq = bpf_htonl(t->seq);
	ack = bpf_htonl(t->ack);
	window = bpf_htons(t->window);
	rest += swapped(th->seq, seq) + swapped(th->ack_seq, ack);
	rest += swapped(th->source, t->sport) + swapped(th->dest, t->dport) + swapped(th->window, window);
	th->source = t->sport;
	th->dest = t->dport;
	th->seq = seq;
	th->ack_seq = ack;
	th->window = window;
	if (p->plain && p->options) {
		__be32 *opt = (void *)(th + 1);

		if ((void *)(opt + 3) > end)
			return -DROP_NO_ROOM;
		if (t->keep_ts) {
			__be32 val = bpf_htonl(t->tsval), ecr = bpf_htonl(t->tsecr);

			rest += swapped(opt[1], val) + swapped(opt[2], ecr);
			opt[1] = val;
			opt[2] = ecr;
		} else {
			rest += swapped(opt[0], 0x01010101) + swapped(opt[1], 0x01010101) + swapped(opt[2], 0x01010101);
			opt[0] = opt[1] = opt[2] = 0x01010101;
		}
	}
	if (t->hop.checked) {
		__builtin_memcpy(eth->h_dest, t->hop.dmac, 6);
		__builtin_memcpy(eth->h_source, t->hop.smac, 6);
	}
	if (bpf_l4_csum_replace(skb, p->l4 + 16, 0, difference(pseudo), BPF_F_PSEUDO_HDR) ||
	    bpf_l4_csum_replace(skb, p->l4 + 16, 0, difference(rest), 0))
		return -DROP_NO_ROOM;
	if (p->v6) {
		/*
		 * A device's sum of the whole packet (CHECKSUM_COMPLETE): the helper took the new addresses for those of an
		 * IPv4 header, whose own checksum makes up for them, and the hop limit has none either. Else no effect.
		 */
		pseudo += swapped(bpf_htons(p->ttl), bpf_htons(p->ttl - 1));
		bpf_csum_update(skb, difference(pseudo));
	}
	return 0;
}

/* Asks the kernel's routing table for the way to w->out.dst. True when w->out.hop can be used as it is. */
__noinline int resolve(struct __sk_buff *skb, __u32 now)
{
	struct work *w = work();
	struct bpf_fib_lookup *fib;
	struct translation *t;
	long found;

	if (!w)
		return false;
	t = &w->out;
	fib = &w->fib;
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->ifindex = skb->ifindex;
	fib->l4_protocol = IPPROTO_TCP;
	if (w->packet.v6) {
		fib->family = AF_INET6;
		copy_addr(fib->ipv6_src, t->src);
		copy_addr(fib->ipv6_dst, t->dst);
	} else {
		fib->family = AF_INET;
		fib->ipv4_src = ((__u32 *)t->src)[3];
		fib->ipv4_dst = ((__u32 *)t->dst)[3];
	}
	found = bpf_fib_lookup(skb, fib, sizeof(*fib), 0);
	if (found == BPF_FIB_LKUP_RET_SUCCESS || found == BPF_FIB_LKUP_RET_NO_NEIGH)
		t->hop.ifindex = fib->ifindex;
	if (found != BPF_FIB_LKUP_RET_SUCCESS) {
		t->hop.checked = 0; /* the neighbour is asked for on the way out */
		return false;
	}
	__builtin_memcpy(t->hop.dmac, fib->dmac, 6);
	__builtin_memcpy(t->hop.smac, fib->smac, 6);
	t->hop.checked = now | 1; /* never 0 */
	return true;
}

static __always_inline bool hop_is_old(const struct next_hop *hop, __u32 now)
{
	return !hop->checked || (__s32)(now - hop->checked) > NEXT_HOP_MS;
}

/* Sends the rewritten packet. */
static __always_inline void leave(struct __sk_buff *skb, struct work *w)
{
	struct next_hop *hop = &w->out.hop;

	if (hop->checked)
		w->action = bpf_redirect(hop->ifindex, 0);
	else
		w->action = bpf_redirect_neigh(hop->ifindex, NULL, 0, 0);
}
