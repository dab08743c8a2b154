/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * From a frame to struct fields, as far as OpenFlow looks [7.2.3.8]: behind a label or a service tag it sees nothing. The outermost
 * VLAN tag is not in the bytes, as the kernel takes it out before a program sees the packet.
 */
#pragma once

#include <linux/icmpv6.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include "traversal.h"

#define ETH_P_MPLS   0x8847
#define ETH_P_MPLS_M 0x8848
#define ETH_P_PBB    0x88e7

#define PRESENT      0x1000 /* OFPVID_PRESENT */

#define LEAST_TYPE   0x0600 /* the first number that is no length (IEEE 802.3, 3.2.6) */
#define TYPE_NONE    0x05ff /* what is matched where there is a length instead of a type [7.2.3.8] */

/* LLC and SNAP headers (RFC 1042): of Ethernet's own types if both SAPs are 0xaa, the control is 3 and the organization is 0. */
struct snap {
	__u8 dsap;
	__u8 ssap;
	__u8 control;
	__u8 organization[3];
	__be16 type;
} __attribute__((packed));

/* Bits of OXM_OF_IPV6_EXTHDR [7.2.3.8]. */
enum exthdr {
	EXT_NONEXT = 1,
	EXT_ESP = 2,
	EXT_AUTH = 4,
	EXT_DEST = 8,
	EXT_FRAG = 16,
	EXT_ROUTER = 32,
	EXT_HOP = 64,
	EXT_UNREP = 128,
	EXT_UNSEQ = 256,
};

static __always_inline bool is_tag(__be16 type)
{
	return type == bpf_htons(ETH_P_8021Q) || type == bpf_htons(ETH_P_8021AD);
}

static __always_inline bool is_mpls(__be16 type)
{
	return type == bpf_htons(ETH_P_MPLS) || type == bpf_htons(ETH_P_MPLS_M);
}

static __always_inline void put_tag(struct fields *f, __u16 tci)
{
	f->vlan_vid = bpf_htons((tci & 0xfff) | PRESENT);
	f->vlan_pcp = tci >> 13;
}

struct nd_walk {
	struct __sk_buff *skb;
	__u32 off;
	__u32 type; /* of the ND message */
};

static long nd_option(__u32 i, struct nd_walk *walk)
{
	struct traversal *t = traversal();
	__u8 head[2];

	if (!t || bpf_skb_load_bytes(walk->skb, walk->off, head, 2) || !head[1])
		return 1;
	if (head[0] == 1 && head[1] == 1 && walk->type == 135) {
		t->nd_sll = walk->off + 2;
		bpf_skb_load_bytes(walk->skb, walk->off + 2, t->fields.link_src, 6);
	}
	if (head[0] == 2 && head[1] == 1 && walk->type == 136) {
		t->nd_tll = walk->off + 2;
		bpf_skb_load_bytes(walk->skb, walk->off + 2, t->fields.link_dst, 6);
	}
	walk->off += head[1] * 8;
	return 0;
}

/* The transport, at t->l4. */
__noinline int parse_l4(struct __sk_buff *skb, __u32 protocol)
{
	struct traversal *t = traversal();
	struct nd_walk walk = { .skb = skb };
	__u8 head[14];

	if (!t || t->later)
		return 0;
	switch (protocol) {
	case IPPROTO_TCP:
		if (bpf_skb_load_bytes(skb, t->l4, head, 14))
			return 0;
		t->kind4 = L4_TCP;
		t->fields.tcp_flags = *(__be16 *)&head[12] & bpf_htons(0x0fff);
		break;
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		if (bpf_skb_load_bytes(skb, t->l4, head, 4))
			return 0;
		t->kind4 = protocol == IPPROTO_UDP ? L4_UDP : L4_SCTP;
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (protocol == IPPROTO_ICMP ? t->kind3 != L3_IPV4 : t->kind3 != L3_IPV6)
			return 0;
		if (bpf_skb_load_bytes(skb, t->l4, head, 2))
			return 0;
		t->fields.l4_src = bpf_htons(head[0]);
		t->fields.l4_dst = bpf_htons(head[1]);
		t->kind4 = protocol == IPPROTO_ICMP ? L4_ICMP : L4_ICMPV6;
		if (protocol == IPPROTO_ICMPV6 && (head[0] == 135 || head[0] == 136) && !head[1]) {
			walk.type = head[0];
			if (bpf_skb_load_bytes(skb, t->l4 + 8, t->fields.nd_target, 16))
				return 0;
			t->nd_target = t->l4 + 8;
			walk.off = t->l4 + 24;
			bpf_loop(16, nd_option, &walk, 0);
		}
		return 0;
	default:
		return 0;
	}
	t->fields.l4_src = *(__be16 *)&head[0];
	t->fields.l4_dst = *(__be16 *)&head[2];
	return 0;
}

