/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Parses a frame into struct fields, as deep as OpenFlow does [7.2.3.8]: not behind an MPLS label or a service tag. The outermost VLAN tag
 * is not in the bytes: the kernel moves it to the skb first.
 */
#pragma once

#include "frame.h"

#define ETH_P_MPLS   0x8847
#define ETH_P_MPLS_M 0x8848
#define ETH_P_PBB    0x88e7

#define TYPE_NONE    0x05ff /* the value to match if there is a length instead of a type [7.2.3.8] */

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

struct nd_walk {
	struct __sk_buff *skb;
	struct frame *frame;
	__u32 off;
	__u32 type; /* of the ND message */
};

static long nd_option(__u32 i, struct nd_walk *walk)
{
	struct frame *frame = walk->frame;
	__u8 head[2];

	if (bpf_skb_load_bytes(walk->skb, walk->off, head, 2) || !head[1])
		return 1;
	if (head[0] == 1 && head[1] == 1 && walk->type == 135) {
		frame->nd_sll = walk->off + 2;
		bpf_skb_load_bytes(walk->skb, walk->off + 2, frame->fields.link_src, 6);
	}
	if (head[0] == 2 && head[1] == 1 && walk->type == 136) {
		frame->nd_tll = walk->off + 2;
		bpf_skb_load_bytes(walk->skb, walk->off + 2, frame->fields.link_dst, 6);
	}
	walk->off += head[1] * 8;
	return 0;
}

/* The transport, at frame->l4. */
__noinline int parse_l4(struct __sk_buff *skb, struct frame *frame, __u32 protocol)
{
	struct nd_walk walk = { .skb = skb, .frame = frame };
	__u8 head[14];

	if (!frame || frame->later)
		return 0;
	switch (protocol) {
	case IPPROTO_TCP:
		if (bpf_skb_load_bytes(skb, frame->l4, head, 14))
			return 0;
		frame->kind4 = L4_TCP;
		frame->fields.tcp_flags = *(__be16 *)&head[12] & bpf_htons(0x0fff);
		break;
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		if (bpf_skb_load_bytes(skb, frame->l4, head, 4))
			return 0;
		frame->kind4 = protocol == IPPROTO_UDP ? L4_UDP : L4_SCTP;
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (protocol == IPPROTO_ICMP ? frame->kind3 != L3_IPV4 : frame->kind3 != L3_IPV6)
			return 0;
		if (bpf_skb_load_bytes(skb, frame->l4, head, 2))
			return 0;
		frame->fields.l4_src = bpf_htons(head[0]);
		frame->fields.l4_dst = bpf_htons(head[1]);
		frame->kind4 = protocol == IPPROTO_ICMP ? L4_ICMP : L4_ICMPV6;
		if (protocol == IPPROTO_ICMPV6 && (head[0] == 135 || head[0] == 136) && !head[1]) {
			walk.type = head[0];
			if (bpf_skb_load_bytes(skb, frame->l4 + 8, frame->fields.nd_target, 16))
				return 0;
			frame->nd_target = frame->l4 + 8;
			walk.off = frame->l4 + 24;
			bpf_loop(16, nd_option, &walk, 0);
		}
		return 0;
	default:
		return 0;
	}
	frame->fields.l4_src = *(__be16 *)&head[0];
	frame->fields.l4_dst = *(__be16 *)&head[2];
	return 0;
}

struct ext_walk {
	struct __sk_buff *skb;
	struct frame *frame;
	__u32 off;
	__u32 bits;
	__u32 next;
	__u32 rank; /* position of the last header in the order of RFC 8200, 4.1 */
};

#define EXT_RANK    16        /* shift of a rank beside its bit */
#define EXT_DEST_II (1 << 15) /* the second header of destination options, which may be there */

/*
 * The bit and the rank of a header behind one of that rank; 0: no header with another behind it. A function, as the verifier would follow
 * each of its results through each round otherwise: Linux 6.19 was at three quarters of its limit.
 */
