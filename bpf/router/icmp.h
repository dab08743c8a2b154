/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Translates ICMP errors about translated packets back to their sender's numbers; path MTU discovery depends on them
 * (RFC 1191, RFC 8201). Handles destination unreachable, packet too big and time exceeded; all else passes.
 */
#pragma once

#include "../session/state.h"
#include "../wire/quote.h"
#include "work.h"

#define LEAST_MTU_V4 552
#define LEAST_MTU_V6 1280

static __always_inline bool is_transport_error(__u8 type, bool v6)
{
	if (v6)
		return type == ICMPV6_UNREACHABLE || type == ICMPV6_TOO_BIG || type == ICMPV6_TIME_EXCEEDED;
	return type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED;
}

/* Reads the quoted TCP header, of which avail bytes are present. whole: all of it is. False: unreadable. */
static __always_inline bool read_quoted_tcp(struct __sk_buff *skb, struct packet *p, struct tcphdr *th, __u32 avail,
					    bool *whole)
{
	*whole = false;
	if (avail >= sizeof(*th)) {
		if (bpf_skb_load_bytes(skb, p->l4, th, sizeof(*th)) || th->doff < 5)
			return false;
		*whole = th->doff * 4 <= (int)avail;
	}
	if (!*whole) {
		__builtin_memset(th, 0, sizeof(*th));
		if (bpf_skb_load_bytes(skb, p->l4, th, QUOTED_BYTES))
			return false;
	}
	p->key.sport = th->dest;
	p->key.dport = th->source;
	p->seq = bpf_ntohl(th->seq);
	p->ack = bpf_ntohl(th->ack_seq);
	p->window = bpf_ntohs(th->window);
	p->flags = ((__u8 *)th)[13];
	p->options = *whole ? th->doff * 4 - TCP_BYTES : 0;
	no_options(p);
	return true;
}

/*
 * Reads the quoted packet into p: numbers, flags, options, and as the key the tuple of the reverse direction. False:
 * not TCP, or unreadable.
 */
static __always_inline bool read_quoted(struct __sk_buff *skb, struct packet *p, struct quoted *q, bool *whole)
{
	__u32 at = p->l4 + ICMP_BYTES, avail = p->len - ICMP_BYTES, size = p->v6 ? 40 : 20;
	struct quote quote;
	__u8 outer[16];

	copy_addr(outer, p->key.dst);
	__builtin_memset(q, 0, sizeof(*q));
	if (avail < size + QUOTED_BYTES || !read_quote(skb, at, p->v6, &quote) || quote.protocol != IPPROTO_TCP ||
	    quote.l4 != at + size)
		return false;
	if (p->v6) {
		__builtin_memcpy(q->old, &quote.ip6, sizeof(quote.ip6));
		copy_addr(p->key.src, &quote.ip6.daddr);
		copy_addr(p->key.dst, &quote.ip6.saddr);
	} else {
		__builtin_memcpy(q->old, &quote.ip, sizeof(quote.ip));
		map_addr(p->key.src, quote.ip.daddr);
		map_addr(p->key.dst, quote.ip.saddr);
	}
	if (!same_addr(outer, p->key.dst))
		return false;    /* not addressed to the sender of the quoted packet */
	if (quote.total < avail) /* followed by extensions (RFC 4884) */
		avail = quote.total;
	if (avail < size + QUOTED_BYTES)
		return false;
	p->l4 = quote.l4;
	return read_quoted_tcp(skb, p, (struct tcphdr *)(p->v6 ? &q->old[40] : &q->old[20]), avail - size, whole);
}

/* Under the lock: undoes the translation towards the client; the quoted packet was the surrogate's. */
static __always_inline void unfill_to_client(const struct splice *s, const struct packet *p, struct translation *t)
{
	copy_addr(t->src, s->server.dst);
	copy_addr(t->dst, s->server.src);
	t->sport = s->server.dport;
	t->dport = s->server.sport;
	t->seq = p->seq + s->to_server_ack;
	t->ack_shift = s->to_server_seq;
	t->tsval = p->tsval - s->ts_to_client;
	t->tsecr = p->flags & ACK ? p->tsecr + s->ts_to_server : p->tsecr;
	t->window = rescale(p->window, s->flags & SPLICE_CLIENT_WSCALE ? OUR_WSCALE : 0,
			    s->flags & SPLICE_SERVER_WSCALE ? s->server_shift : 0);
	t->hop = s->to_server;
}

static __always_inline void unfill_to_server(const struct splice *s, const struct packet *p, struct translation *t)
{
	copy_addr(t->src, s->client.dst);
	copy_addr(t->dst, s->client.src);
	t->sport = s->client.dport;
	t->dport = s->client.sport;
	t->seq = heard(s, p->seq) - s->to_server_seq;
	t->ack_shift = -s->to_server_ack;
	t->tsval = p->tsval - s->ts_to_server;
	t->tsecr = p->flags & ACK ? p->tsecr + s->ts_to_client : p->tsecr;
	t->window = rescale(p->window, s->flags & SPLICE_SERVER_WSCALE ? OUR_WSCALE : 0,
			    s->flags & SPLICE_CLIENT_WSCALE ? s->client_shift : 0);
	t->hop = s->to_client;
}

