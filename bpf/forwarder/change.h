/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Bytes of headers are changed here, and the checksums that cover them: by the difference, so that a wrong one stays wrong. */
#pragma once

#include "parse.h"

#include "crc32c.h"

static __always_inline __u32 l4_sum_at(struct traversal *t)
{
	switch (t->kind4) {
	case L4_TCP:
		return t->l4 + 16;
	case L4_UDP:
		return t->l4 + 6;
	case L4_ICMP:
	case L4_ICMPV6:
		return t->l4 + 2;
	}
	return 0;
}

/* The transport's checksum, for a difference (bpf_csum_diff) in its header or in its pseudo header. */
static __always_inline int mend_l4(struct __sk_buff *skb, struct traversal *t, __u32 difference, bool pseudo)
{
	__u64 flags = pseudo ? BPF_F_PSEUDO_HDR : 0;
	__u32 at = l4_sum_at(t);

	if (!at || (pseudo && t->kind4 == L4_ICMP))
		return 0;
	if (t->kind4 == L4_UDP)
		flags |= BPF_F_MARK_MANGLED_0;
	return bpf_l4_csum_replace(skb, at, 0, difference, flags);
}

/* SCTP's checksum (RFC 9260, 6.8), for 4 bytes at an offset of its header that were xored with difference. */
static __always_inline int mend_sctp(struct __sk_buff *skb, struct traversal *t, __u32 at, __u32 difference)
{
	__u32 length, crc;
	__be16 be;

	if (t->kind3 == L3_IPV4) {
		if (bpf_skb_load_bytes(skb, t->l3 + 2, &be, 2))
			return -1;
		length = bpf_ntohs(be) - (t->l4 - t->l3);
	} else {
		if (bpf_skb_load_bytes(skb, t->l3 + 4, &be, 2))
			return -1;
		length = bpf_ntohs(be) - (t->l4 - t->l3 - 40);
	}
	if (t->fragment || bpf_skb_load_bytes(skb, t->l4 + 8, &crc, 4))
		return t->fragment ? 0 : -1;
	crc ^= crc32c_difference(difference, length - at - 4);
	return bpf_skb_store_bytes(skb, t->l4 + 8, &crc, 4, 0);
}

/* Returns 0 if the packet has no such header. */
static __always_inline __u32 base_offset(struct traversal *t, __u32 base)
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
		return t->l3 - 2;
	case BASE_ND_TARGET:
		return t->nd_target;
	case BASE_ND_SLL:
		return t->nd_sll;
	case BASE_ND_TLL:
		return t->nd_tll;
	}
	if (base >= BASE_LABEL && base <= BASE_IPV6)
		return layer3[base] == t->kind3 ? t->l3 : 0;
	if (base >= BASE_TCP && base <= BASE_ICMPV6)
		return layer4[base] == t->kind4 ? t->l4 : 0;
	return 0;
}

/* Puts what a field is now into struct fields. */
static __always_inline void note_field(struct traversal *t)
{
	const __u8 *value = t->op.mask ? (const __u8 *)&t->op.arg : t->op.value;
	__u32 at = t->op.field_at & 127, len = t->op.field_len;
	__u8 *field = &((__u8 *)&t->fields)[at];

	if (len == 12 && !t->op.mask) { /* both link addresses: the most usual ones */
		__builtin_memcpy(field, value, 12);
		return;
	}
	for (__u32 i = 0; i < 16; i++) {
		if (i >= len || (i >= 4 && t->op.mask))
			break;
		((__u8 *)&t->fields)[(at + i) & 127] = value[i];
	}
}

/*
 * Whether the sum of the whole packet, if a device has told it, stays as it was: link headers are no part of it; a header's or the transport's own sum
 * changes as well, which the helpers for those tell. IPv6 has no sum of its own: its addresses' change is left.
 */
static __always_inline bool hidden_sum(const struct op *op)
{
	return op->base == BASE_FRAME || (op->sums && !(op->base == BASE_IPV6 && op->sums & SUM_PSEUDO));
}

