/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Pushing and popping of headers [7.2.5]. A program can insert bytes only in front of the frame, and remove bytes only behind what the
 * kernel takes for the link header of an IP packet. skb->protocol is updated from the frame's bytes by the VLAN helpers only: resync()
 * makes use of that. The outermost VLAN tag stays out of the bytes, in the skb.
 */
#pragma once

#include "parse.h"

#define MAX_LINK (ETH_HLEN + 3 * 4 + sizeof(struct snap)) /* of a link header with three tags */

/* Updates skb->protocol from the frame's bytes, and moves a VLAN tag from the bytes to the skb if there is none. */
static __always_inline int resync(struct __sk_buff *skb)
{
	__be16 type = bpf_htons(ETH_P_8021Q);

	if (!skb->vlan_present && bpf_skb_vlan_push(skb, type, 0))
		return -1;
	/* the skb's tag goes into the bytes and out again, which looks at the EtherType behind it */
	if (bpf_skb_vlan_push(skb, type, 0) || bpf_skb_vlan_pop(skb))
		return -1;
	return 0;
}

static __always_inline int resync_untagged(struct __sk_buff *skb)
{
	if (resync(skb))
		return -1;
	return bpf_skb_vlan_pop(skb); /* the one that resync pushed */
}

/* Updates skb->protocol with or without a tag in the skb. */
static __always_inline int follow(struct __sk_buff *skb)
{
	return skb->vlan_present ? resync(skb) : resync_untagged(skb);
}

/* Replaces the first len bytes (at most HEAD_BYTES) by head->bytes. */
static __always_inline int store_head(struct __sk_buff *skb, const struct head_bytes *head, __u32 len)
{
	return is_within(len, 1, HEAD_BYTES) ? bpf_skb_store_bytes(skb, 0, head->bytes, len, 0) : -1;
}

