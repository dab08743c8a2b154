/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* SYN cookies (RFC 4987, 3.6), generated and checked by the kernel. */
#pragma once

#include <linux/bpf.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include <bpf/bpf_helpers.h>
#include "packet.h"

/* Headers for the cookie helpers. */
struct cookie_headers {
	union {
		struct iphdr ip;
		struct ipv6hdr ip6;
	};
	struct tcphdr th;
};

/*
 * The helpers encode an index of the client's MSS in two bits, so numbers off by up to 3 pass for another MSS. We omit
 * the MSS, so that the index is 0, and check the next number too.
 */
static __always_inline void cookie_headers(struct cookie_headers *h, const struct packet *p, __u32 seq)
{
	__builtin_memset(h, 0, sizeof(*h));
	h->th.source = p->key.sport;
	h->th.dest = p->key.dport;
	h->th.seq = bpf_htonl(seq);
	h->th.ack_seq = bpf_htonl(p->ack);
	h->th.doff = 5;
	if (p->v6) {
		copy_addr(&h->ip6.saddr, p->key.src);
		copy_addr(&h->ip6.daddr, p->key.dst);
	} else {
		h->ip.saddr = ((__u32 *)p->key.src)[3];
		h->ip.daddr = ((__u32 *)p->key.dst)[3];
	}
}

static __always_inline __s64 make_cookie(struct cookie_headers *h, const struct packet *p)
{
	cookie_headers(h, p, p->seq);
	if (p->v6)
		return bpf_tcp_raw_gen_syncookie_ipv6(&h->ip6, &h->th, sizeof(h->th));
	return bpf_tcp_raw_gen_syncookie_ipv4(&h->ip, &h->th, sizeof(h->th));
}

static __always_inline bool like_cookie(struct cookie_headers *h, const struct packet *p, __u32 seq)
{
	cookie_headers(h, p, seq);
	if (p->v6)
		return !bpf_tcp_raw_check_syncookie_ipv6(&h->ip6, &h->th);
	return !bpf_tcp_raw_check_syncookie_ipv4(&h->ip, &h->th);
}

/* Whether the packet, assumed to begin at seq, acknowledges our cookie and is the first in sequence after it. */
static __always_inline bool cookie_ok(struct cookie_headers *h, const struct packet *p, __u32 seq)
{
	return like_cookie(h, p, seq) && !like_cookie(h, p, seq + 1);
}
