/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Changes header fields. Checksums are updated incrementally, so that a wrong one stays wrong. */
#pragma once

#include "crc32c.h"
#include "frame.h"

static __always_inline __u32 l4_sum_at(struct frame *frame)
{
	switch (frame->kind4) {
	case L4_TCP:
		return frame->l4 + 16;
	case L4_UDP:
		return frame->l4 + 6;
	case L4_ICMP:
	case L4_ICMPV6:
		return frame->l4 + 2;
	}
	return 0;
}

/* Updates the transport checksum by a difference (bpf_csum_diff) in its header or pseudo header. */
static __always_inline int mend_l4(struct __sk_buff *skb, struct frame *frame, __u32 difference, bool pseudo)
{
	__u64 flags = pseudo ? BPF_F_PSEUDO_HDR : 0;
	__u32 at = l4_sum_at(frame);

	if (!at || (pseudo && frame->kind4 == L4_ICMP))
		return 0;
	if (frame->kind4 == L4_UDP)
		flags |= BPF_F_MARK_MANGLED_0;
	return bpf_l4_csum_replace(skb, at, 0, difference, flags);
}

/* Updates SCTP's checksum (RFC 9260, 6.8) after 4 bytes at an offset of its header were xored with difference. */
static __always_inline int mend_sctp(struct __sk_buff *skb, struct frame *frame, __u32 at, __u32 difference)
{
	__u32 length, crc;
	__be16 be;

	if (frame->kind3 == L3_IPV4) {
		if (bpf_skb_load_bytes(skb, frame->l3 + 2, &be, 2))
			return -1;
		length = bpf_ntohs(be) - (frame->l4 - frame->l3);
	} else {
		if (bpf_skb_load_bytes(skb, frame->l3 + 4, &be, 2))
			return -1;
		length = bpf_ntohs(be) - (frame->l4 - frame->l3 - 40);
	}
	if (frame->fragment || bpf_skb_load_bytes(skb, frame->l4 + 8, &crc, 4))
		return frame->fragment ? 0 : -1;
	crc ^= crc32c_difference(difference, length - at - 4);
	return bpf_skb_store_bytes(skb, frame->l4 + 8, &crc, 4, 0);
}

/* Returns 0 if the packet has no such header. */
static __always_inline __u32 base_offset(struct frame *frame, __u32 base)
{
	static const __u8 layer3[] = { [BASE_LABEL] = L3_MPLS,
				       [BASE_SERVICE_TAG] = L3_PBB,
				       [BASE_ARP] = L3_ARP,
				       [BASE_IPV4] = L3_IPV4,
				       [BASE_IPV6] = L3_IPV6 };
	static const __u8 layer4[] = { [BASE_TCP] = L4_TCP,
				       [BASE_UDP] = L4_UDP,
				       [BASE_SCTP] = L4_SCTP,
				       [BASE_ICMP] = L4_ICMP,
				       [BASE_ICMPV6] = L4_ICMPV6 };

	switch (base) {
	case BASE_TYPE:
		return frame->l3 - 2;
	case BASE_ND_TARGET:
		return frame->nd_target;
	case BASE_ND_SLL:
		return frame->nd_sll;
	case BASE_ND_TLL:
		return frame->nd_tll;
	}
	if (base >= BASE_LABEL && base <= BASE_IPV6)
		return layer3[base] == frame->kind3 ? frame->l3 : 0;
	if (base >= BASE_TCP && base <= BASE_ICMPV6)
		return layer4[base] == frame->kind4 ? frame->l4 : 0;
	return 0;
}

/* Stores the new value in struct fields. */
static __always_inline void note_field(struct frame *frame, const struct op *op)
{
	const __u8 *value = op->mask ? (const __u8 *)&op->arg : op->value;
	__u32 at = op->field_at & 127, len = op->field_len;
	__u8 *field = &((__u8 *)&frame->fields)[at];

	if (len == 12 && !op->mask) { /* both link addresses: the common case */
		__builtin_memcpy(field, value, 12);
		return;
	}
	for (__u32 i = 0; i < 16; i++) {
		if (i >= len || (i >= 4 && op->mask))
			break;
		((__u8 *)&frame->fields)[(at + i) & 127] = value[i];
	}
}

/*
 * Whether a CHECKSUM_COMPLETE of the skb remains valid: it excludes the link header; and a change together with its IPv4 or transport
 * checksum cancels out. IPv6 has no header checksum, so a change of its addresses does not cancel out.
 */
static __always_inline bool hidden_sum(const struct op *op)
{
	return op->base == BASE_FRAME || (op->sums && !(op->base == BASE_IPV6 && op->sums & SUM_PSEUDO));
}

