/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From bytes to struct packet, and to the entry that the packet is for. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include "maps.h"

/* TCP header flags, in the header's own order. */
#define FIN 0x01
#define SYN 0x02
#define RST 0x04
#define ACK 0x10

struct packet {
	struct tuple key;
	__u32 seq; /* host order */
	__u32 len; /* payload bytes */
	__u16 l4;  /* offset of the TCP header */
	__u8 flags;
	__u8 v6;
};

static __always_inline bool parse_tcp(struct packet *p, const struct tcphdr *th, const void *end, __u32 length)
{
	__u32 header;

	if ((const void *)(th + 1) > end)
		return false;
	header = th->doff * 4;
	if (header < sizeof(*th) || header > length)
		return false;
	p->key.sport = th->source;
	p->key.dport = th->dest;
	p->seq = bpf_ntohl(th->seq);
	p->flags = ((const __u8 *)th)[13];
	p->len = length - header;
	return true;
}

/* Whether the packet is of TCP with whole headers, without IP options or extensions, and no fragment or tagged. */
static __always_inline bool parse(struct __sk_buff *skb, struct packet *p)
{
	__u32 want = ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct tcphdr), length;
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;

	if (skb->protocol == bpf_htons(ETH_P_IP))
		want = ETH_HLEN + sizeof(struct iphdr) + sizeof(struct tcphdr);
	else if (skb->protocol != bpf_htons(ETH_P_IPV6))
		return false;
	if (skb->vlan_present)
		return false;
	if (data + want > end) {
		if (skb->len < want || bpf_skb_pull_data(skb, want))
			return false;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	if (skb->protocol == bpf_htons(ETH_P_IP)) {
		struct iphdr *ip = data + ETH_HLEN;

		if ((void *)(ip + 1) > end || ip->protocol != IPPROTO_TCP || ip->ihl != 5 || ip->version != 4 ||
		    ip->frag_off & bpf_htons(0x3fff))
			return false;
		copy_addr4(p->key.src, ip->saddr);
		copy_addr4(p->key.dst, ip->daddr);
		p->v6 = 0;
		p->l4 = ETH_HLEN + sizeof(*ip);
		length = bpf_ntohs(ip->tot_len) - sizeof(*ip);
		if (!ip->tot_len) /* more than 64 KiB held together by the kernel */
			length = skb->len - p->l4;
		return length <= skb->len - p->l4 && parse_tcp(p, (void *)(ip + 1), end, length);
	} else {
		struct ipv6hdr *ip = data + ETH_HLEN;

		if ((void *)(ip + 1) > end || ip->nexthdr != IPPROTO_TCP || ip->version != 6)
			return false;
		copy_addr(p->key.src, &ip->saddr);
		copy_addr(p->key.dst, &ip->daddr);
		p->v6 = 1;
		p->l4 = ETH_HLEN + sizeof(*ip);
		length = bpf_ntohs(ip->payload_len);
		if (!length)
			length = skb->len - p->l4;
		return length <= skb->len - p->l4 && parse_tcp(p, (void *)(ip + 1), end, length);
	}
}

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