struct ext_walk {
	struct __sk_buff *skb;
	__u32 off;
	__u32 bits;
	__u32 next;
	__u32 rank; /* of the last header, in the order that RFC 8200, 4.1 recommends */
	__u32 dests;
};

static long ext_header(__u32 i, struct ext_walk *walk)
{
	struct traversal *t = traversal();
	__u32 bit, rank, len;
	__u8 head[4];

	switch (walk->next) {
	case IPPROTO_HOPOPTS:
		bit = EXT_HOP, rank = 1;
		break;
	case IPPROTO_DSTOPTS:
		bit = EXT_DEST, rank = walk->rank >= 3 ? 7 : 2; /* in front of a routing header, or last */
		break;
	case IPPROTO_ROUTING:
		bit = EXT_ROUTER, rank = 3;
		break;
	case IPPROTO_FRAGMENT:
		bit = EXT_FRAG, rank = 4;
		break;
	case IPPROTO_AH:
		bit = EXT_AUTH, rank = 5;
		break;
	case IPPROTO_ESP:
		bit = EXT_ESP, rank = 6;
		break;
	case IPPROTO_NONE:
		walk->bits |= EXT_NONEXT;
		return 1;
	default:
		return 1;
	}
	if (walk->bits & bit && (bit != EXT_DEST || ++walk->dests > 1))
		walk->bits |= EXT_UNREP;
	if (rank < walk->rank)
		walk->bits |= EXT_UNSEQ;
	walk->bits |= bit;
	walk->rank = rank;
	if (!t || bit == EXT_ESP || bpf_skb_load_bytes(walk->skb, walk->off, head, 4))
		return 1; /* what is behind ESP cannot be read */
	len = (head[1] + 1) * 8;
	if (bit == EXT_AUTH)
		len = (head[1] + 2) * 4;
	if (bit == EXT_FRAG) {
		len = 8;
		t->fragment = 1;
		t->fragment_header = walk->off;
		t->later = (head[2] << 8 | head[3]) >> 3 != 0;
	}
	walk->next = head[0];
	walk->off += len;
	return t->later ? 1 : 0; /* what follows is the middle of something */
}

__noinline int parse_ipv6(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	struct ext_walk walk = { .skb = skb };
	struct ipv6hdr ip;

	if (!t || bpf_skb_load_bytes(skb, t->l3, &ip, sizeof(ip)) || ip.version != 6)
		return 0;
	t->kind3 = L3_IPV6;
	t->fields.flow_label = *(__be32 *)&ip & bpf_htonl(0xfffff);
	t->fields.ip_dscp = (__u8)(ip.priority << 2 | ip.flow_lbl[0] >> 6);
	t->fields.ip_ecn = ip.flow_lbl[0] >> 4 & 3;
	__builtin_memcpy(t->fields.ip_src, &ip.saddr, 16);
	__builtin_memcpy(t->fields.ip_dst, &ip.daddr, 16);
	walk.off = t->l3 + sizeof(ip);
	walk.next = ip.nexthdr;
	bpf_loop(12, ext_header, &walk, 0);
	t->fields.ipv6_exthdr = bpf_htons(walk.bits);
	t->fields.ip_proto = bpf_htons(walk.next);
	t->l4 = walk.off;
	return parse_l4(skb, walk.next);
}

