/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Turns a SYN into the reset that refuses it (RFC 9293, 3.10.7.1). */
#pragma once

#include "../wire/sum.h"
#include "packet.h"

#define OUR_TTL 64

static __always_inline __u64 pseudo_header(const struct tuple *t, bool v6)
{
	const __u32 *s = (const __u32 *)t->src, *d = (const __u32 *)t->dst;
	__u64 sum = (__u64)s[3] + d[3] + bpf_htonl(sizeof(struct tcphdr)) + bpf_htonl(IPPROTO_TCP);

	if (v6)
		sum += (__u64)s[0] + s[1] + s[2] + d[0] + d[1] + d[2];
	return sum;
}

static __always_inline void swap_macs(struct ethhdr *eth)
{
	__u8 mac[ETH_ALEN];

	__builtin_memcpy(mac, eth->h_dest, ETH_ALEN);
	__builtin_memcpy(eth->h_dest, eth->h_source, ETH_ALEN);
	__builtin_memcpy(eth->h_source, mac, ETH_ALEN);
}

/* Writes the reset over the packet. False: there was no room. */
static __always_inline bool write_reset(struct __sk_buff *skb, const struct packet *p)
{
	__u32 len = p->l4 + sizeof(struct tcphdr);
	bool partial = partial_checksum(skb, p->l4);
	struct tcphdr tcp = {}, *th;
	void *data, *end;
	__u64 pseudo, sum;

	if ((skb->len != len && bpf_skb_change_tail(skb, len, 0)) || bpf_skb_pull_data(skb, len))
		return false;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (!p->v6) {
		struct iphdr *ip = data + ETH_HLEN;

		th = (void *)(ip + 1);
		if ((void *)(th + 1) > end)
			return false;
		__builtin_memset(ip, 0, sizeof(*ip));
		ip->version = 4;
		ip->ihl = 5;
		ip->tot_len = bpf_htons(sizeof(*ip) + sizeof(*th));
		ip->frag_off = bpf_htons(0x4000);
		ip->ttl = OUR_TTL;
		ip->protocol = IPPROTO_TCP;
		ip->saddr = ((const __u32 *)p->key.dst)[3];
		ip->daddr = ((const __u32 *)p->key.src)[3];
		sum = (__u64)bpf_htons(0x4500) + ip->tot_len + bpf_htons(0x4000) +
		      bpf_htons(OUR_TTL << 8 | IPPROTO_TCP) + ip->saddr + ip->daddr;
		ip->check = ~fold(sum);
	} else {
		struct ipv6hdr *ip = data + ETH_HLEN;

		th = (void *)(ip + 1);
		if ((void *)(th + 1) > end)
			return false;
		*(__be32 *)ip = bpf_htonl(0x60000000);
		ip->payload_len = bpf_htons(sizeof(*th));
		ip->nexthdr = IPPROTO_TCP;
		ip->hop_limit = OUR_TTL;
		copy_addr(&ip->saddr, p->key.dst);
		copy_addr(&ip->daddr, p->key.src);
	}
	swap_macs(data);
	tcp.source = p->key.dport;
	tcp.dest = p->key.sport;
	tcp.ack_seq = bpf_htonl(p->seq + 1 + p->len);
	tcp.doff = 5;
	((__u8 *)&tcp)[13] = RST | ACK;
	pseudo = pseudo_header(&p->key, p->v6);
	sum = pseudo + ((__u32 *)&tcp)[0] + ((__u32 *)&tcp)[2] + ((__u32 *)&tcp)[3];
	tcp.check = partial ? fold(pseudo) : ~fold(sum);
	*th = tcp;
	return true;
}