/* OP_PATCH. Returns 0, or the verdict. */
__noinline int patch(struct __sk_buff *skb, struct frame *frame, const struct op *op)
{
	__u8 old[16] = {}, fresh[16] = {};
	__u32 len, off, difference = 0;

	if (!frame || !op)
		return DROP_CHANGE;
	len = op->len;
	if (op->base == BASE_FRAME) {
		off = op->at;
	} else {
		off = base_offset(frame, op->base);
		if (!off)
			return DROP_NOT_THERE;
		off += op->at;
	}
	if (!is_within(len, 1, 16))
		return DROP_NOT_THERE;
	if (op->base == BASE_FRAME && !op->mask && !op->sums) { /* always present, and the old value is irrelevant */
		note_field(frame, op);
		return bpf_skb_store_bytes(skb, off, op->value, len, 0) ? DROP_CHANGE : 0;
	}
	if (bpf_skb_load_bytes(skb, off, old, len))
		return DROP_NOT_THERE;
	if (op->mask) {
		*(__be32 *)fresh = (*(__be32 *)old & ~op->mask) | (*(__be32 *)op->value & op->mask);
	} else {
		__builtin_memcpy(fresh, op->value, 16);
	}
	note_field(frame, op);
	if (op->sums)
		difference = (__u32)bpf_csum_diff((__be32 *)old, 16, (__be32 *)fresh, 16, 0);
	if (op->sums & SUM_IP && frame->kind3 == L3_IPV4 && bpf_l3_csum_replace(skb, frame->l3 + 10, 0, difference, 0))
		return DROP_CHANGE;
	if (op->sums & (SUM_PSEUDO | SUM_L4)) {
		if (frame->kind4 == L4_SCTP) {
			/* only the ports, which share the first word, are covered */
			if (op->sums & SUM_L4 &&
			    mend_sctp(skb, frame, 0, (*(__u32 *)old ^ *(__u32 *)fresh) << (op->at & 2) * 8))
				return DROP_CHANGE;
		} else if (mend_l4(skb, frame, difference, op->sums & SUM_PSEUDO)) {
			return DROP_CHANGE;
		}
	}
	if (bpf_skb_store_bytes(skb, off, fresh, len, hidden_sum(op) ? 0 : BPF_F_RECOMPUTE_CSUM))
		return DROP_CHANGE;
	return 0;
}

/* Writes bits of the DSCP and ECN byte of IPv4 or IPv6. */
static __always_inline int set_traffic_class(struct __sk_buff *skb, struct frame *frame, __u8 clear, __u8 set)
{
	__u32 shift = frame->kind3 == L3_IPV6 ? 4 : 0;
	__be16 before, after;

	if (!is_ip(frame) || bpf_skb_load_bytes(skb, frame->l3, &before, 2))
		return DROP_NOT_THERE;
	after = (before & ~bpf_htons(clear << shift)) | bpf_htons(set << shift);
	if (!shift && bpf_l3_csum_replace(skb, frame->l3 + 10, before, after, 2))
		return DROP_CHANGE;
	return bpf_skb_store_bytes(skb, frame->l3, &after, 2, shift ? BPF_F_RECOMPUTE_CSUM : 0) ? DROP_CHANGE : 0;
}

/* OP_DSCP, OP_ECN, OP_PROTO. Returns 0, or the verdict. */
__noinline int set_ip(struct __sk_buff *skb, struct frame *frame, const struct op *op)
{
	__be16 before, after, was;
	__u32 at;

	if (!frame || !op)
		return DROP_CHANGE;
	switch (op->kind) {
	case OP_DSCP:
		frame->fields.ip_dscp = op->arg;
		return set_traffic_class(skb, frame, 0xfc, op->arg << 2);
	case OP_ECN:
		frame->fields.ip_ecn = op->arg;
		return set_traffic_class(skb, frame, 0x03, op->arg);
	}
	if (frame->kind3 != L3_IPV4 && (frame->kind3 != L3_IPV6 || frame->fields.ipv6_exthdr))
		return DROP_NOT_THERE;
	at = frame->l3 + (frame->kind3 == L3_IPV4 ? 8 : 6);
	if (bpf_skb_load_bytes(skb, at, &before, 2))
		return DROP_NOT_THERE;
	if (frame->kind3 == L3_IPV4) {
		after = (before & bpf_htons(0xff00)) | bpf_htons(op->arg & 0xff);
		if (bpf_l3_csum_replace(skb, frame->l3 + 10, before, after, 2))
			return DROP_CHANGE;
	} else {
		after = (before & bpf_htons(0xff)) | bpf_htons((op->arg & 0xff) << 8);
	}
	/* the pseudo header of the old transport's checksum includes the number */
	was = frame->fields.ip_proto;
	frame->fields.ip_proto = bpf_htons(op->arg & 0xff);
	if (mend_l4(skb, frame, (__u32)(__u16)~was + frame->fields.ip_proto, true))
		return DROP_CHANGE;
	return bpf_skb_store_bytes(skb, at, &after, 2, frame->kind3 == L3_IPV4 ? 0 : BPF_F_RECOMPUTE_CSUM) ? DROP_CHANGE
													   : 0;
}

