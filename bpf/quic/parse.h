/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parses a frame with a UDP datagram or an ICMP message. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/udp.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/fields.h"

#define VLAN_ID 0x0fff /* of a tag; 0: priority alone */

/* In host byte order but for the key. */
struct datagram {
	struct tuple key;
	__u32 len; /* of the payload, or of the ICMP message; of all segments when GSO */
	__u16 l4;  /* offset of the UDP or ICMP header */
	__u16 payload;
	__u8 v6;
	__u8 ttl;
};

/* From DATAGRAM_TRUNCATED on: addresses are set, ports are not. */
enum kind {
	DATAGRAM_OTHER, /* of another protocol, or another VLAN */
	DATAGRAM_UDP,
	DATAGRAM_ICMP,
	DATAGRAM_TRUNCATED,
	DATAGRAM_FRAGMENT,
	DATAGRAM_OPTIONS,
	DATAGRAM_EXTENSION,
};

/* d->len bytes are at d->l4. */
static __always_inline int transport(struct datagram *d, const struct udphdr *uh, const void *end, __u8 protocol)
{
	__u32 said;

	d->key.sport = d->key.dport = 0;
	if (protocol == IPPROTO_ICMP || protocol == IPPROTO_ICMPV6)
		return DATAGRAM_ICMP;
	if ((const void *)(uh + 1) > end || d->len < sizeof(*uh))
		return DATAGRAM_TRUNCATED;
	said = bpf_ntohs(uh->len);
	if (said > d->len || (said && said < sizeof(*uh)))
		return DATAGRAM_TRUNCATED;
	if (said) /* 0: a GSO packet of more than 64 KiB */
		d->len = said;
	d->key.sport = uh->source;
	d->key.dport = uh->dest;
	d->payload = d->l4 + sizeof(*uh);
	d->len -= sizeof(*uh);
	return DATAGRAM_UDP;
}

static __always_inline int datagram_v4(struct __sk_buff *skb, struct datagram *d, const struct iphdr *ip,
				       const void *end)
{
	__u32 held = skb->len - ETH_HLEN, total;

	if ((const void *)(ip + 1) > end || ip->version != 4 ||
	    (ip->protocol != IPPROTO_UDP && ip->protocol != IPPROTO_ICMP))
		return DATAGRAM_OTHER;
	d->v6 = 0;
	d->ttl = ip->ttl;
	map_addr(d->key.src, ip->saddr);
	map_addr(d->key.dst, ip->daddr);
	if (ip->frag_off & bpf_htons(FRAGMENTED))
		return ip->protocol == IPPROTO_UDP ? DATAGRAM_FRAGMENT : DATAGRAM_OTHER;
	if (ip->ihl != 5)
		return ip->protocol == IPPROTO_UDP ? DATAGRAM_OPTIONS : DATAGRAM_OTHER;
	total = bpf_ntohs(ip->tot_len);
	if (!total && skb->gso_size)
		total = held;
	if (total < sizeof(*ip) || total > held)
		return DATAGRAM_TRUNCATED;
	d->len = total - sizeof(*ip);
	d->l4 = ETH_HLEN + sizeof(*ip);
	return transport(d, (const void *)(ip + 1), end, ip->protocol);
}

static __always_inline int datagram_v6(struct __sk_buff *skb, struct datagram *d, const struct ipv6hdr *ip,
				       const void *end)
{
	__u32 held = skb->len - ETH_HLEN - sizeof(*ip);

	if ((const void *)(ip + 1) > end || ip->version != 6)
		return DATAGRAM_OTHER;
	d->v6 = 1;
	d->ttl = ip->hop_limit;
	copy_addr(d->key.src, &ip->saddr);
	copy_addr(d->key.dst, &ip->daddr);
	switch (ip->nexthdr) {
	case IPPROTO_UDP:
	case IPPROTO_ICMPV6:
		break;
	case IPPROTO_FRAGMENT:
		return DATAGRAM_FRAGMENT;
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		return DATAGRAM_EXTENSION;
	default:
		return DATAGRAM_OTHER;
	}
	d->len = bpf_ntohs(ip->payload_len);
	if (!d->len && skb->gso_size)
		d->len = held;
	if (d->len > held)
		return DATAGRAM_TRUNCATED;
	d->l4 = ETH_HLEN + sizeof(*ip);
	return transport(d, (const void *)(ip + 1), end, ip->nexthdr);
}

/* Returns an enum kind. A priority tag counts as none. */
static __always_inline int parse_datagram(struct __sk_buff *skb, struct datagram *d)
{
	__u32 want = ETH_HLEN + sizeof(struct ipv6hdr) + sizeof(struct udphdr);
	struct ethhdr *eth;
	void *end;

	if (skb->vlan_present && skb->vlan_tci & VLAN_ID)
		return DATAGRAM_OTHER;
	if (want > skb->len)
		want = skb->len;
	if ((void *)(long)skb->data + want > (void *)(long)skb->data_end && bpf_skb_pull_data(skb, want))
		return DATAGRAM_OTHER;
	eth = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if ((void *)(eth + 1) > end)
		return DATAGRAM_OTHER;
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return datagram_v4(skb, d, (void *)(eth + 1), end);
	if (eth->h_proto == bpf_htons(ETH_P_IPV6))
		return datagram_v6(skb, d, (void *)(eth + 1), end);
	return DATAGRAM_OTHER;
}
