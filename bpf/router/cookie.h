/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The client's handshake. Our initial sequence number is always a SYN cookie, so no state is needed until the first
 * request byte. Window shift and SACK ride in the low bits of the timestamp that we tell (as in Linux); a client whose
 * options they cannot carry (no timestamps, or an MSS that asks for legs of another class than the usual one does) gets
 * an entry in the table of promised options, while there is room.
 */
#pragma once

#include "band.h"
#include "reply.h"
#include "sources.h"

#define TS_OPTION_BITS 6
#define TS_OPTION_MASK ((1 << TS_OPTION_BITS) - 1)
#define TS_NO_WSCALE   15
#define TS_SACK        16
#define TS_OTHER_MSS   32 /* promised; if there was no room to remember it, below the usual one */
#define MSS_USUAL_V4   1460
#define MSS_USUAL_V6   1440

static __always_inline struct vip *vip_of(struct work *w, __be16 port)
{
	struct vip_key key = { .port = port };
	struct config *set = config();

	if (!set)
		return NULL;
	w->generation = *(volatile __u32 *)&set->generation;
	key.generation = w->generation;
	copy_addr(key.addr, w->packet.key.dst);
	return bpf_map_lookup_elem(&vips, &key);
}

/* Copies the VIP that the packet is for. What is decided about it is decided by the tables of that VIP's generation. False: it is for none that we answer. */
static __always_inline bool to_vip(struct work *w)
{
	struct vip *vip = vip_of(w, w->packet.key.dport);

	if (!vip || vip->mode != MODE_HANDOFF)
		return false;
	w->vip = *vip;
	return true;
}

/* Our clock for timestamps, in ms. */
static __always_inline __u32 ts_clock(const struct config *set)
{
	return clock_ms() + set->ts_offset;
}

/* The timestamp to tell in a SYN-ACK: not after now, so that later ones never go back (RFC 7323, 5). */
static __always_inline __u32 ts_with_options(__u32 now, __u32 bits)
{
	__u32 ts = (now & ~TS_OPTION_MASK) | bits;

	return before(now, ts) ? ts - (1 << TS_OPTION_BITS) : ts;
}

/*
 * A cookie as the helpers make it has two free bits, in which they keep an index of the client's MSS: numbers that are off
 * by up to 3 are taken for another MSS. We leave the MSS out, so that the index is 0, and look at the next number too.
 */
