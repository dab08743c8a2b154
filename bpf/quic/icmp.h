/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Translates ICMP errors about translated datagrams for their senders, who learn by them of a smaller MTU or a closed port. Handles
 * destination unreachable, packet too big and time exceeded; all else passes.
 */
#pragma once

#include "../wire/quote.h"
#include "translate.h"

/* The quoted network header and the first QUOTED_BYTES of UDP's. */
struct quoted_datagram {
	__u8 bytes[48];
};

static __always_inline bool about_delivery(__u8 type, bool v6)
{
	return v6 ? type >= ICMPV6_UNREACHABLE && type <= ICMPV6_TIME_EXCEEDED
		  : type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED;
}

/* Reads the quoted datagram: as d->key the tuple of what comes back. False: not UDP, or unreadable. */
static __always_inline bool read_quoted_datagram(struct __sk_buff *skb, struct datagram *d, struct quoted_datagram *q)
{
	__u32 at = d->l4 + ICMP_BYTES, size = d->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	struct udphdr *uh = (void *)&q->bytes[d->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr)];
	struct quote quote;
	__u8 outer[16], type;

	if (d->len < ICMP_BYTES + size + QUOTED_BYTES || bpf_skb_load_bytes(skb, d->l4, &type, 1) ||
	    !about_delivery(type, d->v6) || !read_quote(skb, at, d->v6, &quote) || quote.protocol != IPPROTO_UDP ||
	    quote.l4 != at + size || bpf_skb_load_bytes(skb, quote.l4, uh, sizeof(*uh)))
		return false;
	copy_addr(outer, d->key.dst);
	if (d->v6) {
		__builtin_memcpy(q->bytes, &quote.ip6, sizeof(quote.ip6));
		copy_addr(d->key.src, &quote.ip6.daddr);
		copy_addr(d->key.dst, &quote.ip6.saddr);
	} else {
		__builtin_memcpy(q->bytes, &quote.ip, sizeof(quote.ip));
		map_addr(d->key.src, quote.ip.daddr);
		map_addr(d->key.dst, quote.ip.saddr);
	}
	d->key.sport = uh->dest;
	d->key.dport = uh->source;
	return same_addr(outer, d->key.dst); /* it is for the sender of what it quotes */
}

/* Rewrites the quoted headers: they went the other way. Returns the difference of the message's sum. */
static __always_inline __u64 rewrite_quoted(struct quoted_datagram *q, bool v6, const struct readdressed *t)
{
	struct quoted_datagram before = *q;
	struct readdressed back;
	struct udphdr *uh;
	__u64 pseudo, change;

	copy_addr(back.src, t->dst);
	copy_addr(back.dst, t->src);
	if (v6) {
		uh = (void *)&q->bytes[sizeof(struct ipv6hdr)];
		pseudo = readdress_v6((void *)q->bytes, &back);
	} else {
		uh = (void *)&q->bytes[sizeof(struct iphdr)];
		pseudo = readdress_v4((void *)q->bytes, &back);
	}
	change = pseudo + swapped(uh->source, t->dport) + swapped(uh->dest, t->sport);
	uh->source = t->dport;
	uh->dest = t->sport;
	if (uh->check)
		uh->check = ~fold((__u16)~uh->check + change);
	return (__u32)bpf_csum_diff((__be32 *)before.bytes, sizeof(before), (__be32 *)q->bytes, sizeof(q->bytes), 0);
}

/* t: what a datagram from where the error comes from would get. Returns 0, or -verdict. */
static __always_inline int rewrite_message(struct __sk_buff *skb, const struct datagram *d, struct quoted_datagram *q,
					   const struct readdressed *t, const struct quic_hop *hop)
{
	__u32 size = d->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr);
	__u64 change = rewrite_quoted(q, d->v6, t);
	__s64 pseudo = rewrite_header(skb, d, t, hop);

	if (pseudo < 0)
		return pseudo;
	hide(size);
	if (size > sizeof(struct ipv6hdr) ||
	    bpf_skb_store_bytes(skb, d->l4 + ICMP_BYTES, q->bytes, size + QUOTED_BYTES, 0) ||
	    bpf_l4_csum_replace(skb, d->l4 + 2, 0, difference(change), 0))
		return -DROP_NOMEM;
	if (!d->v6)
		return 0; /* ICMP for IPv4 has no pseudo header */
	if (bpf_l4_csum_replace(skb, d->l4 + 2, 0, difference(pseudo), BPF_F_PSEUDO_HDR))
		return -DROP_NOMEM;
	correct_device_sum(skb, d, pseudo);
	return 0;
}