struct sk_buff {
	__u16 network_header;
	__u16 mac_header;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* Length of the link header in the kernel's view. Labels and service tags that were pushed are part of it. */
static __always_inline __u32 link_header(struct __sk_buff *skb)
{
	struct sk_buff *inside = bpf_cast_to_kern_ctx(skb);

	return (__u16)(inside->network_header - inside->mac_header);
}

#define SHORTEST_FRAME 60 /* IEEE 802.3, 4A.2.3.2.4, without the FCS */

/* Removes the bytes [from, from + len) of the frame. The kernel removes bytes behind its link header: the bytes between there and from are moved. */
static __always_inline int cut(struct __sk_buff *skb, struct head_bytes *head, __u32 from, __u32 len)
{
	__u32 at, low, between, least, want = skb->len - len;
	__be16 ip = bpf_htons(ETH_P_IP), type;

	if (bpf_skb_load_bytes(skb, 12, &type, 2) || bpf_skb_store_bytes(skb, 12, &ip, 2, 0) || follow(skb) ||
	    bpf_skb_store_bytes(skb, 12, &type, 2, 0))
		return -1;
	at = link_header(skb);
	low = at < from ? at : from;
	between = (at < from ? from : at) - low;
	/* the kernel insists on room for an IP header */
	least = low + between + len + sizeof(struct iphdr);
	if (skb->len < least && bpf_skb_change_tail(skb, least, 0))
		return -1;
	if (between && (!is_within(between, 1, HEAD_BYTES) ||
			bpf_skb_load_bytes(skb, at < from ? at : from + len, head->bytes, between)))
		return -1;
	if (bpf_skb_adjust_room(skb, -(__s32)len, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	if (is_within(between, 1, HEAD_BYTES) && bpf_skb_store_bytes(skb, low, head->bytes, between, 0))
		return -1;
	/* padded frames stay padded */
	if (want + len >= SHORTEST_FRAME && want < SHORTEST_FRAME)
		want = SHORTEST_FRAME;
	if (skb->len != want && bpf_skb_change_tail(skb, want, 0))
		return -1;
	return follow(skb);
}

/* Inserts len bytes in front of the frame. */
static __always_inline int grow(struct __sk_buff *skb, __u32 len)
{
	return bpf_skb_change_head(skb, len, 0);
}

/* Parses the packet again after a push or pop. */
static __always_inline int changed(struct __sk_buff *skb, struct frame *frame)
{
	return parse(skb, frame) ? DROP_CHANGE : 0;
}

__noinline int push_vlan(struct __sk_buff *skb, struct frame *frame, __u32 type)
{
	__u16 tci = 0;

	if (!frame)
		return DROP_CHANGE;
	if (skb->vlan_present)
		tci = skb->vlan_tci;
	if (bpf_skb_vlan_push(skb, bpf_htons(type), tci))
		return DROP_CHANGE;
	return changed(skb, frame);
}

__noinline int pop_vlan(struct __sk_buff *skb, struct frame *frame)
{
	if (bpf_skb_vlan_pop(skb))
		return DROP_CHANGE;
	return changed(skb, frame);
}

/* After an action that changed the packet's EtherType. */
__noinline int retype(struct __sk_buff *skb, struct frame *frame)
{
	return follow(skb) ? DROP_CHANGE : changed(skb, frame);
}

/* OP_VLAN_VID, OP_VLAN_PCP */
__noinline int set_tag(struct __sk_buff *skb, struct frame *frame, const struct op *op)
{
	__u16 tci, type;

	if (!frame || !op)
		return DROP_CHANGE;
	if (!skb->vlan_present)
		return DROP_NOT_THERE;
	tci = skb->vlan_tci;
	type = skb->vlan_proto;
	if (op->kind == OP_VLAN_VID)
		tci = (tci & 0xf000) | (op->arg & 0xfff);
	else
		tci = (tci & 0x1fff) | (op->arg & 7) << 13;
	put_tag(&frame->fields, tci);
	if (bpf_skb_vlan_pop(skb) || bpf_skb_vlan_push(skb, type, tci))
		return DROP_CHANGE;
	return 0;
}

/* Adds to the frame's length field, which a SNAP header is behind. Returns -1 if the result is invalid. */
static __always_inline int lengthen(struct __sk_buff *skb, const struct frame *frame, __s32 by)
{
	__be16 length;
	__s32 n;

	if (!frame->length)
		return 0;
	if (bpf_skb_load_bytes(skb, frame->length, &length, 2))
		return -1;
	n = bpf_ntohs(length) + by;
	length = bpf_htons(n);
	return n < 0 || n >= LEAST_TYPE ? -1 : bpf_skb_store_bytes(skb, frame->length, &length, 2, 0);
}

/* A label is pushed behind the VLAN tags. */
__noinline int push_mpls(struct __sk_buff *skb, struct frame *frame, __u32 type, struct head_bytes *head)
{
	__u32 l3, label = 1 << 8; /* bottom of stack */
	__be32 word;
	__u8 ttl = 0;

	if (!frame || !head)
		return DROP_CHANGE;
	l3 = frame->l3;
	switch (frame->kind3) {
	case L3_MPLS:
		if (bpf_skb_load_bytes(skb, l3, &word, 4))
			return DROP_NOT_THERE;
		label = bpf_ntohl(word) & ~(1U << 8);
		break;
	case L3_IPV4:
		bpf_skb_load_bytes(skb, l3 + 8, &ttl, 1);
		break;
	case L3_IPV6:
		bpf_skb_load_bytes(skb, l3 + 7, &ttl, 1);
		break;
	}
	label |= ttl;
	if (!is_within(l3, ETH_HLEN, MAX_LINK) || lengthen(skb, frame, 4) ||
	    bpf_skb_load_bytes(skb, 0, head->bytes, l3) || grow(skb, 4))
		return DROP_CHANGE;
	*(__be16 *)&head->bytes[(l3 - 2) & 63] = bpf_htons(type);
	word = bpf_htonl(label);
	__builtin_memcpy(&head->bytes[l3 & 63], &word, 4);
	if (store_head(skb, head, l3 + 4))
		return DROP_CHANGE;
	return changed(skb, frame);
}

__noinline int pop_mpls(struct __sk_buff *skb, struct frame *frame, __u32 inside, struct head_bytes *head)
{
	__be16 type;
	__u32 l3;

	if (!frame || !head)
		return DROP_CHANGE;
	if (frame->kind3 != L3_MPLS)
		return DROP_NOT_THERE;
	l3 = frame->l3;
	type = bpf_htons(inside);
	if (lengthen(skb, frame, -4) || cut(skb, head, l3, 4) || bpf_skb_store_bytes(skb, l3 - 2, &type, 2, 0) ||
	    follow(skb))
		return DROP_CHANGE;
	return changed(skb, frame);
}

struct pbb_head { /* IEEE 802.1Q, 9.7: backbone addresses, EtherType and the I-TAG's control information */
	__u8 dst[6];
	__u8 src[6];
	__be16 type;
	__be32 info;
} __attribute__((packed));

/* Pushes a backbone header with the frame's own addresses. The skb's tag moves into the bytes. */
__noinline int push_pbb(struct __sk_buff *skb, struct frame *frame, __u32 type, struct head_bytes *head)
{
	__be16 tag[2] = {}, empty[2] = { bpf_htons(ETH_P_8021Q), 0 };
	__u32 len = sizeof(struct pbb_head) + 12, more = 0;
	struct pbb_head *h;
	__be32 info = 0;

	if (!frame || !head)
		return DROP_CHANGE;
	if (frame->kind3 == L3_PBB)
		info = frame->fields.label;
	if (bpf_skb_load_bytes(skb, 0, &head->bytes[sizeof(*h)], 12))
		return DROP_CHANGE;
	if (skb->vlan_present) {
		tag[0] = skb->vlan_proto;
		tag[1] = bpf_htons(skb->vlan_tci);
		if (bpf_skb_vlan_pop(skb))
			return DROP_CHANGE;
		len += 4;
		if (skb->vlan_present) { /* an inner tag has moved out: push it back */
			if (bpf_skb_vlan_push(skb, empty[0], 0))
				return DROP_CHANGE;
			more = sizeof(empty);
		}
	}
	if (grow(skb, len - 12 + more))
		return DROP_CHANGE;
	h = (struct pbb_head *)head->bytes;
	__builtin_memcpy(h, &head->bytes[sizeof(*h)], 12);
	h->type = bpf_htons(type);
	h->info = info;
	__builtin_memcpy(&head->bytes[sizeof(*h) + 12], tag, 4);
	if (bpf_skb_store_bytes(skb, more, head->bytes, len, 0))
		return DROP_CHANGE;
	/* swap the empty tag for one in front, then pop it */
	if (more &&
	    (bpf_skb_store_bytes(skb, 0, head->bytes, 12, 0) || bpf_skb_store_bytes(skb, 12, empty, sizeof(empty), 0) ||
	     bpf_skb_vlan_pop(skb) || bpf_skb_vlan_pop(skb)))
		return DROP_CHANGE;
	/* GSO segments it as the IP packet that it was */
	if (!skb->gso_size && follow(skb))
		return DROP_CHANGE;
	return changed(skb, frame);
}

__noinline int pop_pbb(struct __sk_buff *skb, struct frame *frame, struct head_bytes *head)
{
	if (!frame || !head)
		return DROP_CHANGE;
	if (frame->kind3 != L3_PBB || frame->l3 != ETH_HLEN)
		return DROP_NOT_THERE;
	if (cut(skb, head, 0, sizeof(struct pbb_head)))
		return DROP_CHANGE;
	return changed(skb, frame);
}
