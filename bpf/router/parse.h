/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* From bytes to struct packet. Callers never compute an offset. */
#pragma once

#include <linux/if_ether.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include "work.h"

#define OPTION_END     0
#define OPTION_NOP     1
#define OPTION_MSS     2
#define OPTION_WSCALE  3
#define OPTION_SACK_OK 4
#define OPTION_SACK    5
#define OPTION_TS      8
#define NOP_NOP_TS     0x0101080a

#define VLAN_ID        0x0fff /* of a tag; 0: priority alone */

/* What parse() found. Negative: the packet is malformed or of a kind that is never translated; -verdict. */
enum parsed { PARSED_OTHER, PARSED_TCP, PARSED_ICMP };

struct option_walk {
	__u32 off;
	__u32 len;
	__u32 bad;
};

static long walk_option(__u32 i, struct option_walk *walk)
{
	struct work *w = work();
	__u32 off = walk->off, size;
	struct packet *p;

	if (!w || off >= walk->len || off >= OPTION_BYTES)
		return 1;
	p = &w->packet;
	switch (w->options[off]) {
	case OPTION_END:
		return 1;
	case OPTION_NOP:
		walk->off = off + 1;
		return 0;
	}
	size = w->options[off + 1];
	if (off + 1 >= walk->len || size < 2 || off + size > walk->len) {
		walk->bad = 1;
		return 1;
	}
	switch (w->options[off]) {
	case OPTION_MSS:
		if (size == 4)
			p->mss = w->options[off + 2] << 8 | w->options[off + 3];
		break;
	case OPTION_WSCALE:
		if (size == 3)
			p->wscale = w->options[off + 2] > 14 ? 14 : w->options[off + 2]; /* RFC 7323, 2.3 */
		break;
	case OPTION_SACK_OK:
		if (size == 2)
			p->sack_ok = 1;
		break;
	case OPTION_SACK: /* what would go out untranslated is refused, as are repetitions of what is translated once */
		walk->bad = p->sack_at != 0xff || size < 10 || (size - 2) % 8;
		p->sack_at = off;
		p->sack_len = size;
		break;
	case OPTION_TS:
		walk->bad = p->ts_at != 0xff || size != 10;
		p->ts_at = off;
		p->tsval = bpf_ntohl(*(__be32 *)&w->options[off + 2]);
		p->tsecr = bpf_ntohl(*(__be32 *)&w->options[off + 6]);
		break;
	}
	walk->off = off + size;
	return walk->bad;
}

/* The options that are not just timestamps. Leaves them in w->options. */
__noinline int parse_options(struct __sk_buff *skb)
{
	struct work *w = work();
	struct option_walk walk = {};
	struct packet *p;
	__u32 len;

	if (!w)
		return -DROP_NO_ROOM;
	p = &w->packet;
	p->ts_at = p->sack_at = p->wscale = 0xff;
	p->sack_len = p->sack_ok = 0;
	p->mss = 0;
	walk.len = len = p->options;
	__builtin_memset(w->options, 0, sizeof(w->options));
	if (len < 1 || len > OPTION_BYTES)
		return -DROP_TRUNCATED;
	if (bpf_skb_load_bytes(skb, p->l4 + 20, w->options, len))
		return -DROP_TRUNCATED;
	bpf_loop(OPTION_BYTES, walk_option, &walk, 0);
	return walk.bad ? -DROP_BAD_OPTIONS : PARSED_TCP;
}

static __always_inline int parse_tcp(struct __sk_buff *skb, struct work *w, __u32 l4, __u32 ip_payload)
{
	struct packet *p = &w->packet;
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct tcphdr *th = data + l4;
	__u32 header;
	__be32 *opt;

	if ((void *)(th + 1) > end)
		return -DROP_TRUNCATED;
	header = th->doff * 4;
	if (header < 20 || header > ip_payload)
		return -DROP_TRUNCATED;
	p->key.sport = th->source;
	p->key.dport = th->dest;
	p->seq = bpf_ntohl(th->seq);
	p->ack = bpf_ntohl(th->ack_seq);
	p->flags = ((__u8 *)th)[13];
	p->urgent = p->flags & URG || th->urg_ptr;
	p->window = bpf_ntohs(th->window);
	p->len = ip_payload - header;
	p->l4 = l4;
	p->payload = l4 + header;
	p->options = header - 20;
	p->ts_at = p->sack_at = p->wscale = 0xff;
	p->sack_len = p->sack_ok = 0;
	p->mss = 0;
	p->plain = 1;
	if (header == 20)
		return PARSED_TCP;
	opt = (void *)(th + 1);
	if (header == 32 && (void *)(opt + 3) <= end && opt[0] == bpf_htonl(NOP_NOP_TS)) {
		p->ts_at = 2;
		p->tsval = bpf_ntohl(opt[1]);
		p->tsecr = bpf_ntohl(opt[2]);
		return PARSED_TCP;
	}
	p->plain = 0;
	return PARSED_TCP;
}

