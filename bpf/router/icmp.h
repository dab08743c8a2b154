/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * ICMP errors about packets that we translated: whoever sent the packet learns of it, in its own numbers. Without this,
 * path MTU discovery fails (RFC 1191, RFC 8201). Destination unreachable, packet too big and time exceeded are translated;
 * all else passes.
 */
#pragma once

#include "client.h"

/* Message types (RFC 792, RFC 4443). */
#define ICMP_UNREACHABLE     3
#define ICMP_TIME_EXCEEDED   11
#define ICMPV6_UNREACHABLE   1
#define ICMPV6_TOO_BIG       2
#define ICMP_FRAG_NEEDED     4 /* code of ICMP_UNREACHABLE */
#define ICMPV6_TIME_EXCEEDED 3

#define ICMP_HEADER          8
#define LEAST_MTU_V4         552
#define LEAST_MTU_V6         1280
#define QUOTED_TCP           8 /* at least this much of a TCP header is quoted (RFC 792) */

/* The quoted headers, before and after. Zero behind what is quoted. */
struct quoted {
	__u8 old[64];
	__u8 new[64];
};

static __always_inline bool is_transport_error(__u8 type, bool v6)
{
	if (v6)
		return type == ICMPV6_UNREACHABLE || type == ICMPV6_TOO_BIG || type == ICMPV6_TIME_EXCEEDED;
	return type == ICMP_UNREACHABLE || type == ICMP_TIME_EXCEEDED;
}

/*
 * Reads the quoted packet into w->packet: its numbers, flags and options, and as the key the tuple of the packets that come
 * the other way. False: it is none of TCP, or cannot be read.
 */
static __always_inline bool read_quote(struct __sk_buff *skb, struct work *w, struct quoted *q, bool *whole)
{
	struct packet *p = &w->packet;
	__u32 at = p->l4 + ICMP_HEADER, room = p->len - ICMP_HEADER, size = p->v6 ? 40 : 20, total;
	struct tcphdr *th;
	__u8 outer[16];

	copy_addr(outer, p->key.dst);
	__builtin_memset(q, 0, sizeof(*q));
	if (p->v6) {
		struct ipv6hdr *ip = (void *)q->old;

		if (room < 40 + QUOTED_TCP || bpf_skb_load_bytes(skb, at, ip, 40) || ip->version != 6 ||
		    ip->nexthdr != IPPROTO_TCP)
			return false;
		total = 40 + bpf_ntohs(ip->payload_len);
		copy_addr(p->key.src, &ip->daddr);
		copy_addr(p->key.dst, &ip->saddr);
		th = (void *)&q->old[40];
	} else {
		struct iphdr *ip = (void *)q->old;

		if (room < 20 + QUOTED_TCP || bpf_skb_load_bytes(skb, at, ip, 20) || ip->version != 4 || ip->ihl != 5 ||
		    ip->protocol != IPPROTO_TCP || ip->frag_off & bpf_htons(0x1fff))
			return false;
		total = bpf_ntohs(ip->tot_len);
		((__u32 *)p->key.src)[3] = ip->daddr;
		((__u32 *)p->key.dst)[3] = ip->saddr;
		th = (void *)&q->old[20];
	}
	for (int i = 0; i < 4; i++)
		if (((__u32 *)outer)[i] != ((__u32 *)p->key.dst)[i])
			return false; /* not for the sender of what it quotes */
	if (total < room)             /* behind it: the extensions of RFC 4884 */
		room = total;
	if (room < size + QUOTED_TCP)
		return false;
	room -= size;
	p->l4 = at + size;
	*whole = false;
	if (room >= sizeof(*th)) {
		if (bpf_skb_load_bytes(skb, p->l4, th, sizeof(*th)) || th->doff < 5)
			return false;
		*whole = th->doff * 4 <= room;
	}
	if (!*whole) {
		__builtin_memset(th, 0, sizeof(*th));
		if (bpf_skb_load_bytes(skb, p->l4, th, QUOTED_TCP))
			return false;
	}
	p->key.sport = th->dest;
	p->key.dport = th->source;
	p->seq = bpf_ntohl(th->seq);
	p->ack = bpf_ntohl(th->ack_seq);
	p->window = bpf_ntohs(th->window);
	p->flags = ((__u8 *)th)[13];
	p->options = *whole ? th->doff * 4 - 20 : 0;
	p->ts_at = p->sack_at = 0xff;
	return true;
}

/* Under the lock: takes back what the translation towards the client did, as the surrogate sent the quoted packet. */
static __always_inline void unfill_to_client(struct work *w, const struct splice *s)
{
	struct translation *t = &w->out;
	struct packet *p = &w->packet;

	copy_addr(t->src, s->server.dst);
	copy_addr(t->dst, s->server.src);
	t->sport = s->server.dport;
	t->dport = s->server.sport;
	t->seq = p->seq + s->to_server_ack;
	t->ack_shift = s->to_server_seq;
	t->tsval = p->tsval - s->ts_to_client;
	t->tsecr = p->flags & ACK ? p->tsecr + s->ts_to_server : p->tsecr;
	t->window = rescale(p->window, s->flags & SPLICE_CLIENT_WSCALE ? TOLD_WSCALE : 0,
			    s->flags & SPLICE_SERVER_WSCALE ? s->server_shift : 0);
	t->hop = s->to_server;
}

