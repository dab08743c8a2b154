/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A frame as it is now: its fields, and where its headers stand. parse.h fills it in; who changes the frame keeps it right, or parses anew. */
#pragma once

#include <stddef.h>
#include <linux/bpf.h>
#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_helpers.h>
#include "../wire/fields.h"
#include "types.h"

#define LEAST_TYPE 0x0600 /* the first number that is no length (IEEE 802.3, 3.2.6) */

/* LLC and SNAP headers (RFC 1042): of Ethernet's own types if both SAPs are 0xaa, the control is 3 and the organization is 0. */
struct snap {
	__u8 dsap;
	__u8 ssap;
	__u8 control;
	__u8 organization[3];
	__be16 type;
} __attribute__((packed));

enum layer3 { L3_NONE, L3_IPV4, L3_IPV6, L3_ARP, L3_MPLS, L3_PBB };

enum layer4 { L4_NONE, L4_TCP, L4_UDP, L4_SCTP, L4_ICMP, L4_ICMPV6 };

/* Offsets are of the frame's bytes, tags in it included. */
struct frame {
	struct fields fields;
	__u32 length; /* of the frame's length, if its EtherType is that of a SNAP header; else 0 */
	__u32 l3;
	__u32 l4;
	__u32 nd_target; /* of the address; 0: there is none */
	__u32 nd_sll;    /* of that in the option, likewise */
	__u32 nd_tll;
	__u8 kind3; /* enum layer3 */
	__u8 kind4; /* enum layer4 */
	__u8 fragment;
	__u8 later;            /* a fragment but the first */
	__u32 fragment_header; /* of IPv6, if it is a fragment */
};

#define HEAD_BYTES 128 /* bytes of headers that are moved at once */

/* The first bytes of the frame, while they are put elsewhere. */
struct head_bytes {
	__u8 bytes[HEAD_BYTES];
};

static __always_inline bool is_ip(const struct frame *frame)
{
	return frame->kind3 == L3_IPV4 || frame->kind3 == L3_IPV6;
}

#define OFPVID_PRESENT 0x1000 /* [7.2.3.7] */

/* The frame's outermost tag, as fields. */
static __always_inline void put_tag(struct fields *f, __u16 tci)
{
	f->vlan_vid = bpf_htons((tci & 0xfff) | OFPVID_PRESENT);
	f->vlan_pcp = tci >> 13;
}