static __always_inline void cookie_headers(struct work *w, __u32 seq)
{
	struct packet *p = &w->packet;
	struct cookie_headers *h = &w->cookie;

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

static __always_inline __s64 make_cookie(struct work *w)
{
	cookie_headers(w, w->packet.seq);
	if (w->packet.v6)
		return bpf_tcp_raw_gen_syncookie_ipv6(&w->cookie.ip6, &w->cookie.th, sizeof(w->cookie.th));
	return bpf_tcp_raw_gen_syncookie_ipv4(&w->cookie.ip, &w->cookie.th, sizeof(w->cookie.th));
}

static __always_inline bool like_cookie(struct work *w, __u32 seq)
{
	cookie_headers(w, seq);
	if (w->packet.v6)
		return !bpf_tcp_raw_check_syncookie_ipv6(&w->cookie.ip6, &w->cookie.th);
	return !bpf_tcp_raw_check_syncookie_ipv4(&w->cookie.ip, &w->cookie.th);
}

/* Whether the packet, taken to begin at seq, acknowledges a cookie of ours and is the first in sequence after it. */
static __always_inline bool cookie_ok(struct work *w, __u32 seq)
{
	return like_cookie(w, seq) && !like_cookie(w, seq + 1);
}

static __always_inline __u16 usual_mss(bool v6)
{
	return v6 ? MSS_USUAL_V6 : MSS_USUAL_V4;
}

/* The largest MSS class that is not above mss. */
static __always_inline __u32 mss_class(const struct config *set, __u16 mss)
{
	__u32 best = 0;

#pragma unroll
	for (int i = 1; i < MSS_CLASSES; i++)
		if (set->mss[i] && set->mss[i] <= mss)
			best = i;
	return best;
}

/* The class of legs that fits a client: its timestamps, and its MSS. */
static __always_inline __u32 class_for(const struct config *set, const struct client *c)
{
	return mss_class(set, c->mss) << 1 | !!(c->flags & CLIENT_TS);
}

/* Of the client at hand, whose first byte has this number. */
static __always_inline struct promise_key *promise_key(struct work *w, __u32 seq)
{
	w->promise.client = w->packet.key;
	w->promise.seq = seq;
	return &w->promise;
}

/* Answers the SYN at hand. w->vip is the VIP it is for. */
__noinline int answer_syn(struct __sk_buff *skb)
{
	struct work *w = work();
	struct config *set = config();
	struct packet *p;
	struct segment *r;
	struct client c = {};
	__u16 usual;
	int verdict = SYN_ANSWERED;
	__u32 bits = 0;
	__s64 cookie;

	if (!w || !set)
		return DROP_NO_ROOM;
	p = &w->packet;
	if (p->flags & (ACK | RST | FIN))
		return DROP_BAD_FLAGS;
	if (set->closed || w->vip.flags & VIP_CLOSED)
		return reset_sender(skb, w);
	p->plain = 0;
	if (p->options && parse_options(skb) < 0)
		return DROP_BAD_OPTIONS;
	if (!checksum_ok(skb))
		return DROP_BAD_CHECKSUM;
	cookie = make_cookie(w);
	if (cookie < 0)
		return DROP_NO_ROOM;
	c.state = CLIENT_SYN;
	c.mss = p->mss ?: (p->v6 ? MSS_DEFAULT_V6 : MSS_DEFAULT_V4);
	if (p->ts_at != 0xff && !(w->vip.flags & VIP_NO_TS))
		c.flags |= CLIENT_TS;
	if (p->sack_ok)
		c.flags |= CLIENT_SACK;
	if (p->wscale != 0xff) {
		c.flags |= CLIENT_WSCALE;
		c.wscale = p->wscale;
	}
	r = reply_to(w, SYN | ACK, (__u32)cookie, p->seq + 1);
	r->window = WINDOW_TOLD;
	r->mss = w->vip.mss;
	usual = usual_mss(p->v6);
	if (!(c.flags & CLIENT_TS) || mss_class(set, c.mss) != mss_class(set, usual)) {
		c.ifindex = skb->ifindex;
		c.since = clock_ms();
		bits = TS_OTHER_MSS;
		if (bpf_map_update_elem(&promised, promise_key(w, p->seq + 1), &c, BPF_ANY)) {
			verdict = SYN_COOKIE;
			if (!(c.flags & CLIENT_TS))
				c.flags = 0; /* promise nothing that will be forgotten */
			else if (c.mss > usual)
				bits = 0;
		}
	}
	if (c.flags & CLIENT_TS) {
		bits |= c.flags & CLIENT_WSCALE ? c.wscale : TS_NO_WSCALE;
		if (c.flags & CLIENT_SACK)
			bits |= TS_SACK;
		r->with_ts = 1;
		r->tsval = ts_with_options(ts_clock(set), bits);
		r->tsecr = p->tsval;
	}
	r->with_sack = !!(c.flags & CLIENT_SACK);
	r->wscale = c.flags & CLIENT_WSCALE ? TOLD_WSCALE : NO_SCALE;
	time_handshake((__u32)cookie);
	return send_back(skb, w, verdict);
}

/* Whether the options of the client at hand may be among those promised. */
static __always_inline bool may_be_promised(const struct packet *p)
{
	return p->ts_at == 0xff || p->tsecr & TS_OTHER_MSS;
}

enum known { KNOWN_NOT, KNOWN, KNOWN_CHANGES };

/*
 * Copies what is known of the client at hand to w->known. User space changes it meanwhile, and memory that the map gives up is at
 * once another client's: only a copy of what is still in its place is whole.
 */
static __always_inline int know_client(struct work *w)
{
	struct client *c = bpf_map_lookup_elem(&clients, &w->packet.key);

	if (!c)
		return KNOWN_NOT;
	w->known = *c;
	barrier();
	return bpf_map_lookup_elem(&clients, &w->packet.key) == c ? KNOWN : KNOWN_CHANGES;
}

/* The options of the client whose first byte has this number, from the tables or from what it echoes, into w->client. */
static __always_inline void recall_client(struct work *w, bool known, __u32 seq)
{
	struct client *promise = NULL, *c = &w->client;
	__u32 bits = w->packet.tsecr & TS_OPTION_MASK;

	if (known) {
		*c = w->known;
		return;
	}
	if (may_be_promised(&w->packet))
		promise = bpf_map_lookup_elem(&promised, promise_key(w, seq));
	if (promise) {
		*c = *promise;
		return;
	}
	__builtin_memset(c, 0, sizeof(*c));
	c->mss = MSS_DEFAULT_V4;
	if (w->packet.ts_at == 0xff)
		return;
	if (!(bits & TS_OTHER_MSS))
		c->mss = usual_mss(w->packet.v6);
	c->flags = CLIENT_TS;
	if (bits & TS_SACK)
		c->flags |= CLIENT_SACK;
	if ((bits & 15) != TS_NO_WSCALE) {
		c->flags |= CLIENT_WSCALE;
		c->wscale = bits & 15;
	}
}