/* OP_PATCH. Returns 0, or the verdict. */
__noinline int patch(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__u32 len, off, difference = 0;
	struct op *op;

	if (!t)
		return DROP_CHANGE;
	op = &t->op;
	len = op->len;
	if (op->base == BASE_FRAME) {
		off = op->at;
	} else {
		off = base_offset(t, op->base);
		if (!off)
			return DROP_NOT_THERE;
		off += op->at;
	}
	if (len < 1 || len > 16)
		return DROP_NOT_THERE;
	if (op->base == BASE_FRAME && !op->mask && !op->sums) { /* always there, and what was there does not matter */
		note_field(t);
		return bpf_skb_store_bytes(skb, off, op->value, len, 0) ? DROP_CHANGE : 0;
	}
	__builtin_memset(t->old, 0, 16);
	if (bpf_skb_load_bytes(skb, off, t->old, len))
		return DROP_NOT_THERE;
	if (op->mask) {
		__builtin_memset(t->fresh, 0, 16);
		*(__be32 *)t->fresh = (*(__be32 *)t->old & ~op->mask) | (*(__be32 *)op->value & op->mask);
	} else {
		__builtin_memcpy(t->fresh, op->value, 16);
	}
	note_field(t);
	if (op->sums)
		difference = (__u32)bpf_csum_diff((__be32 *)t->old, 16, (__be32 *)t->fresh, 16, 0);
	if (op->sums & SUM_IP && t->kind3 == L3_IPV4 && bpf_l3_csum_replace(skb, t->l3 + 10, 0, difference, 0))
		return DROP_CHANGE;
	if (op->sums & (SUM_PSEUDO | SUM_L4)) {
		if (t->kind4 == L4_SCTP) {
			/* ports alone are part of it: both are in the first word */
			if (op->sums & SUM_L4 &&
			    mend_sctp(skb, t, 0, (*(__u32 *)t->old ^ *(__u32 *)t->fresh) << (op->at & 2) * 8))
				return DROP_CHANGE;
		} else if (mend_l4(skb, t, difference, op->sums & SUM_PSEUDO)) {
			return DROP_CHANGE;
		}
	}
	if (bpf_skb_store_bytes(skb, off, t->fresh, len, hidden_sum(op) ? 0 : BPF_F_RECOMPUTE_CSUM))
		return DROP_CHANGE;
	return 0;
}

/* Writes bits of the DSCP and ECN byte, wherever IP has it. */
static __always_inline int set_traffic_class(struct __sk_buff *skb, struct traversal *t, __u8 clear, __u8 set)
{
	__u32 shift = t->kind3 == L3_IPV6 ? 4 : 0;
	__be16 before, after;

	if ((t->kind3 != L3_IPV4 && t->kind3 != L3_IPV6) || bpf_skb_load_bytes(skb, t->l3, &before, 2))
		return DROP_NOT_THERE;
	after = (before & ~bpf_htons(clear << shift)) | bpf_htons(set << shift);
	if (!shift && bpf_l3_csum_replace(skb, t->l3 + 10, before, after, 2))
		return DROP_CHANGE;
	return bpf_skb_store_bytes(skb, t->l3, &after, 2, shift ? BPF_F_RECOMPUTE_CSUM : 0) ? DROP_CHANGE : 0;
}

/* OP_DSCP, OP_ECN, OP_PROTO. Returns 0, or the verdict. */
__noinline int set_ip(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__be16 before, after, was;
	__u32 at;

	if (!t)
		return DROP_CHANGE;
	switch (t->op.kind) {
	case OP_DSCP:
		t->fields.ip_dscp = t->op.arg;
		return set_traffic_class(skb, t, 0xfc, t->op.arg << 2);
	case OP_ECN:
		t->fields.ip_ecn = t->op.arg;
		return set_traffic_class(skb, t, 0x03, t->op.arg);
	}
	if (t->kind3 != L3_IPV4 && (t->kind3 != L3_IPV6 || t->fields.ipv6_exthdr))
		return DROP_NOT_THERE;
	at = t->l3 + (t->kind3 == L3_IPV4 ? 8 : 6);
	if (bpf_skb_load_bytes(skb, at, &before, 2))
		return DROP_NOT_THERE;
	if (t->kind3 == L3_IPV4) {
		after = (before & bpf_htons(0xff00)) | bpf_htons(t->op.arg & 0xff);
		if (bpf_l3_csum_replace(skb, t->l3 + 10, before, after, 2))
			return DROP_CHANGE;
	} else {
		after = (before & bpf_htons(0xff)) | bpf_htons((t->op.arg & 0xff) << 8);
	}
	/* the checksum of the transport that the packet had covers the number, too */
	was = t->fields.ip_proto;
	t->fields.ip_proto = bpf_htons(t->op.arg & 0xff);
	if (mend_l4(skb, t, (__u32)(__u16)~was + t->fields.ip_proto, true))
		return DROP_CHANGE;
	return bpf_skb_store_bytes(skb, at, &after, 2, t->kind3 == L3_IPV4 ? 0 : BPF_F_RECOMPUTE_CSUM) ? DROP_CHANGE
												       : 0;
}