/* Rewrites the quoted IP header, whose packet went the other way. Returns the TCP header behind it. */
static __always_inline struct tcphdr *rewrite_quoted_ip(__u8 *bytes, bool v6, const struct translation *t)
{
	struct ipv6hdr *ip6 = (void *)bytes;
	struct iphdr *ip = (void *)bytes;
	__be32 src = unmap_addr(t->dst), dst = unmap_addr(t->src);

	if (v6) {
		copy_addr(&ip6->saddr, t->dst);
		copy_addr(&ip6->daddr, t->src);
		return (void *)(ip6 + 1);
	}
	ip->check = ~fold((__u16)~ip->check + swapped(ip->saddr, src) + swapped(ip->daddr, dst));
	ip->saddr = src;
	ip->daddr = dst;
	return (void *)(ip + 1);
}

static __always_inline __u64 quoted_difference(struct quoted *q)
{
	return (__u32)bpf_csum_diff((__be32 *)q->old, sizeof(q->old), (__be32 *)q->new, sizeof(q->new), 0);
}

/* Rewrites the rest of a whole TCP header. options: checksum difference of its options. */
static __always_inline void rewrite_quoted_tcp(struct tcphdr *th, struct quoted *q, const struct packet *p,
					       const struct translation *t, __u64 options)
{
	const struct iphdr *before = (void *)q->old, *after = (void *)q->new;
	__u64 change;

	if (p->flags & ACK)
		th->ack_seq = bpf_htonl(p->ack + t->ack_shift);
	th->window = bpf_htons(t->window);
	/* the IPv4 header's checksum compensates for its change, but for the addresses in the pseudo header */
	change = quoted_difference(q);
	if (!p->v6)
		change += swapped(before->saddr, after->saddr) + swapped(before->daddr, after->daddr);
	th->check = ~fold((__u16)~th->check + change + options);
}

/* Rewrites the quoted headers by t. Returns the checksum difference of the message. */
static __always_inline __u64 rewrite_quote(struct __sk_buff *skb, const struct packet *p, const struct translation *t,
					   struct option_bytes *o, struct quoted *q, bool whole)
{
	__u32 size = p->v6 ? sizeof(struct ipv6hdr) : sizeof(struct iphdr), at = p->l4 - size;
	__u64 options = 0;
	struct tcphdr *th;

	if (whole && p->options)
		options = rewrite_options(skb, p, t, o);
	__builtin_memcpy(q->new, q->old, sizeof(q->new));
	th = rewrite_quoted_ip(q->new, p->v6, t);
	th->source = t->dport;
	th->dest = t->sport;
	th->seq = bpf_htonl(t->seq);
	if (whole)
		rewrite_quoted_tcp(th, q, p, t, options);
	if (bpf_skb_store_bytes(skb, at, q->new, size + QUOTED_BYTES, 0) ||
	    (whole &&
	     bpf_skb_store_bytes(skb, p->l4 + QUOTED_BYTES, (__u8 *)th + QUOTED_BYTES, sizeof(*th) - QUOTED_BYTES, 0)))
		return 0;
	return options + quoted_difference(q);
}

/*
 * A surrogate applies the path MTU to all clients, so absurdly small ones are raised to the least Linux accepts
 * (min_pmtu), or IPv6's minimum (RFC 8200, 5). Returns the checksum difference.
 */
static __always_inline __u64 bound_mtu(struct __sk_buff *skb, const struct packet *p, __u32 l4, __u8 type)
{
	__be32 least = bpf_htonl(p->v6 ? LEAST_MTU_V6 : LEAST_MTU_V4), other, mtu;
	__u8 code;

	if (bpf_skb_load_bytes(skb, l4 + 1, &code, 1) || bpf_skb_load_bytes(skb, l4 + 4, &mtu, 4))
		return 0;
	if (p->v6 ? type != ICMPV6_TOO_BIG : type != ICMP_UNREACHABLE || code != ICMP_FRAG_NEEDED)
		return 0;
	other = p->v6 ? 0 : mtu & bpf_htonl(0xffff0000); /* RFC 4884 */
	mtu ^= other;
	if (!mtu || bpf_ntohl(mtu) >= bpf_ntohl(least)) /* 0: from a router that does not report it (RFC 1191, 5) */
		return 0;
	mtu |= other;
	least |= other;
	return bpf_skb_store_bytes(skb, l4 + 4, &least, 4, 0) ? 0 : swapped(mtu, least);
}

/*
 * Rewrites the error's own headers and its checksum. change: checksum difference of its payload. Returns 0, or
 * -verdict.
 */