static __always_inline void unfill_to_server(struct work *w, const struct splice *s)
{
	struct translation *t = &w->out;
	struct packet *p = &w->packet;

	copy_addr(t->src, s->client.dst);
	copy_addr(t->dst, s->client.src);
	t->sport = s->client.dport;
	t->dport = s->client.sport;
	t->seq = p->seq - s->to_server_seq;
	t->ack_shift = -s->to_server_ack;
	t->tsval = p->tsval - s->ts_to_server;
	t->tsecr = p->flags & ACK ? p->tsecr + s->ts_to_client : p->tsecr;
	t->window = rescale(p->window, s->flags & SPLICE_SERVER_WSCALE ? TOLD_WSCALE : 0,
			    s->flags & SPLICE_CLIENT_WSCALE ? s->client_shift : 0);
	t->hop = s->to_client;
}

/* Writes the quoted headers as w->out says. Returns what that adds to the checksum of the message. */
static __always_inline __u64 rewrite_quote(struct __sk_buff *skb, struct work *w, struct quoted *q, bool whole)
{
	struct translation *t = &w->out;
	const __u32 *src = (const __u32 *)t->dst,
		    *dst = (const __u32 *)t->src; /* the quoted packet goes the other way */
	__u32 size = w->packet.v6 ? 40 : 20, at = w->packet.l4 - size;
	__u64 options = 0, change;
	struct tcphdr *th;

	if (whole && w->packet.options)
		options = rewrite_options(skb, w);
	__builtin_memcpy(q->new, q->old, sizeof(q->new));
	if (w->packet.v6) {
		struct ipv6hdr *ip = (void *)q->new;

		copy_addr(&ip->saddr, src);
		copy_addr(&ip->daddr, dst);
		th = (void *)&q->new[40];
	} else {
		struct iphdr *ip = (void *)q->new;
		__u64 sum = (__u16)~ip->check + swapped(ip->saddr, src[3]) + swapped(ip->daddr, dst[3]);

		ip->saddr = src[3];
		ip->daddr = dst[3];
		ip->check = ~fold(sum);
		th = (void *)&q->new[20];
	}
	th->source = t->dport;
	th->dest = t->sport;
	th->seq = bpf_htonl(t->seq);
	if (whole) {
		if (w->packet.flags & ACK)
			th->ack_seq = bpf_htonl(w->packet.ack + t->ack_shift);
		th->window = bpf_htons(t->window);
		/* the IPv4 header's change is none to a sum but for its addresses, as its checksum makes up for them */
		change = (__u32)bpf_csum_diff((__be32 *)q->old, sizeof(q->old), (__be32 *)q->new, sizeof(q->new), 0);
		if (!w->packet.v6)
			change += swapped(((struct iphdr *)q->old)->saddr, src[3]) +
				  swapped(((struct iphdr *)q->old)->daddr, dst[3]);
		th->check = ~fold((__u16)~th->check + change + options);
	}
	if (bpf_skb_store_bytes(skb, at, q->new, size + QUOTED_TCP, 0) ||
	    (whole &&
	     bpf_skb_store_bytes(skb, w->packet.l4 + QUOTED_TCP, (__u8 *)th + QUOTED_TCP, sizeof(*th) - QUOTED_TCP, 0)))
		return 0;
	return options + (__u32)bpf_csum_diff((__be32 *)q->old, sizeof(q->old), (__be32 *)q->new, sizeof(q->new), 0);
}

/*
 * A surrogate takes the path's MTU for that of all clients, so it is told none that no path has: not less than Linux takes
 * itself (min_pmtu), and not less than IPv6 has (RFC 8200, 5). Returns what that adds to the checksum.
 */
static __always_inline __u64 bound_mtu(struct __sk_buff *skb, const struct packet *p, __u32 l4, __u8 type)
{
	__be32 least = bpf_htonl(p->v6 ? LEAST_MTU_V6 : LEAST_MTU_V4), other, told;
	__u8 code;

	if (bpf_skb_load_bytes(skb, l4 + 1, &code, 1) || bpf_skb_load_bytes(skb, l4 + 4, &told, 4))
		return 0;
	if (p->v6 ? type != ICMPV6_TOO_BIG : type != ICMP_UNREACHABLE || code != ICMP_FRAG_NEEDED)
		return 0;
	other = p->v6 ? 0 : told & bpf_htonl(0xffff0000); /* RFC 4884 */
	told ^= other;
	if (!told || bpf_ntohl(told) >= bpf_ntohl(least)) /* 0: of a router that does not tell (RFC 1191, 5) */
		return 0;
	told |= other;
	least |= other;
	return bpf_skb_store_bytes(skb, l4 + 4, &least, 4, 0) ? 0 : swapped(told, least);
}

