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

/* A function returns these instead of a verdict when its caller must continue with the packet. */
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

/* What came in. Whoever parses the packet fills it. */
struct inbound {
	struct packet packet;
	struct option_bytes option; /* the packet's, if they are not plain */
	struct walk walk;           /* over its bytes, if its message is parsed */
	struct sum_bytes sum;       /* memory of checksum_ok and seal */
	struct cookie_headers cookie;
	struct quoted quoted;
};

/* What a decision is made from, and the decision. Whoever routes the request fills it. */
struct deciding {
	struct routing routing;
	struct reading reading; /* of the packet's request or response */
	struct decision decision;
	struct client client; /* current */
	struct client known;  /* by lookup_client */
	struct syn_options_key syn_key;
	struct request_log request; /* by describe */
	bool adopted;               /* user space has decided: the head of the request is not read here */
	__u32 moved_from;           /* the splice that the client leaves; NO_SPLICE: this is its first request */
	struct popped_leg leg;      /* that it goes to */
	struct joining joining;
};

/* Bytes of the router's own that go with the packet: docs/handoff.md, "Insertion". */
struct own_bytes {
	struct introduction introduction;
	struct payload payload;
	struct edited edited;
};

/* What goes out. The events of a session, and whoever sends, fill it. */
struct outbound {
	struct translation translation;
	struct segment reply;
	struct next_hop reply_hop;
	struct joined joined;
	struct own_bytes own;
	struct bpf_fib_lookup fib;
	__u32 action; /* TCX_* */
};

/* What the client leaves behind. The events of its session fill it. */
struct leaving {
	struct released_leg released;
	struct request_log logged;
};

/*
 * All records of a packet: for the entry points, and for the functions that they call. Functions below those get the
 * records that they use (bpf_test.go). No two members share memory, so that no step can overwrite what a later one
 * needs.
 */
struct work {
	struct inbound in;
	struct deciding deciding;
	struct outbound out;
	struct leaving leaving;
	struct splice_command command;
	struct decided decided; /* behind the command */
};

SCRATCH(work);

/* Makes the packet the input of a session's event, at event->now. */
static __always_inline void begin_event(struct input *event, const struct inbound *in, const struct config *set)
{
	event->packet = &in->packet;
	event->walk = &in->walk;
	event->clock = event->now + set->ts_offset;
}

/* Sends the packet to user space; nothing is acknowledged. */
static __always_inline int to_user_space(struct outbound *out, const struct config *set)
{
	if (!set->tap)
		return DROP_NO_TAP;
	out->action = bpf_redirect(set->tap, 0);
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

/* Writes the reply and sends it out of the ingress interface. Returns verdict, or the reason it could not. */
static __always_inline int send_back(struct __sk_buff *skb, struct outbound *out, int verdict)
{
	if (!write_segment(skb, &out->reply))
		return DROP_NOMEM;
	out->action = bpf_redirect(skb->ifindex, 0);
	return verdict;
}

/* Sends an RST that the packet's sender accepts (RFC 9293, 3.10.7.1). */
static __always_inline int reset_sender(struct __sk_buff *skb, struct inbound *in, struct outbound *out)
{
	if (in->packet.flags & RST)
		return CONSUMED;
	if (!checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	answer_reset(&out->reply, &in->packet);
	return send_back(skb, out, RESET_SENT);
}

/* The least time between two ICMP errors of a session (ms): a sender that has heard sends less. */
#define TOO_BIG_MS 100

/* The bytes of the packet from its IP header on; of one of its segments when GSO. */
static __always_inline __u32 datagram_size(const struct __sk_buff *skb, const struct packet *p)
{
	__u32 before = p->l4 - ip_bytes(p->v6);

	return skb->gso_size ? p->payload - before + skb->gso_size : p->payload + p->len - before;
}

static __always_inline bool is_too_big(const struct __sk_buff *skb, const struct packet *p, const struct next_hop *hop)
{
	return hop->mtu && datagram_size(skb, p) > hop->mtu;
}

/* Has user space tell the sender by ICMP (RFC 1191, RFC 8201). told is its session's. Returns the verdict. */
__noinline int refuse_size(const struct packet *p, __u32 *told, __u32 mtu, __u32 now)
{
	struct too_big_event *e;

	if (!p || !told || now - *told < TOO_BIG_MS)
		return DROP_TOO_BIG;
	*told = now;
	e = bpf_ringbuf_reserve(&events, sizeof(*e), 0);
	if (!e)
		return DROP_TOO_BIG;
	e->kind = EVENT_TOO_BIG;
	e->mtu = mtu;
	e->seq = p->seq;
	e->key = p->key;
	bpf_ringbuf_submit(e, BPF_RB_FORCE_WAKEUP);
	return DROP_TOO_BIG;
}

/* Sends the translated packet to the surrogate; its next hop is the splice's. */
static __always_inline int send_to_server(struct __sk_buff *skb, struct inbound *in, struct outbound *out,
					  struct splice *s, __u32 now, int verdict)
{
	int err;

	if (hop_is_old(&out->translation.hop, now) && resolve(skb, &out->translation, &out->fib, in->packet.v6, now)) {
		bpf_spin_lock(&s->lock);
		if (same_tuple(&s->client, &in->packet.key))
			s->to_server = out->translation.hop;
		bpf_spin_unlock(&s->lock);
	}
	if (is_too_big(skb, &in->packet, &out->translation.hop))
		return refuse_size(&in->packet, &s->told, out->translation.hop.mtu, now);
	err = rewrite(skb, &in->packet, &out->translation, &in->option);
	if (err)
		return -err;
	out->action = redirect(&out->translation.hop);
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