__noinline int parse_ipv4(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	struct iphdr ip;

	if (!t || bpf_skb_load_bytes(skb, t->l3, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return 0;
	t->kind3 = L3_IPV4;
	t->fields.ip_dscp = ip.tos >> 2;
	t->fields.ip_ecn = ip.tos & 3;
	t->fields.ip_proto = bpf_htons(ip.protocol);
	*(__be32 *)t->fields.ip_src = ip.saddr;
	*(__be32 *)t->fields.ip_dst = ip.daddr;
	t->fragment = !!(ip.frag_off & bpf_htons(0x3fff));
	t->later = !!(ip.frag_off & bpf_htons(0x1fff));
	t->l4 = t->l3 + ip.ihl * 4;
	return parse_l4(skb, ip.protocol);
}

/* ARP for IPv4 over Ethernet (RFC 826). */
struct arp {
	__be16 hardware, protocol;
	__u8 hardware_len, protocol_len;
	__be16 op;
	__u8 sha[6], spa[4], tha[6], tpa[4];
} __attribute__((packed));

__noinline int parse_arp(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	struct arp a;

	if (!t || bpf_skb_load_bytes(skb, t->l3, &a, sizeof(a)) || a.hardware_len != 6 || a.protocol_len != 4)
		return 0;
	t->kind3 = L3_ARP;
	t->fields.ip_proto = a.op;
	__builtin_memcpy(t->fields.ip_src, a.spa, 4);
	__builtin_memcpy(t->fields.ip_dst, a.tpa, 4);
	__builtin_memcpy(t->fields.link_src, a.sha, 6);
	__builtin_memcpy(t->fields.link_dst, a.tha, 6);
	return 0;
}

__noinline int parse_label(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__be32 word;
	__u32 v;

	if (!t || bpf_skb_load_bytes(skb, t->l3, &word, 4))
		return 0;
	v = bpf_ntohl(word);
	if (t->fields.eth_type == bpf_htons(ETH_P_PBB)) {
		t->kind3 = L3_PBB;
		t->fields.label = bpf_htonl(v & 0xffffff);
		return 0;
	}
	t->kind3 = L3_MPLS;
	t->fields.label = bpf_htonl(v >> 12);
	t->fields.mpls_tc = v >> 9 & 7;
	t->fields.mpls_bos = v >> 8 & 1;
	return 0;
}

/* Looks for the EtherType of a frame that has a length in its place, where Open vSwitch does. */
static __always_inline void parse_snap(struct __sk_buff *skb, struct traversal *t)
{
	struct snap s;

	t->fields.eth_type = bpf_htons(TYPE_NONE);
	if (bpf_skb_load_bytes(skb, t->l3, &s, sizeof(s)) || s.dsap != 0xaa || s.ssap != 0xaa || s.control != 3 ||
	    s.organization[0] | s.organization[1] | s.organization[2] || bpf_ntohs(s.type) < LEAST_TYPE)
		return;
	t->fields.eth_type = s.type;
	t->length = t->l3 - 2;
	t->l3 += sizeof(s);
}

/* Fills in the fields and offsets of the packet as it is now. The pipeline's own fields stay. Returns -1 for no frame. */
__noinline int parse(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	struct fields *f;
	struct ethhdr eth;
	__be16 more[2];

	if (!t || bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return -1;
	f = &t->fields;
	__builtin_memset((__u8 *)f + 20, 0, sizeof(*f) - 20);
	t->l3 = ETH_HLEN;
	t->length = t->l4 = t->nd_target = t->nd_sll = t->nd_tll = 0;
	t->kind3 = t->kind4 = t->fragment = t->later = 0;
	__builtin_memcpy(f->eth_dst, eth.h_dest, 6);
	__builtin_memcpy(f->eth_src, eth.h_source, 6);
	f->eth_type = eth.h_proto;
	if (skb->vlan_present)
		put_tag(f, skb->vlan_tci);
	for (int i = 0; i < 3 && is_tag(f->eth_type); i++) {
		if (bpf_skb_load_bytes(skb, t->l3, more, 4))
			return 0;
		if (!f->vlan_vid)
			put_tag(f, bpf_ntohs(more[0]));
		f->eth_type = more[1];
		t->l3 += 4;
	}
	if (bpf_ntohs(f->eth_type) < LEAST_TYPE)
		parse_snap(skb, t);
	switch (bpf_ntohs(f->eth_type)) {
	case ETH_P_IP:
		return parse_ipv4(skb);
	case ETH_P_IPV6:
		return parse_ipv6(skb);
	case ETH_P_ARP:
		return parse_arp(skb);
	case ETH_P_MPLS:
	case ETH_P_MPLS_M:
	case ETH_P_PBB:
		return parse_label(skb);
	}
	return 0;
}