static __always_inline int rewrite_error(struct __sk_buff *skb, const struct packet *p, const struct translation *t,
					 __u32 l4, __u64 change)
{
	void *data, *end;
	struct ethhdr *eth;
	__u64 pseudo = 0;

	if (bpf_skb_pull_data(skb, l4 + ICMP_BYTES))
		return -DROP_NOMEM;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	eth = data;
	if (p->v6) {
		struct ipv6hdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end)
			return -DROP_NOMEM;
		pseudo = rewrite_ipv6(ip, p->ttl, t);
	} else {
		struct iphdr *ip = (void *)(eth + 1);

		if ((void *)(ip + 1) > end)
			return -DROP_NOMEM;
		rewrite_ipv4(ip, p->ttl, t);
	}
	if (t->hop.checked) {
		__builtin_memcpy(eth->h_dest, t->hop.dmac, 6);
		__builtin_memcpy(eth->h_source, t->hop.smac, 6);
	}
	if (bpf_l4_csum_replace(skb, l4 + 2, 0, difference(change), 0))
		return -DROP_NOMEM;
	if (!p->v6)
		return 0; /* ICMP for IPv4 has no pseudo header */
	if (bpf_l4_csum_replace(skb, l4 + 2, 0, difference(pseudo), BPF_F_PSEUDO_HDR))
		return -DROP_NOMEM;
	update_device_sum(skb, p, pseudo);
	return 0;
}

/* Under the lock: whether the quoted packet can be in flight; anyone can quote any other (RFC 5927, 4). */
static __always_inline bool in_flight(const struct splice *s, __u32 seq, bool to_client)
{
	if (to_client)
		return !before(seq + s->to_server_ack, s->rcv_acked) && !before(s->rcv_nxt, seq + s->to_server_ack);
	return !before(seq, s->snd_una) && !before(s->snd_nxt, seq);
}

/* The verdict on an error that is not about a packet of the session. A client knows nothing of a leg that has its address. */
static __always_inline int not_translated(const struct splice *s, bool to_server)
{
	return !to_server && s->flags & SPLICE_KEEP ? CONSUMED : PASS;
}

/* Undoes the translation of the quoted packet, into t. Returns ICMP_TRANSLATED, or another verdict. */
static __always_inline int unfill(struct splice *s, const struct packet *p, struct translation *t, bool to_server)
{
	int verdict = ICMP_TRANSLATED;

	bpf_spin_lock(&s->lock);
	if (!same_tuple(to_server ? &s->client : &s->server, &p->key) ||
	    (s->state != SPLICE_ACTIVE && s->state != SPLICE_CLOSING))
		verdict = not_translated(s, to_server);
	else if (!in_flight(s, p->seq, to_server))
		verdict = DROP_WINDOW;
	t->keep_ts = !!(s->flags & SPLICE_TS);
	t->keep_sack =
		(s->flags & (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK)) == (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK);
	if (to_server)
		unfill_to_client(s, p, t);
	else
		unfill_to_server(s, p, t);
	bpf_spin_unlock(&s->lock);
	return verdict;
}

__noinline int icmp_error(struct __sk_buff *skb, struct work *w)
{
	__u32 now = clock_ms(), l4;
	struct translation *t;
	struct quoted *q;
	struct packet *p;
	struct flow *f;
	struct splice *s;
	bool whole, to_server;
	__u64 change;
	__u8 type;
	int err, verdict;

	if (!w)
		return PASS;
	p = &w->in.packet;
	q = &w->in.quoted;
	t = &w->out.translation;
	l4 = p->l4;
	if (p->len < ICMP_BYTES || bpf_skb_load_bytes(skb, l4, &type, 1) || !is_transport_error(type, p->v6) ||
	    !read_quoted(skb, p, q, &whole))
		return PASS;
	f = bpf_map_lookup_elem(&flows, &p->key);
	if (!f || (f->side != SIDE_CLIENT && f->side != SIDE_SERVER))
		return PASS;
	to_server = f->side == SIDE_CLIENT;
	s = splice_at(f->splice);
	if (!s)
		return PASS;
	if (whole && p->flags & SYN)
		return not_translated(s, to_server);
	if (p->ttl <= 1)
		return DROP_TTL;
	if (p->options && !read_options(skb, p, &w->in.option.now))
		return DROP_BAD_OPTIONS;
	verdict = unfill(s, p, t, to_server);
	if (verdict != ICMP_TRANSLATED)
		return verdict;
	if (hop_is_old(&t->hop, now))
		resolve(skb, t, &w->out.fib, p->v6, now);
	change = rewrite_quote(skb, p, t, &w->in.option, q, whole) + bound_mtu(skb, p, l4, type);
	err = rewrite_error(skb, p, t, l4, change);
	if (err)
		return -err;
	w->out.action = redirect(&t->hop);
	return ICMP_TRANSLATED;
}