__noinline int ext_kind(__u32 next, __u32 rank)
{
	switch (next) {
	case IPPROTO_HOPOPTS:
		return EXT_HOP | 1 << EXT_RANK;
	case IPPROTO_DSTOPTS: /* before a routing header, or last */
		return EXT_DEST | (rank >= 3 ? 7 : 2) << EXT_RANK;
	case IPPROTO_ROUTING:
		return EXT_ROUTER | 3 << EXT_RANK;
	case IPPROTO_FRAGMENT:
		return EXT_FRAG | 4 << EXT_RANK;
	case IPPROTO_AH:
		return EXT_AUTH | 5 << EXT_RANK;
	case IPPROTO_ESP:
		return EXT_ESP | 6 << EXT_RANK;
	}
	return 0;
}

static long ext_header(__u32 i, struct ext_walk *walk)
{
	struct frame *frame = walk->frame;
	__u32 kind = ext_kind(walk->next, walk->rank), bit = kind & 0xffff, rank = kind >> EXT_RANK, len;
	__u8 head[4];

	if (!bit) {
		if (walk->next == IPPROTO_NONE)
			walk->bits |= EXT_NONEXT;
		return 1;
	}
	if (bit == EXT_DEST && walk->bits & EXT_DEST && !(walk->bits & EXT_DEST_II))
		walk->bits |= EXT_DEST_II;
	else if (walk->bits & bit)
		walk->bits |= EXT_UNREP;
	if (rank < walk->rank)
		walk->bits |= EXT_UNSEQ;
	walk->bits |= bit;
	walk->rank = rank;
	if (bit == EXT_ESP || bpf_skb_load_bytes(walk->skb, walk->off, head, 4))
		return 1; /* encrypted from here on */
	len = (head[1] + 1) * 8;
	if (bit == EXT_AUTH)
		len = (head[1] + 2) * 4;
	if (bit == EXT_FRAG) {
		len = 8;
		frame->fragment = 1;
		frame->fragment_header = walk->off;
		frame->later = (head[2] << 8 | head[3]) >> 3 != 0;
	}
	walk->next = head[0];
	walk->off += len;
	return frame->later ? 1 : 0; /* a later fragment: the rest is no header */
}

__noinline int parse_ipv6(struct __sk_buff *skb, struct frame *frame)
{
	struct ext_walk walk = { .skb = skb, .frame = frame };
	struct ipv6hdr ip;

	if (!frame || bpf_skb_load_bytes(skb, frame->l3, &ip, sizeof(ip)) || ip.version != 6)
		return 0;
	frame->kind3 = L3_IPV6;
	frame->fields.flow_label = *(__be32 *)&ip & bpf_htonl(0xfffff);
	frame->fields.ip_dscp = (__u8)(ip.priority << 2 | ip.flow_lbl[0] >> 6);
	frame->fields.ip_ecn = ip.flow_lbl[0] >> 4 & 3;
	__builtin_memcpy(frame->fields.ip_src, &ip.saddr, 16);
	__builtin_memcpy(frame->fields.ip_dst, &ip.daddr, 16);
	walk.off = frame->l3 + sizeof(ip);
	walk.next = ip.nexthdr;
	bpf_loop(12, ext_header, &walk, 0);
	frame->fields.ipv6_exthdr = bpf_htons(walk.bits & ~EXT_DEST_II);
	frame->fields.ip_proto = bpf_htons(walk.next);
	frame->l4 = walk.off;
	return parse_l4(skb, frame, walk.next);
}

