/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Headers pushed and popped [7.2.5]. The kernel lets a program insert bytes in front of a frame, and take them out behind the link
 * header of what it believes to be IP; what it believes follows the frame's own bytes only in the VLAN helpers. resync() has
 * them look. The outermost VLAN tag stays out of the bytes, where the kernel keeps it.
 */
#pragma once

#include "change.h"
#include "tables.h"

#define HEAD_BYTES 128                                      /* bytes of headers that are moved at once */
#define MAX_LINK   (ETH_HLEN + 3 * 4 + sizeof(struct snap)) /* bytes of a link header: three tags may be in it */

/* Makes the kernel's idea of the protocol that of the frame's bytes, and takes a VLAN tag out of them, unless one is out. */
static __always_inline int resync(struct __sk_buff *skb)
{
	__be16 type = bpf_htons(ETH_P_8021Q);

	if (!skb->vlan_present && bpf_skb_vlan_push(skb, type, 0))
		return -1;
	/* the tag that is out goes into the bytes, and comes out again with a look at what is behind it */
	if (bpf_skb_vlan_push(skb, type, 0) || bpf_skb_vlan_pop(skb))
		return -1;
	return 0;
}

static __always_inline int resync_untagged(struct __sk_buff *skb)
{
	if (resync(skb))
		return -1;
	return bpf_skb_vlan_pop(skb); /* the one that resync put in */
}

/* Follows the bytes, whether a tag is out or not. */
static __always_inline int follow(struct __sk_buff *skb)
{
	return skb->vlan_present ? resync(skb) : resync_untagged(skb);
}

/* Replaces the first len bytes (at most HEAD_BYTES), which are in t->fresh. */
static __always_inline int store_head(struct __sk_buff *skb, struct traversal *t, __u32 len)
{
	barrier_var(len); /* the bounds are for the verifier, in the register that it looks at */
	if (len < 1 || len > HEAD_BYTES)
		return -1;
	return bpf_skb_store_bytes(skb, 0, t->fresh, len, 0);
}

struct sk_buff {
	__u16 network_header;
	__u16 mac_header;
} __attribute__((preserve_access_index));

extern void *bpf_cast_to_kern_ctx(void *) __ksym;

/* How long the kernel believes the link header to be. Labels and service tags that were put in front are part of it to the kernel. */
static __always_inline __u32 link_header(struct __sk_buff *skb)
{
	struct sk_buff *inside = bpf_cast_to_kern_ctx(skb);

	return (__u16)(inside->network_header - inside->mac_header);
}

#define SHORTEST_FRAME 60 /* IEEE 802.3, 4A.2.3.2.4, without the FCS */

/*
 * Takes the bytes [from, from + len) out of the frame. What the kernel takes out is behind what it believes to be the link header: the bytes
 * between the two places are put back where they belong.
 */
static __always_inline int cut(struct __sk_buff *skb, struct traversal *t, __u32 from, __u32 len)
{
	__u32 at, low, between, least, want = skb->len - len;
	__be16 ip = bpf_htons(ETH_P_IP), type;

	if (bpf_skb_load_bytes(skb, 12, &type, 2) || bpf_skb_store_bytes(skb, 12, &ip, 2, 0) || follow(skb) ||
	    bpf_skb_store_bytes(skb, 12, &type, 2, 0))
		return -1;
	at = link_header(skb);
	low = at < from ? at : from;
	between = (at < from ? from : at) - low;
	/* the kernel wants to leave what may be an IP header */
	least = low + between + len + sizeof(struct iphdr);
	if (skb->len < least && bpf_skb_change_tail(skb, least, 0))
		return -1;
	barrier_var(between); /* as in store_head */
	if (between > HEAD_BYTES)
		return -1;
	if (between && bpf_skb_load_bytes(skb, at < from ? at : from + len, t->fresh, between))
		return -1;
	if (bpf_skb_adjust_room(skb, -(__s32)len, BPF_ADJ_ROOM_MAC, BPF_F_ADJ_ROOM_FIXED_GSO))
		return -1;
	if (between && bpf_skb_store_bytes(skb, low, t->fresh, between, 0))
		return -1;
	/* what was long enough for a wire stays so */
	if (want + len >= SHORTEST_FRAME && want < SHORTEST_FRAME)
		want = SHORTEST_FRAME;
	if (skb->len != want && bpf_skb_change_tail(skb, want, 0))
		return -1;
	return follow(skb);
}

/* Puts len bytes of nothing in front of the frame. */
static __always_inline int grow(struct __sk_buff *skb, __u32 len)
{
	return bpf_skb_change_head(skb, len, 0);
}

/* After a push or pop: the packet is another. */
static __always_inline int changed(struct __sk_buff *skb, bool uncovered)
{
	struct traversal *t = traversal();

	if (!t)
		return DROP_CHANGE;
	if (uncovered)
		astray(t);
	return parse(skb) ? DROP_CHANGE : 0;
}

__noinline int push_vlan(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__u16 tci = 0;

	if (!t)
		return DROP_CHANGE;
	if (skb->vlan_present)
		tci = skb->vlan_tci;
	if (bpf_skb_vlan_push(skb, bpf_htons(t->op.arg), tci))
		return DROP_CHANGE;
	return changed(skb, false);
}

/* Without a tag the packet is already what it is to become: it goes on, as in Open vSwitch. */
__noinline int pop_vlan(struct __sk_buff *skb)
{
	if (!skb->vlan_present)
		return 0;
	if (bpf_skb_vlan_pop(skb))
		return DROP_CHANGE;
	return changed(skb, true);
}

