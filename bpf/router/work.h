/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Per-CPU working memory for one packet, too large for the stack; and how our own packets leave. */
#pragma once

#include "../kernel/clock.h"
#include "../kernel/scratch.h"
#include "../session/state.h"
#include "../wire/cookie.h"
#include "../wire/options.h"
#include "../wire/verify.h"
#include "../wire/write.h"
#include "header.h"
#include "maps.h"
#include "rewrite.h"
#include "scan.h"

#define WINDOW_SENT 65535

/* What a function returns in place of a verdict when its caller has to continue with the packet. */
enum unfinished {
	/* client_packet: it starts a request, for next_request. Not a nested call, as stacks add up */
	BEGINS_REQUEST = VERDICTS,
	NO_LEG, /* splice_client: the request has no surrogate or no idle leg, and needs an upcall */
};

/* The quoted headers of an ICMP error, old and new, zero-padded. */
struct quoted {
	__u8 old[64];
	__u8 new[64];
};

/* State of parsing a head, and what is kept of one that continues in the next packet. */
struct reading {
	struct scan scan;
	struct partial part;
};

/* Functions take what they use of this as arguments; those called by the entry points get all of it. */
struct work {
	struct packet packet;       /* current */
	struct option_bytes option; /* its options, if they are not plain */
	struct translation out;
	struct segment reply;
	struct next_hop reply_hop;
	struct walk walk;
	struct decision decision;
	struct routing routing;
	struct client client; /* current */
	struct client known;  /* by lookup_client */
	struct syn_options_key syn_key;
	struct cookie_headers cookie;
	struct bpf_fib_lookup fib;
	struct splice_command command;
	struct request_log request; /* current, by describe */
	struct request_log logged;  /* the one that is over */
	struct released_leg released;
	struct joined joined;
	struct introduction introduction;
	struct payload payload;
	struct edited edited;
	__u32 action; /* TCX_* */
	union {       /* used one after the other */
		struct reading reading;
		struct sum_bytes sum;
		struct quoted quoted;
	};
};

SCRATCH(work);

/* Sends the packet to user space; nothing is acknowledged. */
static __always_inline int to_user_space(struct work *w, const struct config *set)
{
	if (!set->tap)
		return DROP_NO_TAP;
	w->action = bpf_redirect(set->tap, 0);
	return UPCALL;
}

/* Prepares a reply to the sender of p. */
static __always_inline struct segment *reply_to(struct segment *r, const struct packet *p, __u8 flags, __u32 seq,
						__u32 ack)
{
	answer(r, p, flags, seq, ack);
	r->window = flags & RST ? 0 : WINDOW_SENT >> OUR_WSCALE;
	return r;
}

/* Writes w->reply and sends it out of the ingress interface. Returns verdict, or the reason it could not. */
static __always_inline int send_back(struct __sk_buff *skb, struct work *w, int verdict)
{
	if (!write_segment(skb, &w->reply))
		return DROP_NOMEM;
	w->action = bpf_redirect(skb->ifindex, 0);
	return verdict;
}

/* Sends an RST that the packet's sender accepts (RFC 9293, 3.10.7.1). */
static __always_inline int reset_sender(struct __sk_buff *skb, struct work *w)
{
	if (w->packet.flags & RST)
		return CONSUMED;
	if (!checksum_ok(skb, &w->packet, &w->sum))
		return DROP_BAD_CHECKSUM;
	answer_reset(&w->reply, &w->packet);
	return send_back(skb, w, RESET_SENT);
}

/* Sends w->out to the surrogate; its next hop is the splice's. */
static __always_inline int send_to_server(struct __sk_buff *skb, struct work *w, struct splice *s, __u32 now,
					  int verdict)
{
	int err;

	if (hop_is_old(&w->out.hop, now) && resolve(skb, &w->out, &w->fib, w->packet.v6, now)) {
		bpf_spin_lock(&s->lock);
		if (same_tuple(&s->client, &w->packet.key))
			s->to_server = w->out.hop;
		bpf_spin_unlock(&s->lock);
	}
	err = rewrite(skb, &w->packet, &w->out, &w->option);
	if (err)
		return -err;
	w->action = redirect(&w->out.hop);
	return verdict;
}

/* Prepares an ACK with the addresses, timestamps and window of the translated packet. */
static __always_inline struct segment *ack_like(struct segment *r, const struct translation *t)
{
	copy_addr(r->src, t->src);
	copy_addr(r->dst, t->dst);
	r->sport = t->sport;
	r->dport = t->dport;
	r->flags = ACK;
	r->ack = t->ack;
	r->tsval = t->tsval;
	r->tsecr = t->tsecr;
	r->window = t->window;
	__builtin_memcpy(r->dmac, t->hop.dmac, 6);
	__builtin_memcpy(r->smac, t->hop.smac, 6);
	return r;
}
