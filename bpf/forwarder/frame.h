/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The current fields and header offsets of a frame. parse.h fills them in; code that changes the frame updates them, or parses again. */
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

#define LEAST_TYPE 0x0600 /* smaller numbers are lengths (IEEE 802.3, 3.2.6) */

/* LLC and SNAP headers (RFC 1042). They hold an EtherType if both SAPs are 0xaa, control is 3 and organization is 0. */
struct snap {
	__u8 dsap;
	__u8 ssap;
	__u8 control;
	__u8 organization[3];
	__be16 type;
} __attribute__((packed));

enum layer3 { L3_NONE, L3_IPV4, L3_IPV6, L3_ARP, L3_MPLS, L3_PBB };

enum layer4 { L4_NONE, L4_TCP, L4_UDP, L4_SCTP, L4_ICMP, L4_ICMPV6 };

/* Offsets include tags in the frame's bytes. */
struct frame {
	struct fields fields;
	__u32 length; /* offset of the frame's length, if the EtherType is in a SNAP header; else 0 */
	__u32 l3;
	__u32 l4;
	__u32 nd_target; /* offset of the address; 0: none */
	__u32 nd_sll;    /* of the option's address, likewise */
	__u32 nd_tll;
	__u8 kind3; /* enum layer3 */
	__u8 kind4; /* enum layer4 */
	__u8 fragment;
	__u8 later;            /* not the first fragment */
	__u32 fragment_header; /* of IPv6, if fragmented */
};

#define HEAD_BYTES 128 /* bytes of headers moved at once */

/* Scratch for the first bytes of the frame. */
struct head_bytes {
	__u8 bytes[HEAD_BYTES];
};

static __always_inline bool is_ip(const struct frame *frame)
{
	return frame->kind3 == L3_IPV4 || frame->kind3 == L3_IPV6;
}

#define OFPVID_PRESENT 0x1000 /* [7.2.3.7] */

/* Stores the outermost tag as fields. */
static __always_inline void put_tag(struct fields *f, __u16 tci)
{
	f->vlan_vid = bpf_htons((tci & 0xfff) | OFPVID_PRESENT);
	f->vlan_pcp = tci >> 13;
}
