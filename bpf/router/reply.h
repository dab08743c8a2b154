/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Turns the packet at hand into a segment of our own: SYN-ACK, ACK, FIN-ACK or RST. */
#pragma once

#include "rewrite.h"

#define OUR_TTL     64
#define WINDOW_TOLD 65535

/* Fills w->reply with the way back to the sender of the packet at hand. */
static __always_inline struct segment *reply_to(struct work *w, __u8 flags, __u32 seq, __u32 ack)
{
	answer(&w->reply, &w->packet, flags, seq, ack);
	w->reply.window = flags & RST ? 0 : WINDOW_TOLD >> TOLD_WSCALE;
	return &w->reply;
}

/* Options in the layout that Linux uses. Returns their length. */
static __always_inline __u32 reply_options(const struct segment *r, __be32 opt[5])
{
	if (!r->mss) {
		if (!r->with_ts)
			return 0;
		opt[0] = bpf_htonl(NOP_NOP_TS);
		opt[1] = bpf_htonl(r->tsval);
		opt[2] = bpf_htonl(r->tsecr);
		return 12;
	}
	opt[0] = bpf_htonl(OPTION_MSS << 24 | 4 << 16 | r->mss);
	if (r->with_ts) {
		opt[1] = r->with_sack ? bpf_htonl(OPTION_SACK_OK << 24 | 2 << 16 | OPTION_TS << 8 | 10)
				      : bpf_htonl(NOP_NOP_TS);
		opt[2] = bpf_htonl(r->tsval);
		opt[3] = bpf_htonl(r->tsecr);
	} else {
		opt[1] = r->with_sack ? bpf_htonl(0x01010402) : bpf_htonl(0x01010101);
		opt[2] = opt[3] = bpf_htonl(0x01010101);
	}
	opt[4] = r->wscale != NO_SCALE ? bpf_htonl(0x01030300 | r->wscale) : bpf_htonl(0x01010101);
	return 20;
}

/* Writes w->reply over the packet. Returns 0 or -verdict. */
__noinline int write_reply(struct __sk_buff *skb)
{
	struct work *w = work();
	struct tcphdr *th, tcp = {};
	__u32 l4, options, len;
	const __u32 *src, *dst;
	__be32 opt[5] = {};
	void *data, *end;
	struct ethhdr *eth;
	struct segment *r;
	bool v6, partial;
	__u64 pseudo, sum;

	if (!w)
		return -DROP_NO_ROOM;
	r = &w->reply;
	src = (const __u32 *)r->src;
	dst = (const __u32 *)r->dst;
	v6 = w->packet.v6;
	l4 = v6 ? ETH_HLEN + 40 : ETH_HLEN + 20;
	partial = partial_checksum(skb, l4);
	options = reply_options(r, opt);
	len = l4 + 20 + options;
	if (skb->len != len && bpf_skb_change_tail(skb, len, 0))
		return -DROP_NO_ROOM;
	if (bpf_skb_pull_data(skb, len))
		return -DROP_NO_ROOM;
	data = (void *)(long)skb->data;
	end = (void *)(long)skb->data_end;
	eth = data;
	if (!v6) {
		struct iphdr *ip = data + ETH_HLEN;

		th = (void *)(ip + 1);
		if ((void *)(th + 1) > end)
			return -DROP_NO_ROOM;
		ip->version = 4;
		ip->ihl = 5;
		ip->tos = 0;
		ip->tot_len = bpf_htons(len - ETH_HLEN);
		ip->id = 0;
		ip->frag_off = bpf_htons(0x4000);
		ip->ttl = OUR_TTL;
		ip->protocol = IPPROTO_TCP;
		ip->saddr = src[3];
		ip->daddr = dst[3];
		sum = (__u64)bpf_htons(0x4500) + ip->tot_len + bpf_htons(0x4000) +
		      bpf_htons(OUR_TTL << 8 | IPPROTO_TCP) + src[3] + dst[3];
		ip->check = ~fold(sum);
	} else {
		struct ipv6hdr *ip = data + ETH_HLEN;

		th = (void *)(ip + 1);
		if ((void *)(th + 1) > end)
			return -DROP_NO_ROOM;
		*(__be32 *)ip = bpf_htonl(0x60000000);
		ip->payload_len = bpf_htons(20 + options);
		ip->nexthdr = IPPROTO_TCP;
		ip->hop_limit = OUR_TTL;
		copy_addr(&ip->saddr, src);
		copy_addr(&ip->daddr, dst);
	}
	__builtin_memcpy(eth->h_dest, r->dmac, 6);
	__builtin_memcpy(eth->h_source, r->smac, 6);
	tcp.source = r->sport;
	tcp.dest = r->dport;
	tcp.seq = bpf_htonl(r->seq);
	tcp.ack_seq = bpf_htonl(r->ack);
	tcp.doff = 5 + options / 4;
	((__u8 *)&tcp)[13] = r->flags;
	tcp.window = bpf_htons(r->window);
	pseudo = pseudo_header(r->src, r->dst, 20 + options, v6);
	sum = pseudo + ((__u32 *)&tcp)[0] + ((__u32 *)&tcp)[1] + ((__u32 *)&tcp)[2] + ((__u32 *)&tcp)[3];
	sum += (__u64)opt[0] + opt[1] + opt[2] + opt[3] + opt[4];
	tcp.check = partial ? fold(pseudo) : ~fold(sum);
	*th = tcp;
	if (options) {
		__be32 *at = (void *)(th + 1);

		if ((void *)(at + 3) > end)
			return -DROP_NO_ROOM;
		at[0] = opt[0];
		at[1] = opt[1];
		at[2] = opt[2];
		if (options == 20) {
			if ((void *)(at + 5) > end)
				return -DROP_NO_ROOM;
			at[3] = opt[3];
			at[4] = opt[4];
		}
	}
	bpf_set_hash_invalid(skb);
	return 0;
}

/* Writes w->reply and sends it back where the packet came from. Returns verdict, or the reason it could not. */
static __always_inline int send_back(struct __sk_buff *skb, struct work *w, int verdict)
{
	int err = write_reply(skb);

	if (err)
		return -err;
	w->action = bpf_redirect(skb->ifindex, 0);
	return verdict;
}

/* An RST that the sender of the packet at hand accepts (RFC 9293, 3.10.7.1). Uses w->head. */
static __always_inline int reset_sender(struct __sk_buff *skb, struct work *w)
{
	if (w->packet.flags & RST)
		return CONSUMED;
	if (!checksum_ok(skb))
		return DROP_BAD_CHECKSUM;
	answer_reset(&w->reply, &w->packet);
	return send_back(skb, w, RESET_SENT);
}