static __always_inline int set_byte(struct __sk_buff *skb, __u32 off, __u8 value)
{
	return bpf_skb_store_bytes(skb, off, &value, 1, BPF_F_RECOMPUTE_CSUM) ? DROP_CHANGE : 0;
}

/* Writes IP's TTL or hop limit. */
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

/* Behind the label at t->l3: another label, or IP, told by its first four bits; 0 if neither. */
static __always_inline int behind_label(struct __sk_buff *skb, struct traversal *t, __u8 *ttl)
{
	__u8 head[9];

	if (!t->fields.mpls_bos)
		return bpf_skb_load_bytes(skb, t->l3 + 7, ttl, 1) ? 0 : L3_MPLS;
	if (bpf_skb_load_bytes(skb, t->l3 + 4, head, 9))
		return 0;
	if (head[0] >> 4 == 4) {
		*ttl = head[8];
		return L3_IPV4;
	}
	*ttl = head[7];
	return head[0] >> 4 == 6 ? L3_IPV6 : 0;
}

/* OP_DEC_NW_TTL of IPv4: what every router does. */
static __always_inline int dec_ipv4_ttl(struct __sk_buff *skb, struct traversal *t)
{
	__be16 before, after;

	if (bpf_skb_load_bytes(skb, t->l3 + 8, &before, 2))
		return DROP_NOT_THERE;
	if (bpf_ntohs(before) < 0x200)
		return DROP_INVALID_TTL;
	after = before - bpf_htons(0x100);
	if (bpf_l3_csum_replace(skb, t->l3 + 10, before, after, 2) || bpf_skb_store_bytes(skb, t->l3 + 8, &after, 2, 0))
		return DROP_CHANGE;
	return 0;
}

/* The actions on TTLs [7.2.5]. Returns 0, or the verdict. */
__noinline int change_ttl(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__u8 ttl = 0, inner = 0;
	__u32 at;
	int kind;

	if (!t)
		return DROP_CHANGE;
	if (t->op.kind == OP_DEC_NW_TTL && t->kind3 == L3_IPV4)
		return dec_ipv4_ttl(skb, t);
	at = t->l3 + (t->kind3 == L3_MPLS ? 3 : t->kind3 == L3_IPV4 ? 8 : 7);
	switch (t->op.kind) {
	case OP_MPLS_TTL:
	case OP_DEC_MPLS_TTL:
	case OP_COPY_TTL_IN:
	case OP_COPY_TTL_OUT:
		if (t->kind3 != L3_MPLS)
			return DROP_NOT_THERE;
		break;
	default:
		if (t->kind3 != L3_IPV4 && t->kind3 != L3_IPV6)
			return DROP_NOT_THERE;
	}
	if (bpf_skb_load_bytes(skb, at, &ttl, 1))
		return DROP_NOT_THERE;
	switch (t->op.kind) {
	case OP_DEC_MPLS_TTL:
	case OP_DEC_NW_TTL:
		if (ttl <= 1)
			return DROP_INVALID_TTL;
		ttl--;
		break;
	case OP_COPY_TTL_OUT:
	case OP_COPY_TTL_IN:
		kind = behind_label(skb, t, &inner);
		if (!kind)
			return DROP_NOT_THERE;
		if (t->op.kind == OP_COPY_TTL_OUT)
			return set_byte(skb, at, inner);
		if (kind == L3_MPLS)
			return set_byte(skb, t->l3 + 7, ttl);
		return set_ip_ttl(skb, t->l3 + 4, kind == L3_IPV6, ttl);
	default:
		ttl = t->op.arg;
	}
	if (t->kind3 == L3_MPLS)
		return set_byte(skb, at, ttl);
	return set_ip_ttl(skb, t->l3, t->kind3 == L3_IPV6, ttl);
}
