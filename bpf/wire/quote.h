/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets quoted in ICMP errors (RFC 792, RFC 4443). */
#pragma once

#include <linux/bpf.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <bpf/bpf_helpers.h>
#include "fields.h"

/* Message types and codes. */
#define ICMP_UNREACHABLE     3
#define ICMP_TIME_EXCEEDED   11
#define ICMP_PARAMETER       12
#define ICMP_FRAG_NEEDED     4 /* code of ICMP_UNREACHABLE */
#define ICMPV6_UNREACHABLE   1
#define ICMPV6_TOO_BIG       2
#define ICMPV6_TIME_EXCEEDED 3
#define ICMPV6_PARAMETER     4

#define ICMP_BYTES           8 /* of the message's own header */
#define QUOTED_BYTES         8 /* of the transport header are quoted at least */

/* The network header of the quoted packet. */
struct quote {
	union {
		struct iphdr ip;
		struct ipv6hdr ip6;
	};
	__u32 l4;      /* offset of its transport header in the current packet */
	__u32 total;   /* length of the quoted packet by its header */
	__u8 protocol; /* of the transport */
};

/* Reads the header at an offset. False: malformed, or a later fragment without transport header. */
static __always_inline bool read_quote(struct __sk_buff *skb, __u32 at, bool v6, struct quote *q)
{
	__u8 head[8];

	if (!v6) {
		if (bpf_skb_load_bytes(skb, at, &q->ip, sizeof(q->ip)) || q->ip.version != 4 || q->ip.ihl < 5 ||
		    q->ip.frag_off & bpf_htons(LATER_FRAGMENT))
			return false;
		q->protocol = q->ip.protocol;
		q->total = bpf_ntohs(q->ip.tot_len);
		q->l4 = at + q->ip.ihl * 4;
		return true;
	}
	if (bpf_skb_load_bytes(skb, at, &q->ip6, sizeof(q->ip6)) || q->ip6.version != 6)
		return false;
	q->protocol = q->ip6.nexthdr;
	q->total = sizeof(q->ip6) + bpf_ntohs(q->ip6.payload_len);
	q->l4 = at + sizeof(q->ip6);
	if (q->protocol != IPPROTO_FRAGMENT)
		return true;
	if (bpf_skb_load_bytes(skb, q->l4, head, 8) || head[2] || head[3] & 0xf8)
		return false;
	q->protocol = head[0];
	q->l4 += 8;
	return true;
}
