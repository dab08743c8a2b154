/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parses a frame into struct packet. Callers never compute an offset. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "packet.h"

#define VLAN_ID 0x0fff /* of a tag; 0: priority alone */

/*
 * Result of parse(). From PARSED_TRUNCATED on: TCP or ICMP that cannot be translated; addresses are set, ports are not.
 */
enum parsed {
	PARSED_OTHER, /* of another protocol, or another VLAN */
	PARSED_TCP,
	PARSED_ICMP, /* of IPv4 or IPv6: p->len bytes at p->l4 */
	PARSED_TRUNCATED,
	PARSED_FRAGMENT,
	PARSED_IP_OPTIONS,
	PARSED_IPV6_EXTENSION,
};

/* Parses the TCP header at p->l4, p->len bytes with its payload. */
static __always_inline int parse_tcp(struct packet *p, const struct tcphdr *th, const void *end)
{
	const __be32 *opt = (const void *)(th + 1);
	__u32 header;

	if ((const void *)(th + 1) > end)
		return PARSED_TRUNCATED;
	header = th->doff * 4;
	if (header < TCP_BYTES || header > p->len)
		return PARSED_TRUNCATED;
	p->key.sport = th->source;
	p->key.dport = th->dest;
	p->seq = bpf_ntohl(th->seq);
	p->ack = bpf_ntohl(th->ack_seq);
	p->flags = ((const __u8 *)th)[13];
	p->urgent = p->flags & URG || th->urg_ptr;
	p->window = bpf_ntohs(th->window);
	p->len -= header;
	p->payload = p->l4 + header;
	p->options = header - TCP_BYTES;
	no_options(p);
	p->plain = 1;
	if (header == TCP_BYTES)
		return PARSED_TCP;
	if (header == TCP_BYTES + 12 && (const void *)(opt + 3) <= end && opt[0] == bpf_htonl(NOP_NOP_TS)) {
		p->ts_at = 2;
		p->tsval = bpf_ntohl(opt[1]);
		p->tsecr = bpf_ntohl(opt[2]);
		return PARSED_TCP;
	}
	p->plain = 0;
	return PARSED_TCP;
}

static __always_inline int parse_ipv4(struct __sk_buff *skb, struct packet *p, const struct iphdr *ip, const void *end)
{
	__u32 total, held = skb->len - ETH_HLEN;

	if ((const void *)(ip + 1) > end || ip->version != 4)
		return PARSED_OTHER; /* its addresses cannot be read */
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_ICMP)
		return PARSED_OTHER;
	map_addr(p->key.src, ip->saddr);
	map_addr(p->key.dst, ip->daddr);
	p->key.sport = p->key.dport = 0;
	p->v6 = 0;
	p->ttl = ip->ttl;
	if (ip->protocol == IPPROTO_ICMP && (ip->ihl != 5 || ip->frag_off & bpf_htons(FRAGMENTED)))
		return PARSED_OTHER;
	if (ip->ihl != 5)
		return PARSED_IP_OPTIONS;
	if (ip->frag_off & bpf_htons(FRAGMENTED))
		return PARSED_FRAGMENT;
	total = bpf_ntohs(ip->tot_len);
	if (!total && skb->gso_size) /* GSO packet of more than 64 KiB */
		total = held;
	if (total > held || total < sizeof(*ip))
		return PARSED_TRUNCATED;
	p->l4 = ETH_HLEN + sizeof(*ip);
	p->len = total - sizeof(*ip);
	if (ip->protocol == IPPROTO_ICMP)
		return PARSED_ICMP;
	return parse_tcp(p, (const void *)(ip + 1), end);
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, struct packet *p, const struct ipv6hdr *ip,
				      const void *end)
{
	__u32 length, held = skb->len - ETH_HLEN - sizeof(*ip);

	if ((const void *)(ip + 1) > end || ip->version != 6)
		return PARSED_OTHER;
	copy_addr(p->key.src, &ip->saddr);
	copy_addr(p->key.dst, &ip->daddr);
	p->key.sport = p->key.dport = 0;
	p->v6 = 1;
	p->ttl = ip->hop_limit;
	switch (ip->nexthdr) {
	case IPPROTO_TCP:
	case IPPROTO_ICMPV6:
		break;
	case IPPROTO_FRAGMENT:
		return PARSED_FRAGMENT;
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		return PARSED_IPV6_EXTENSION;
	default:
		return PARSED_OTHER;
	}
	length = bpf_ntohs(ip->payload_len);
	if (!length && skb->gso_size)
		length = held;
	if (length > held)
		return PARSED_TRUNCATED;
	p->l4 = ETH_HLEN + sizeof(*ip);
	p->len = length;
	if (ip->nexthdr == IPPROTO_ICMPV6)
		return PARSED_ICMP;
	return parse_tcp(p, (const void *)(ip + 1), end);
}

/* Returns an enum parsed. A priority tag counts as none. */
static __always_inline int parse(struct __sk_buff *skb, struct packet *p)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth;
	__u32 want = ETH_HLEN + sizeof(struct iphdr) + TCP_BYTES;

	if (skb->vlan_present && skb->vlan_tci & VLAN_ID) /* another VLAN */
		return PARSED_OTHER;
	/* headers only: pulling payload into the linear part costs the receiver a second copy */
	if (skb->protocol != bpf_htons(ETH_P_IP))
		want += sizeof(struct ipv6hdr) - sizeof(struct iphdr);
	if (data + want > end && (long)end - (long)data < skb->len) {
		if (want > skb->len)
			want = skb->len;
		if (bpf_skb_pull_data(skb, want))
			return PARSED_OTHER;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	eth = data;
	if ((void *)(eth + 1) > end)
		return PARSED_OTHER;
	if (eth->h_proto != bpf_htons(ETH_P_IP) && eth->h_proto != bpf_htons(ETH_P_IPV6))
		return PARSED_OTHER;
	__builtin_memcpy(p->dmac, eth->h_dest, 6);
	__builtin_memcpy(p->smac, eth->h_source, 6);
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return parse_ipv4(skb, p, (void *)(eth + 1), end);
	return parse_ipv6(skb, p, (void *)(eth + 1), end);
}
