/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ICMP errors about packets of bound flows: the quoted packet is translated back, so that its sender recognizes it (RFC 1191, RFC 8201, RFC 5508). */
#pragma once

#include "../wire/quote.h"
#include "../wire/sum.h"
#include "flow.h"
#include "frame.h"

/* Whether the frame is an ICMP error that quotes a packet (RFC 792, RFC 4443). */
static __always_inline bool is_error(const struct frame *frame)
{
	__u32 type = bpf_ntohs(frame->fields.l4_src);

	if (frame->kind4 == L4_ICMP)
		return type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED || type == ICMP_PARAMETER;
	return frame->kind4 == L4_ICMPV6 && type >= ICMPV6_UNREACHABLE && type <= ICMPV6_PARAMETER;
}

/* Reads the ports of the quoted packet. */
static __always_inline int quoted_ports(struct __sk_buff *skb, __u32 l4, struct binding_reply_key *reply)
{
	__u8 head[8];

	reply->internal_port = reply->remote_port = 0;
	switch (reply->protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		if (bpf_skb_load_bytes(skb, l4, head, 4))
			return -1;
		reply->internal_port = *(__be16 *)&head[0];
		reply->remote_port = *(__be16 *)&head[2];
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (bpf_skb_load_bytes(skb, l4, head, 8))
			return -1;
		if (head[0] == (reply->protocol == IPPROTO_ICMP ? 8 : 128))
			reply->internal_port = *(__be16 *)&head[4];
		break;
	}
	return 0;
}

/* Reads an error, and the reply key of the flow that sent the quoted packet. Returns -1 if there is none. */
__noinline int read_error(struct __sk_buff *skb, const struct frame *frame, struct icmp_error *c,
			  struct binding_reply_key *reply)
{
	struct quote q;
	bool v4;

	if (!frame || !c || !reply)
		return -1;
	v4 = frame->kind4 == L4_ICMP;
	c->at = frame->l4 + ICMP_BYTES;
	if (!read_quote(skb, c->at, !v4, &q))
		return -1;
	c->l4 = q.l4;
	reply->protocol = q.protocol;
	reply->family = v4 ? 4 : 6;
	reply->port = frame->fields.in_port;
	reply->zero = 0;
	__builtin_memset(c->from, 0, 16);
	__builtin_memset(reply->remote, 0, 16);
	if (v4) {
		*(__be32 *)c->from = q.ip.saddr;
		*(__be32 *)reply->remote = q.ip.daddr;
	} else {
		copy_addr(c->from, &q.ip6.saddr);
		copy_addr(reply->remote, &q.ip6.daddr);
	}
	if (!same_addr(c->from, frame->fields.ip_dst))
		return -1; /* not addressed to the sender of the quoted packet */
	return quoted_ports(skb, c->l4, reply);
}

/* Updates a checksum in the quote by difference, and the message's checksum accordingly. */
static __always_inline int mend_quoted(struct __sk_buff *skb, __u32 message, __u32 at, __u32 difference, bool none)
{
	__be16 before, after;

	if (bpf_skb_load_bytes(skb, at, &before, 2))
		return 0; /* not quoted */
	if (none && !before)
		return 0; /* no checksum was sent */
	after = ~fold((__u64)(__u16)~before + difference);
	if (none && !after)
		after = 0xffff;
	if (bpf_skb_store_bytes(skb, at, &after, 2, 0) || bpf_l4_csum_replace(skb, message, before, after, 2))
		return DROP_CHANGE;
	return 0;
}

/* Offset of a checksum with pseudo header; 0: none. */
static __always_inline __u32 sum_of(__u8 protocol)
{
	switch (protocol) {
	case IPPROTO_TCP:
		return CHECKSUM_AT;
	case IPPROTO_UDP:
		return 6;
	case IPPROTO_ICMPV6:
		return 2;
	}
	return 0;
}

/* Replaces the quoted source address by the flow's internal address. Returns 0, or the verdict. */
__noinline int restore_quote(struct __sk_buff *skb, const struct frame *frame, const struct icmp_error *c,
			     const struct binding_key *key)
{
	__u32 difference, message, at;
	int verdict;
	bool v4;

	if (!frame || !c || !key)
		return DROP_CHANGE;
	v4 = frame->kind4 == L4_ICMP;
	message = frame->l4 + 2;
	difference = (__u32)bpf_csum_diff((__be32 *)c->from, 16, (__be32 *)key->internal, 16, 0);
	if (bpf_skb_store_bytes(skb, c->at + (v4 ? 12 : 8), key->internal, v4 ? 4 : 16, 0) ||
	    bpf_l4_csum_replace(skb, message, 0, difference, 0))
		return DROP_CHANGE;
	if (v4) {
		verdict = mend_quoted(skb, message, c->at + 10, difference, false);
		if (verdict)
			return verdict;
	}
	at = sum_of(key->protocol);
	return at ? mend_quoted(skb, message, c->l4 + at, difference, key->protocol == IPPROTO_UDP) : 0;
}