__noinline int parse_ipv4(struct __sk_buff *skb, struct frame *frame)
{
	struct iphdr ip;

	if (!frame || bpf_skb_load_bytes(skb, frame->l3, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5)
		return 0;
	frame->kind3 = L3_IPV4;
	frame->fields.ip_dscp = ip.tos >> 2;
	frame->fields.ip_ecn = ip.tos & 3;
	frame->fields.ip_proto = bpf_htons(ip.protocol);
	*(__be32 *)frame->fields.ip_src = ip.saddr;
	*(__be32 *)frame->fields.ip_dst = ip.daddr;
	frame->fragment = !!(ip.frag_off & bpf_htons(FRAGMENTED));
	frame->later = !!(ip.frag_off & bpf_htons(LATER_FRAGMENT));
	frame->l4 = frame->l3 + ip.ihl * 4;
	return parse_l4(skb, frame, ip.protocol);
}

/* ARP for IPv4 over Ethernet (RFC 826). */
struct arp {
	__be16 hardware, protocol;
	__u8 hardware_len, protocol_len;
	__be16 op;
	__u8 sha[6], spa[4], tha[6], tpa[4];
} __attribute__((packed));

__noinline int parse_arp(struct __sk_buff *skb, struct frame *frame)
{
	struct arp a;

	if (!frame || bpf_skb_load_bytes(skb, frame->l3, &a, sizeof(a)) || a.hardware_len != 6 || a.protocol_len != 4)
		return 0;
	frame->kind3 = L3_ARP;
	frame->fields.ip_proto = a.op;
	__builtin_memcpy(frame->fields.ip_src, a.spa, 4);
	__builtin_memcpy(frame->fields.ip_dst, a.tpa, 4);
	__builtin_memcpy(frame->fields.link_src, a.sha, 6);
	__builtin_memcpy(frame->fields.link_dst, a.tha, 6);
	return 0;
}

__noinline int parse_label(struct __sk_buff *skb, struct frame *frame)
{
	__be32 word;
	__u32 v;

	if (!frame || bpf_skb_load_bytes(skb, frame->l3, &word, 4))
		return 0;
	v = bpf_ntohl(word);
	if (frame->fields.eth_type == bpf_htons(ETH_P_PBB)) {
		frame->kind3 = L3_PBB;
		frame->fields.label = bpf_htonl(v & 0xffffff);
		return 0;
	}
	frame->kind3 = L3_MPLS;
	frame->fields.label = bpf_htonl(v >> 12);
	frame->fields.mpls_tc = v >> 9 & 7;
	frame->fields.mpls_bos = v >> 8 & 1;
	return 0;
}

/* Reads the EtherType of a frame with a length field from its SNAP header, as Open vSwitch does. */
static __always_inline void parse_snap(struct __sk_buff *skb, struct frame *frame)
{
	struct snap s;

	frame->fields.eth_type = bpf_htons(TYPE_NONE);
	if (bpf_skb_load_bytes(skb, frame->l3, &s, sizeof(s)) || s.dsap != 0xaa || s.ssap != 0xaa || s.control != 3 ||
	    s.organization[0] | s.organization[1] | s.organization[2] || bpf_ntohs(s.type) < LEAST_TYPE)
		return;
	frame->fields.eth_type = s.type;
	frame->length = frame->l3 - 2;
	frame->l3 += sizeof(s);
}

/* Fills in fields and offsets from the packet's bytes. The pipeline's own fields are kept. Returns -1 if it is no Ethernet frame. */
__noinline int parse(struct __sk_buff *skb, struct frame *frame)
{
	struct fields *f;
	struct ethhdr eth;
	__be16 more[2];

	if (!frame || bpf_skb_load_bytes(skb, 0, &eth, sizeof(eth)))
		return -1;
	f = &frame->fields;
	__builtin_memset((__u8 *)f + 20, 0, sizeof(*f) - 20);
	frame->l3 = ETH_HLEN;
	frame->length = frame->l4 = frame->nd_target = frame->nd_sll = frame->nd_tll = 0;
	frame->kind3 = frame->kind4 = frame->fragment = frame->later = 0;
	__builtin_memcpy(f->eth_dst, eth.h_dest, 6);
	__builtin_memcpy(f->eth_src, eth.h_source, 6);
	f->eth_type = eth.h_proto;
	if (skb->vlan_present)
		put_tag(f, skb->vlan_tci);
	for (int i = 0; i < 3 && is_tag(f->eth_type); i++) {
		if (bpf_skb_load_bytes(skb, frame->l3, more, 4))
			return 0;
		if (!f->vlan_vid)
			put_tag(f, bpf_ntohs(more[0]));
		f->eth_type = more[1];
		frame->l3 += 4;
	}
	if (bpf_ntohs(f->eth_type) < LEAST_TYPE)
		parse_snap(skb, frame);
	switch (bpf_ntohs(f->eth_type)) {
	case ETH_P_IP:
		return parse_ipv4(skb, frame);
	case ETH_P_IPV6:
		return parse_ipv6(skb, frame);
	case ETH_P_ARP:
		return parse_arp(skb, frame);
	case ETH_P_MPLS:
	case ETH_P_MPLS_M:
	case ETH_P_PBB:
		return parse_label(skb, frame);
	}
	return 0;
}