static __always_inline int parse_ipv4(struct __sk_buff *skb, struct work *w)
{
	struct packet *p = &w->packet;
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct iphdr *ip = data + ETH_HLEN;
	__u32 total, held = skb->len - ETH_HLEN;

	if ((void *)(ip + 1) > end)
		return PARSED_OTHER; /* whose it is cannot be told */
	if (ip->protocol != IPPROTO_TCP && ip->protocol != IPPROTO_ICMP)
		return PARSED_OTHER;
	__builtin_memset(&p->key, 0, sizeof(p->key));
	((__u32 *)p->key.src)[2] = ((__u32 *)p->key.dst)[2] = bpf_htonl(0xffff);
	((__u32 *)p->key.src)[3] = ip->saddr;
	((__u32 *)p->key.dst)[3] = ip->daddr;
	p->v6 = 0;
	p->ttl = ip->ttl;
	if (ip->protocol == IPPROTO_ICMP && (ip->ihl != 5 || ip->frag_off & bpf_htons(0x3fff)))
		return PARSED_OTHER;
	if (ip->ihl != 5)
		return -DROP_IP_OPTIONS;
	if (ip->frag_off & bpf_htons(0x3fff))
		return -DROP_FRAGMENT;
	total = bpf_ntohs(ip->tot_len);
	if (!total) /* more than 64 KiB held together by the kernel */
		total = held;
	if (total > held || total < sizeof(*ip))
		return -DROP_TRUNCATED;
	p->l4 = ETH_HLEN + sizeof(*ip);
	p->len = total - sizeof(*ip);
	if (ip->protocol == IPPROTO_ICMP)
		return PARSED_ICMP;
	return parse_tcp(skb, w, ETH_HLEN + sizeof(*ip), total - sizeof(*ip));
}

static __always_inline int parse_ipv6(struct __sk_buff *skb, struct work *w)
{
	struct packet *p = &w->packet;
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ipv6hdr *ip = data + ETH_HLEN;
	__u32 total, held = skb->len - ETH_HLEN;

	if ((void *)(ip + 1) > end)
		return PARSED_OTHER;
	copy_addr(p->key.src, &ip->saddr);
	copy_addr(p->key.dst, &ip->daddr);
	p->key.sport = p->key.dport = 0;
	p->v6 = 1;
	p->ttl = ip->hop_limit;
	switch (ip->nexthdr) {
	case IPPROTO_TCP:
	case IPPROTO_ICMPV6:
		break;
	case IPPROTO_FRAGMENT:
		return -DROP_FRAGMENT;
	case IPPROTO_HOPOPTS:
	case IPPROTO_ROUTING:
	case IPPROTO_DSTOPTS:
		return -DROP_IPV6_EXTENSION;
	default:
		return PARSED_OTHER;
	}
	total = bpf_ntohs(ip->payload_len) + sizeof(*ip);
	if (total > held)
		return -DROP_TRUNCATED;
	p->l4 = ETH_HLEN + sizeof(*ip);
	p->len = total - sizeof(*ip);
	if (ip->nexthdr == IPPROTO_ICMPV6)
		return PARSED_ICMP;
	return parse_tcp(skb, w, ETH_HLEN + sizeof(*ip), total - sizeof(*ip));
}

static __always_inline int parse(struct __sk_buff *skb, struct work *w)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth;
	__u32 want = ETH_HLEN + 20 + 20;

	if (skb->vlan_present && skb->vlan_tci & VLAN_ID) /* of another network */
		return PARSED_OTHER;
	/* no more than the headers: payload that is pulled in front of its page costs the receiver a second copy */
	if (skb->protocol != bpf_htons(ETH_P_IP))
		want += 20;
	if (data + want > end && (long)end - (long)data < skb->len) {
		if (want > skb->len)
			want = skb->len;
		if (bpf_skb_pull_data(skb, want))
			return PARSED_OTHER;
		data = (void *)(long)skb->data;
		end = (void *)(long)skb->data_end;
	}
	eth = data;
	if ((void *)(eth + 1) > end)
		return PARSED_OTHER;
	if (eth->h_proto != bpf_htons(ETH_P_IP) && eth->h_proto != bpf_htons(ETH_P_IPV6))
		return PARSED_OTHER;
	__builtin_memcpy(w->packet.dmac, eth->h_dest, 6);
	__builtin_memcpy(w->packet.smac, eth->h_source, 6);
	if (eth->h_proto == bpf_htons(ETH_P_IP))
		return parse_ipv4(skb, w);
	return parse_ipv6(skb, w);
}
