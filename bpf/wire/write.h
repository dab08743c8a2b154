/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Replaces a packet by a segment of our own. */
#pragma once

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include "packet.h"
#include "sum.h"

#define OUR_TTL       64
#define DONT_FRAGMENT 0x4000

/* Writes options in Linux's layout. Returns their length. */
static __always_inline __u32 segment_options(const struct segment *r, __be32 opt[5])
{
	if (!r->mss) {
		if (!r->with_ts)
			return 0;
		opt[0] = bpf_htonl(NOP_NOP_TS);
		opt[1] = bpf_htonl(r->tsval);
		opt[2] = bpf_htonl(r->tsecr);
		return 12;
	}
	opt[0] = bpf_htonl(OPTION_MSS << 24 | 4 << 16 | r->mss);
	if (r->with_ts) {
		opt[1] = r->with_sack ? bpf_htonl(OPTION_SACK_OK << 24 | 2 << 16 | OPTION_TS << 8 | 10)
				      : bpf_htonl(NOP_NOP_TS);
		opt[2] = bpf_htonl(r->tsval);
		opt[3] = bpf_htonl(r->tsecr);
	} else {
		opt[1] = r->with_sack ? bpf_htonl(0x01010000 | OPTION_SACK_OK << 8 | 2) : bpf_htonl(FOUR_NOPS);
		opt[2] = opt[3] = bpf_htonl(FOUR_NOPS);
	}
	opt[4] = r->wscale != NO_SCALE ? bpf_htonl(0x01000300 | OPTION_WSCALE << 16 | r->wscale) : bpf_htonl(FOUR_NOPS);
	return 20;
}

/* Returns the place of the TCP header; NULL: beyond end. */
static __always_inline struct tcphdr *write_ipv4(struct iphdr *ip, const void *end, const struct segment *r,
						 __u32 length)
{
	struct tcphdr *th = (void *)(ip + 1);
	__u64 sum;

	if ((void *)(th + 1) > end)
		return NULL;
	ip->version = 4;
	ip->ihl = 5;
	ip->tos = 0;
	ip->tot_len = bpf_htons(sizeof(*ip) + length);
	ip->id = 0;
	ip->frag_off = bpf_htons(DONT_FRAGMENT);
	ip->ttl = OUR_TTL;
	ip->protocol = IPPROTO_TCP;
	ip->saddr = unmap_addr(r->src);
	ip->daddr = unmap_addr(r->dst);
	sum = (__u64)bpf_htons(0x4500) + ip->tot_len + bpf_htons(DONT_FRAGMENT) +
	      bpf_htons(OUR_TTL << 8 | IPPROTO_TCP) + ip->saddr + ip->daddr;
	ip->check = ~fold(sum);
	return th;
}

static __always_inline struct tcphdr *write_ipv6(struct ipv6hdr *ip, const void *end, const struct segment *r,
						 __u32 length)
{
	struct tcphdr *th = (void *)(ip + 1);

	if ((void *)(th + 1) > end)
		return NULL;
	*(__be32 *)ip = bpf_htonl(0x60000000);
	ip->payload_len = bpf_htons(length);
	ip->nexthdr = IPPROTO_TCP;
	ip->hop_limit = OUR_TTL;
	copy_addr(&ip->saddr, r->src);
	copy_addr(&ip->daddr, r->dst);
	return th;
}

/* All but the checksum, which is 0. */
static __always_inline struct tcphdr tcp_header(const struct segment *r, __u32 options)
{
	struct tcphdr tcp = {};

	tcp.source = r->sport;
	tcp.dest = r->dport;
	tcp.seq = bpf_htonl(r->seq);
	tcp.ack_seq = bpf_htonl(r->ack);
	tcp.doff = (TCP_BYTES + options) / 4;
	((__u8 *)&tcp)[13] = r->flags;
	tcp.window = bpf_htons(r->window);
	return tcp;
}

/* False: beyond end. */
static __always_inline bool write_options(__be32 *at, const void *end, const __be32 opt[5], __u32 length)
{
	if (!length)
		return true;
	if ((const void *)(at + 3) > end)
		return false;
	at[0] = opt[0];
	at[1] = opt[1];
	at[2] = opt[2];
	if (length != 20)
		return true;
	if ((const void *)(at + 5) > end)
		return false;
	at[3] = opt[3];
	at[4] = opt[4];
	return true;
}

/* Puts the payload behind len bytes of headers. Returns the packet's length, 0: no memory. */
static __always_inline __u32 append_payload(struct __sk_buff *skb, __u32 len, const struct payload *data, __u64 *sum)
{
	__u32 size = data->len;

	if (!is_within(size, 1, PAYLOAD_BYTES) || bpf_skb_change_tail(skb, len + size, 0) ||
	    bpf_skb_store_bytes(skb, len, data->bytes, size, 0))
		return 0;
	*sum = (__u32)bpf_csum_diff(NULL, 0, (__be32 *)data->bytes, PAYLOAD_BYTES, 0);
	return len + size;
}

/* See write_segment and write_payload. */
static __always_inline bool write_with(struct __sk_buff *skb, const struct segment *r, const struct payload *payload)
{
	__u32 l4, options, len, whole;
	struct tcphdr *th, tcp;
	__be32 opt[5] = {};
	void *data, *end;
	struct ethhdr *eth;
	__u64 pseudo, sum, payload_sum = 0;
	bool partial;

	l4 = ETH_HLEN + (r->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr));
	partial = partial_checksum(skb, l4);
	options = segment_options(r, opt);
	len = l4 + TCP_BYTES + options;
	whole = len;
	if (payload)
		whole = append_payload(skb, len, payload, &payload_sum);
	else if (skb->len != len && bpf_skb_change_tail(skb, len, 0))
		whole = 0;
	if (!whole || bpf_skb_pull_data(skb, len))
		return false;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	eth = data;
	th = r->v6 ? write_ipv6((void *)(eth + 1), end, r, whole - l4)
		   : write_ipv4((void *)(eth + 1), end, r, whole - l4);
	if (!th)
		return false;
	__builtin_memcpy(eth->h_dest, r->dmac, 6);
	__builtin_memcpy(eth->h_source, r->smac, 6);
	tcp = tcp_header(r, options);
	pseudo = pseudo_header(r->src, r->dst, whole - l4, r->v6);
	sum = pseudo + ((__u32 *)&tcp)[0] + ((__u32 *)&tcp)[1] + ((__u32 *)&tcp)[2] + ((__u32 *)&tcp)[3];
	sum += (__u64)opt[0] + opt[1] + opt[2] + opt[3] + opt[4] + payload_sum;
	tcp.check = partial ? fold(pseudo) : ~fold(sum);
	*th = tcp;
	if (!write_options((void *)(th + 1), end, opt, options))
		return false;
	bpf_set_hash_invalid(skb);
	return true;
}

/* Overwrites the packet, of the same address family, with the segment. False: no memory. */
__noinline int write_segment(struct __sk_buff *skb, const struct segment *r)
{
	return r ? write_with(skb, r, NULL) : false;
}

/* The same with bytes behind the headers. */
__noinline int write_payload(struct __sk_buff *skb, const struct segment *r, const struct payload *data)
{
	return r && data ? write_with(skb, r, data) : false;
}
