/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* ICMP errors about packets that flows have sent: who sent the packet is told of it in its own numbers (RFC 1191, RFC 8201, RFC 5508). */
#pragma once

#include "../wire/sum.h"
#include "flows.h"

#define ICMP_HEADER 8

static __always_inline bool is_error(struct traversal *t)
{
	__u32 type = bpf_ntohs(t->fields.l4_src);

	if (t->kind4 == L4_ICMP) /* unreachable, time exceeded, parameter problem (RFC 792) */
		return type == 3 || type == 11 || type == 12;
	return t->kind4 == L4_ICMPV6 && type >= 1 && type <= 4; /* RFC 4443 */
}

/* The ports of the quoted packet, which stand behind its network header. */
static __always_inline int quoted_ports(struct __sk_buff *skb, struct traversal *t)
{
	struct pick_back_key *back = &t->flow.back;
	__u8 head[8];

	back->inside_port = back->remote_port = 0;
	switch (back->protocol) {
	case IPPROTO_TCP:
	case IPPROTO_UDP:
	case IPPROTO_SCTP:
		if (bpf_skb_load_bytes(skb, t->flow.quoted_l4, head, 4))
			return -1;
		back->inside_port = *(__be16 *)&head[0];
		back->remote_port = *(__be16 *)&head[2];
		break;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		if (bpf_skb_load_bytes(skb, t->flow.quoted_l4, head, 8))
			return -1;
		if (head[0] == (back->protocol == IPPROTO_ICMP ? 8 : 128))
			back->inside_port = *(__be16 *)&head[4];
		break;
	}
	return 0;
}

/* The key of the flow that has sent what the error quotes, into t->flow.back. Returns -1 if it cannot be told. */
__noinline int read_quote(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	struct pick_back_key *back;
	struct ipv6hdr ip6;
	struct iphdr ip;
	__u8 head[8];

	if (!t)
		return -1;
	back = &t->flow.back;
	t->flow.quote = t->l4 + ICMP_HEADER;
	back->port = t->fields.in_port;
	back->zero = 0;
	__builtin_memset(t->old, 0, 16); /* who is said to have sent it */
	__builtin_memset(back->remote, 0, 16);
	if (t->kind4 == L4_ICMP) {
		if (bpf_skb_load_bytes(skb, t->flow.quote, &ip, sizeof(ip)) || ip.version != 4 || ip.ihl < 5 ||
		    ip.frag_off & bpf_htons(0x1fff))
			return -1;
		back->protocol = ip.protocol;
		back->family = 4;
		*(__be32 *)t->old = ip.saddr;
		*(__be32 *)back->remote = ip.daddr;
		t->flow.quoted_l4 = t->flow.quote + ip.ihl * 4;
	} else {
		if (bpf_skb_load_bytes(skb, t->flow.quote, &ip6, sizeof(ip6)) || ip6.version != 6)
			return -1;
		back->protocol = ip6.nexthdr;
		back->family = 6;
		__builtin_memcpy(t->old, &ip6.saddr, 16);
		__builtin_memcpy(back->remote, &ip6.daddr, 16);
		t->flow.quoted_l4 = t->flow.quote + sizeof(ip6);
		if (back->protocol == IPPROTO_FRAGMENT) {
			if (bpf_skb_load_bytes(skb, t->flow.quoted_l4, head, 8) || head[2] || head[3] & 0xf8)
				return -1;
			back->protocol = head[0];
			t->flow.quoted_l4 += 8;
		}
	}
	if (!same_address(t->old, t->fields.ip_dst))
		return -1; /* not to the sender of what it quotes */
	return quoted_ports(skb, t);
}

/* Replaces a checksum in the quote by what difference makes of it, and has the message's follow. */
static __always_inline int mend_quoted(struct __sk_buff *skb, struct traversal *t, __u32 at, __u32 difference,
				       bool none)
{
	__be16 before, after;

	if (bpf_skb_load_bytes(skb, at, &before, 2))
		return 0; /* not quoted */
	if (none && !before)
		return 0; /* none was sent */
	after = ~fold((__u64)(__u16)~before + difference);
	if (none && !after)
		after = 0xffff;
	if (bpf_skb_store_bytes(skb, at, &after, 2, 0) || bpf_l4_csum_replace(skb, t->l4 + 2, before, after, 2))
		return DROP_CHANGE;
	return 0;
}

/* Has the quoted packet come from the address in t->fresh. It came from that in t->old, as read_quote left it. Returns 0, or the verdict. */
__noinline int restore_quote(struct __sk_buff *skb)
{
	struct traversal *t = traversal();
	__u32 difference, at, len;
	bool none = false;
	int verdict;

	if (!t)
		return DROP_CHANGE;
	difference = (__u32)bpf_csum_diff((__be32 *)t->old, 16, (__be32 *)t->fresh, 16, 0);
	if (t->kind4 == L4_ICMP) {
		at = t->flow.quote + 12;
		if (bpf_skb_store_bytes(skb, at, t->fresh, 4, 0))
			return DROP_CHANGE;
	} else {
		at = t->flow.quote + 8;
		if (bpf_skb_store_bytes(skb, at, t->fresh, 16, 0))
			return DROP_CHANGE;
	}
	if (bpf_l4_csum_replace(skb, t->l4 + 2, 0, difference, 0))
		return DROP_CHANGE;
	if (t->kind4 == L4_ICMP) {
		verdict = mend_quoted(skb, t, t->flow.quote + 10, difference, false);
		if (verdict)
			return verdict;
	}
	len = 0;
	switch (t->flow.back.protocol) {
	case IPPROTO_TCP:
		len = 16;
		break;
	case IPPROTO_UDP:
		len = 6;
		none = true;
		break;
	case IPPROTO_ICMPV6:
		len = 2;
		break;
	}
	return len ? mend_quoted(skb, t, t->flow.quoted_l4 + len, difference, none) : 0;
}