static __always_inline int set_byte(struct __sk_buff *skb, __u32 off, __u8 value)
{
	return bpf_skb_store_bytes(skb, off, &value, 1, BPF_F_RECOMPUTE_CSUM) ? DROP_CHANGE : 0;
}

/* Writes the TTL or hop limit. */
static __always_inline int set_ip_ttl(struct __sk_buff *skb, __u32 l3, bool v6, __u8 ttl)
{
	__be16 before, after;

	if (v6)
		return set_byte(skb, l3 + 7, ttl);
	if (bpf_skb_load_bytes(skb, l3 + 8, &before, 2))
		return DROP_NOT_THERE;
	after = (before & bpf_htons(0xff)) | bpf_htons(ttl << 8);
	if (bpf_l3_csum_replace(skb, l3 + 10, before, after, 2) || bpf_skb_store_bytes(skb, l3 + 8, &after, 2, 0))
		return DROP_CHANGE;
	return 0;
}

/* The header behind the label at frame->l3: a label, or IPv4 or IPv6 by its version; 0 if neither. */
static __always_inline int behind_label(struct __sk_buff *skb, struct frame *frame, __u8 *ttl)
{
	__u8 head[9];

	if (!frame->fields.mpls_bos)
		return bpf_skb_load_bytes(skb, frame->l3 + 7, ttl, 1) ? 0 : L3_MPLS;
	if (bpf_skb_load_bytes(skb, frame->l3 + 4, head, 9))
		return 0;
	if (head[0] >> 4 == 4) {
		*ttl = head[8];
		return L3_IPV4;
	}
	*ttl = head[7];
	return head[0] >> 4 == 6 ? L3_IPV6 : 0;
}

/* OP_DEC_NW_TTL of IPv4, the common case. */
static __always_inline int dec_ipv4_ttl(struct __sk_buff *skb, struct frame *frame)
{
	__be16 before, after;

	if (bpf_skb_load_bytes(skb, frame->l3 + 8, &before, 2))
		return DROP_NOT_THERE;
	if (bpf_ntohs(before) < 0x200)
		return DROP_INVALID_TTL;
	after = before - bpf_htons(0x100);
	if (bpf_l3_csum_replace(skb, frame->l3 + 10, before, after, 2) ||
	    bpf_skb_store_bytes(skb, frame->l3 + 8, &after, 2, 0))
		return DROP_CHANGE;
	return 0;
}

/* Actions on TTLs [7.2.5]. Returns 0, or the verdict. */
__noinline int change_ttl(struct __sk_buff *skb, struct frame *frame, const struct op *op)
{
	__u8 ttl = 0, inner = 0;
	__u32 at;
	int kind;

	if (!frame || !op)
		return DROP_CHANGE;
	if (op->kind == OP_DEC_NW_TTL && frame->kind3 == L3_IPV4)
		return dec_ipv4_ttl(skb, frame);
	at = frame->l3 + (frame->kind3 == L3_MPLS ? 3 : frame->kind3 == L3_IPV4 ? 8 : 7);
	switch (op->kind) {
	case OP_MPLS_TTL:
	case OP_DEC_MPLS_TTL:
	case OP_COPY_TTL_IN:
	case OP_COPY_TTL_OUT:
		if (frame->kind3 != L3_MPLS)
			return DROP_NOT_THERE;
		break;
	default:
		if (!is_ip(frame))
			return DROP_NOT_THERE;
	}
	if (bpf_skb_load_bytes(skb, at, &ttl, 1))
		return DROP_NOT_THERE;
	switch (op->kind) {
	case OP_DEC_MPLS_TTL:
	case OP_DEC_NW_TTL:
		if (ttl <= 1)
			return DROP_INVALID_TTL;
		ttl--;
		break;
	case OP_COPY_TTL_OUT:
	case OP_COPY_TTL_IN:
		kind = behind_label(skb, frame, &inner);
		if (!kind)
			return DROP_NOT_THERE;
		if (op->kind == OP_COPY_TTL_OUT)
			return set_byte(skb, at, inner);
		if (kind == L3_MPLS)
			return set_byte(skb, frame->l3 + 7, ttl);
		return set_ip_ttl(skb, frame->l3 + 4, kind == L3_IPV6, ttl);
	default:
		ttl = op->arg;
	}
	if (frame->kind3 == L3_MPLS)
		return set_byte(skb, at, ttl);
	return set_ip_ttl(skb, frame->l3, frame->kind3 == L3_IPV6, ttl);
}