/* The error's own headers, and its checksum, to which its bytes have added change. Returns 0, or -verdict. */
static __always_inline int rewrite_error(struct __sk_buff *skb, struct work *w, __u32 l4, __u64 change)
{
	struct translation *t = &w->out;
	const __u32 *src = (const __u32 *)t->src, *dst = (const __u32 *)t->dst, *old_src, *old_dst;
	struct packet *p = &w->packet;
	void *data, *end;
	__u64 pseudo = 0;

	if (bpf_skb_pull_data(skb, l4 + ICMP_HEADER))
		return -DROP_NO_ROOM;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	if (p->v6) {
		struct ipv6hdr *ip = data + ETH_HLEN;

		if ((void *)(ip + 1) > end)
			return -DROP_NO_ROOM;
		old_src = (const __u32 *)&ip->saddr;
		old_dst = (const __u32 *)&ip->daddr;
		for (int i = 0; i < 4; i++)
			pseudo += swapped(old_src[i], src[i]) + swapped(old_dst[i], dst[i]);
		ip->hop_limit = p->ttl - 1;
		copy_addr(&ip->saddr, src);
		copy_addr(&ip->daddr, dst);
	} else {
		struct iphdr *ip = data + ETH_HLEN;
		__u64 sum;

		if ((void *)(ip + 1) > end)
			return -DROP_NO_ROOM;
		sum = (__u16)~ip->check + swapped(bpf_htons(p->ttl << 8), bpf_htons((p->ttl - 1) << 8)) +
		      swapped(ip->saddr, src[3]) + swapped(ip->daddr, dst[3]);
		ip->check = ~fold(sum);
		ip->ttl = p->ttl - 1;
		ip->saddr = src[3];
		ip->daddr = dst[3];
	}
	if (t->hop.checked) {
		struct ethhdr *eth = data;

		__builtin_memcpy(eth->h_dest, t->hop.dmac, 6);
		__builtin_memcpy(eth->h_source, t->hop.smac, 6);
	}
	if (bpf_l4_csum_replace(skb, l4 + 2, 0, difference(change), 0))
		return -DROP_NO_ROOM;
	if (!p->v6)
		return 0;
	if (bpf_l4_csum_replace(skb, l4 + 2, 0, difference(pseudo), BPF_F_PSEUDO_HDR))
		return -DROP_NO_ROOM;
	pseudo += swapped(bpf_htons(p->ttl), bpf_htons(p->ttl - 1)); /* see rewrite() */
	bpf_csum_update(skb, difference(pseudo));
	return 0;
}

/* Under the lock: whether the quoted packet may be on its way: anyone can quote any other (RFC 5927, 4). */
static __always_inline bool in_flight(const struct splice *s, __u32 seq, bool to_client)
{
	if (to_client)
		return !before(seq + s->to_server_ack, s->rcv_acked) && !before(s->rcv_nxt, seq + s->to_server_ack);
	return !before(seq, s->snd_una) && !before(s->snd_nxt, seq);
}

__noinline int icmp_error(struct __sk_buff *skb)
{
	struct work *w = work();
	__u32 now = clock_ms(), l4;
	struct quoted *q;
	struct packet *p;
	struct flow *f;
	struct splice *s;
	bool whole, to_server;
	__u64 change;
	__u8 type;
	int err;

	if (!w)
		return PASS;
	p = &w->packet;
	q = (void *)w->head;
	l4 = p->l4;
	if (p->len < ICMP_HEADER || bpf_skb_load_bytes(skb, l4, &type, 1) || !is_transport_error(type, p->v6) ||
	    !read_quote(skb, w, q, &whole))
		return PASS;
	f = bpf_map_lookup_elem(&flows, &p->key);
	if (!f || (f->side != SIDE_CLIENT && f->side != SIDE_SERVER) || (whole && p->flags & SYN))
		return PASS;
	to_server = f->side == SIDE_CLIENT;
	s = splice_at(f->splice);
	if (!s)
		return PASS;
	if (p->ttl <= 1)
		return DROP_TTL;
	if (p->options && parse_options(skb) < 0)
		return DROP_BAD_OPTIONS;
	bpf_spin_lock(&s->lock);
	if (!same_tuple(to_server ? &s->client : &s->server, &p->key) ||
	    (s->state != SPLICE_ACTIVE && s->state != SPLICE_CLOSING)) {
		bpf_spin_unlock(&s->lock);
		return PASS;
	}
	if (!in_flight(s, p->seq, to_server)) {
		bpf_spin_unlock(&s->lock);
		return DROP_WINDOW;
	}
	w->out.keep_ts = !!(s->flags & SPLICE_TS);
	w->out.keep_sack =
		(s->flags & (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK)) == (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK);
	if (to_server)
		unfill_to_client(w, s);
	else
		unfill_to_server(w, s);
	bpf_spin_unlock(&s->lock);
	if (hop_is_old(&w->out.hop, now))
		resolve(skb, now);
	change = rewrite_quote(skb, w, q, whole) + bound_mtu(skb, p, l4, type);
	err = rewrite_error(skb, w, l4, change);
	if (err)
		return -err;
	leave(skb, w);
	return ICMP_TRANSLATED;
}