/* After an action that made the packet one of another type. */
__noinline int retype(struct __sk_buff *skb)
{
	return follow(skb) ? DROP_CHANGE : changed(skb, true);
}

/* OP_VLAN_VID, OP_VLAN_PCP */
__noinline int set_tag(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__u16 tci, type;

	if (!t)
		return DROP_CHANGE;
	if (!skb->vlan_present)
		return DROP_NOT_THERE;
	tci = skb->vlan_tci;
	type = skb->vlan_proto;
	if (t->op.kind == OP_VLAN_VID)
		tci = (tci & 0xf000) | (t->op.arg & 0xfff);
	else
		tci = (tci & 0x1fff) | (t->op.arg & 7) << 13;
	put_tag(&t->fields, tci);
	if (bpf_skb_vlan_pop(skb) || bpf_skb_vlan_push(skb, type, tci))
		return DROP_CHANGE;
	return 0;
}

/* What a frame says of its length, if it says so in front of a SNAP header, changes with what is behind that. Returns -1 if it cannot. */
static __always_inline int lengthen(struct __sk_buff *skb, struct traversal *t, __s32 by)
{
	__be16 length;
	__s32 n;

	if (!t->length)
		return 0;
	if (bpf_skb_load_bytes(skb, t->length, &length, 2))
		return -1;
	n = bpf_ntohs(length) + by;
	length = bpf_htons(n);
	return n < 0 || n >= LEAST_TYPE ? -1 : bpf_skb_store_bytes(skb, t->length, &length, 2, 0);
}

/* A label goes between the tags and what they hold. */
__noinline int push_mpls(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__u32 l3, label = 1 << 8; /* bottom of stack */
	__be32 word;
	__u8 ttl = 0;

	if (!t)
		return DROP_CHANGE;
	l3 = t->l3;
	switch (t->kind3) {
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
	if (l3 < ETH_HLEN || l3 > MAX_LINK || lengthen(skb, t, 4) || bpf_skb_load_bytes(skb, 0, t->fresh, l3) ||
	    grow(skb, 4))
		return DROP_CHANGE;
	*(__be16 *)&t->fresh[(l3 - 2) & 63] = bpf_htons(t->op.arg);
	word = bpf_htonl(label);
	__builtin_memcpy(&t->fresh[l3 & 63], &word, 4);
	if (store_head(skb, t, l3 + 4))
		return DROP_CHANGE;
	return changed(skb, false);
}

__noinline int pop_mpls(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__be16 type;
	__u32 l3;

	if (!t)
		return DROP_CHANGE;
	if (t->kind3 != L3_MPLS)
		return DROP_NOT_THERE;
	l3 = t->l3;
	type = bpf_htons(t->op.arg);
	if (lengthen(skb, t, -4) || cut(skb, t, l3, 4) || bpf_skb_store_bytes(skb, l3 - 2, &type, 2, 0) || follow(skb))
		return DROP_CHANGE;
	return changed(skb, true);
}

struct pbb_head { /* IEEE 802.1Q, 9.7: the I-TAG's control information behind backbone addresses and EtherType */
	__u8 dst[6];
	__u8 src[6];
	__be16 type;
	__be32 info;
} __attribute__((packed));

/* The frame gets a backbone header with its own addresses; its tag goes into its bytes. */
__noinline int push_pbb(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__be16 tag[2] = {}, empty[2] = { bpf_htons(ETH_P_8021Q), 0 };
	__u32 len = sizeof(struct pbb_head) + 12, more = 0;
	struct pbb_head *h;
	__be32 info = 0;

	if (!t)
		return DROP_CHANGE;
	if (t->kind3 == L3_PBB)
		info = t->fields.label;
	if (bpf_skb_load_bytes(skb, 0, &t->fresh[sizeof(*h)], 12))
		return DROP_CHANGE;
	if (skb->vlan_present) {
		tag[0] = skb->vlan_proto;
		tag[1] = bpf_htons(skb->vlan_tci);
		if (bpf_skb_vlan_pop(skb))
			return DROP_CHANGE;
		len += 4;
		if (skb->vlan_present) { /* an inner one has come out: it goes back */
			if (bpf_skb_vlan_push(skb, empty[0], 0))
				return DROP_CHANGE;
			more = sizeof(empty);
		}
	}
	if (grow(skb, len - 12 + more))
		return DROP_CHANGE;
	h = (struct pbb_head *)t->fresh;
	__builtin_memcpy(h, &t->fresh[sizeof(*h)], 12);
	h->type = bpf_htons(t->op.arg);
	h->info = info;
	__builtin_memcpy(&t->fresh[sizeof(*h) + 12], tag, 4);
	if (bpf_skb_store_bytes(skb, more, t->fresh, len, 0))
		return DROP_CHANGE;
	/* the empty tag that is out makes room for one in front, which then goes, too */
	if (more &&
	    (bpf_skb_store_bytes(skb, 0, t->fresh, 12, 0) || bpf_skb_store_bytes(skb, 12, empty, sizeof(empty), 0) ||
	     bpf_skb_vlan_pop(skb) || bpf_skb_vlan_pop(skb)))
		return DROP_CHANGE;
	/* what is divided later is divided as the IP packet that it was */
	if (!skb->gso_size && follow(skb))
		return DROP_CHANGE;
	return changed(skb, false);
}

__noinline int pop_pbb(struct __sk_buff *skb)
{
	struct traversal *t = traversal();

	if (!t)
		return DROP_CHANGE;
	if (t->kind3 != L3_PBB || t->l3 != ETH_HLEN)
		return DROP_NOT_THERE;
	if (cut(skb, t, 0, sizeof(struct pbb_head)))
		return DROP_CHANGE;
	return changed(skb, true);
}
