/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Answers SYNs to VIPs with a cookie, and with all of the client's options that can be remembered. */
#pragma once

#include "band.h"
#include "syn_options.h"
#include "work.h"

/* Reads the options of the SYN. */
static __always_inline void read_syn(const struct packet *p, __u8 vip_flags, struct client *c)
{
	c->state = CLIENT_SYN;
	c->mss = p->mss ?: (p->v6 ? MSS_DEFAULT_V6 : MSS_DEFAULT_V4);
	if (has_ts(p) && !(vip_flags & VIP_NO_TS))
		c->flags |= CLIENT_TS;
	if (p->sack_ok)
		c->flags |= CLIENT_SACK;
	if (p->wscale != NO_OPTION) {
		c->flags |= CLIENT_WSCALE;
		c->wscale = p->wscale;
	}
}

/*
 * Stores options that the echoed timestamp cannot carry, if there is space. Returns the verdict, and in bits the MSS
 * part of the timestamp.
 */
static __always_inline int keep_options(const struct packet *p, const struct config *set, struct client *c,
					struct syn_options_key *key, __u32 *bits)
{
	__u16 usual = usual_mss(p->v6);

	if (c->flags & CLIENT_TS && mss_class(set, c->mss) == mss_class(set, usual))
		return SYN_ANSWERED;
	c->since = clock_ms();
	*bits = TS_OTHER_MSS;
	if (!bpf_map_update_elem(&syn_options, syn_key_of(key, p, p->seq + 1), c, BPF_ANY))
		return SYN_ANSWERED;
	if (!(c->flags & CLIENT_TS))
		c->flags = 0; /* offer nothing that would be forgotten */
	else if (c->mss > usual)
		*bits = 0;
	return SYN_COOKIE;
}

/* Confirms the client's options in the SYN-ACK. bits: see keep_options. */
static __always_inline void fill_syn_ack(struct segment *r, const struct packet *p, const struct config *set,
					 const struct client *c, __u32 bits)
{
	if (c->flags & CLIENT_TS) {
		bits |= c->flags & CLIENT_WSCALE ? c->wscale : TS_NO_WSCALE;
		if (c->flags & CLIENT_SACK)
			bits |= TS_SACK;
		r->with_ts = 1;
		r->tsval = ts_with_options(ts_clock(set), bits);
		r->tsecr = p->tsval;
	}
	r->with_sack = !!(c->flags & CLIENT_SACK);
	r->wscale = c->flags & CLIENT_WSCALE ? OUR_WSCALE : NO_SCALE;
}

/* Answers the current SYN, whose VIP is known. */
__noinline int answer_syn(struct __sk_buff *skb, struct inbound *in, struct deciding *d, struct outbound *out)
{
	struct config *set = config();
	struct client c = { .ifindex = skb->ifindex };
	struct packet *p;
	struct segment *r;
	__u32 bits = 0;
	__s64 cookie;
	int verdict;

	if (!in || !d || !out || !set)
		return DROP_NOMEM;
	p = &in->packet;
	if (p->flags & (ACK | RST | FIN))
		return DROP_BAD_FLAGS;
	if (set->closed || d->routing.vip.flags & VIP_CLOSED)
		return reset_sender(skb, in, out);
	p->plain = 0;
	if (p->options && !read_options(skb, p, &in->option.now))
		return DROP_BAD_OPTIONS;
	if (!checksum_ok(skb, p, &in->sum))
		return DROP_BAD_CHECKSUM;
	cookie = make_cookie(&in->cookie, p);
	if (cookie < 0)
		return DROP_NOMEM;
	read_syn(p, d->routing.vip.flags, &c);
	verdict = keep_options(p, set, &c, &d->syn_key, &bits);
	r = reply_to(&out->reply, p, SYN | ACK, (__u32)cookie, p->seq + 1);
	r->window = WINDOW_SENT;
	r->mss = d->routing.vip.mss;
	fill_syn_ack(r, p, set, &c, bits);
	time_handshake((__u32)cookie);
	return send_back(skb, out, verdict);
}
