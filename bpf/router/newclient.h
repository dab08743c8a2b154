/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets from clients without a splice: the end of the handshake, the first request, the last ACK of a closed session.
 */
#pragma once

#include "describe.h"
#include "handoff.h"
#include "hello.h"
#include "plan.h"
#include "session.h"
#include "syn.h"
#include "upcall.h"

static __always_inline void drop_options(const struct packet *p, struct syn_options_key *key)
{
	if (may_be_kept(p))
		bpf_map_delete_elem(&syn_options, syn_key_of(key, p, p->seq));
}

/* The first request bytes after a handshake. known: w->known is this client's entry; if not, its cookie is valid. */
__noinline int first_request(struct __sk_buff *skb, bool known)
{
	struct work *w = work();
	struct config *set = config();
	__u32 now = clock_ms(), state;
	int verdict;

	if (!w || !set)
		return DROP_NOMEM;
	state = known ? w->known.state : CLIENT_SYN;
	if (state != CLIENT_SYN && w->known.seq != w->packet.seq) {
		if (cookie_ok(&w->cookie, &w->packet, w->packet.seq)) {
			/* the entry is of an earlier session on the same port */
			forget_undecided(&w->packet.key);
			known = false;
			state = CLIENT_SYN;
		} else if (state != CLIENT_UPCALL) {
			return DROP_EARLY; /* ahead of the packets that user space will replay */
		}
	}
	if (!checksum_ok(skb, &w->packet, &w->sum))
		return DROP_BAD_CHECKSUM;
	if (known)
		w->client = w->known;
	else
		recall_client(&w->packet, syn_key_of(&w->syn_key, &w->packet, w->packet.seq), &w->client);
	if (w->client.band == BAND_NONE)
		w->client.band = band_of_client(w->packet.ack - 1);
	switch (state) {
	case CLIENT_LOCAL:
		return assign_local(skb);
	case CLIENT_UPCALL:
		return to_user_space(w, set);
	case CLIENT_SPLICE:
		adopt_decision(&w->decision, &w->known);
		break;
	default:
		if (w->routing.vip.flags & VIP_TLS
			    ? !decide_hello(skb, &w->packet, &w->routing, &w->decision)
			    : !decide(skb, &w->packet, &w->reading.scan, &w->routing, &w->decision))
			return upcall(skb, w, set, now);
	}
	if (!plan_header(skb, state == CLIENT_SPLICE, set->salt)) {
		w->client.flags |= CLIENT_PROXY;
		return upcall(skb, w, set, now);
	}
	describe(skb, state == CLIENT_SPLICE);
	verdict = splice_client(skb, NO_SPLICE, w->packet.tsecr);
	if (verdict == NO_LEG)
		return upcall(skb, w, set, now);
	if (verdict == DROP_RACE || verdict == DROP_FLOWS_FULL)
		return verdict;
	if (known)
		forget_undecided(&w->packet.key);
	drop_options(&w->packet, &w->syn_key);
	return verdict;
}

/* Whether the VIP's listener has accepted the session before the program was attached: it has no flow yet. */
static __always_inline bool is_earlier_local(struct __sk_buff *skb, struct work *w)
{
	struct flow local = { .ifindex = skb->ifindex, .side = SIDE_LOCAL };

	if (!socket_lives(skb, &w->packet))
		return false;
	bpf_map_update_elem(&flows, &w->packet.key, &local, BPF_NOEXIST);
	return true;
}

/* A packet to a VIP without a flow, and not the first after one of our handshakes. */
static __always_inline int no_session(struct __sk_buff *skb, struct work *w, const struct config *set, bool known)
{
	struct packet *p = &w->packet;

	if (is_earlier_local(skb, w))
		return PASS_LOCAL;
	if (p->len <= 1 && !(p->flags & FIN) && cookie_ok(&w->cookie, p, p->seq + 1)) {
		/* keepalive; repeats the last timestamp, which carries the client's options */
		struct segment *r = reply_to(&w->reply, p, ACK, p->ack, p->seq + 1);

		if (!checksum_ok(skb, &w->packet, &w->sum))
			return DROP_BAD_CHECKSUM;
		if (known && w->known.seq == p->seq + 1)
			w->client = w->known;
		else
			recall_client(p, syn_key_of(&w->syn_key, p, p->seq + 1), &w->client);
		if (!(w->client.flags & CLIENT_WSCALE))
			r->window = WINDOW_SENT;
		r->with_ts = has_ts(p);
		r->tsval = p->tsecr;
		r->tsecr = p->tsval;
		return send_back(skb, w, LEG_ACKED);
	}
	if ((p->len || p->flags & FIN) &&
	    (known || was_sent(p->ack - 1) || (has_ts(p) && ts_clock(set) - p->tsecr < COOKIE_MS)))
		return DROP_EARLY; /* probably follows a request whose start was lost or reordered */
	return reset_sender(skb, w);
}

/* Answers a FIN, or its retransmission. Its checksum has been verified. */
static __always_inline int answer_fin(struct __sk_buff *skb, struct work *w)
{
	struct packet *p = &w->packet;
	struct segment *r = reply_to(&w->reply, p, FIN | ACK, p->ack, p->seq + 1);

	r->with_ts = has_ts(p);
	r->tsval = p->tsecr + 1;
	r->tsecr = p->tsval;
	return send_back(skb, w, FIN_ANSWERED);
}

/* A packet to a VIP without a flow. */
__noinline int new_client(struct __sk_buff *skb)
{
	struct work *w = work();
	struct config *set = config();
	struct packet *p;
	int known;

	if (!w || !set)
		return DROP_NOMEM;
	p = &w->packet;
	if (p->flags & SYN)
		return answer_syn(skb);
	if (p->flags & RST)
		return is_earlier_local(skb, w) ? PASS_LOCAL : undecided_reset(skb, w);
	if (!(p->flags & ACK))
		return DROP_BAD_FLAGS;
	if (!p->plain && !read_options(skb, &w->packet, &w->option.now))
		return DROP_BAD_OPTIONS;
	known = lookup_client(&p->key, &w->known);
	if (known == KNOWN_CHANGING)
		return DROP_RACE;
	if (known && w->known.state == CLIENT_SYN && w->known.seq != p->seq)
		known = p->seq + 1 == w->known.seq ? KNOWN
						   : NOT_KNOWN; /* a keepalive before it, or an earlier session */
	if (known && w->known.state != CLIENT_SYN) {
		if (!p->len) /* our FIN-ACK would acknowledge bytes that user space holds */
			return p->flags & FIN ? DROP_EARLY : HANDSHAKE_ACK;
	} else if (!cookie_ok(&w->cookie, p, p->seq)) {
		return no_session(skb, w, set, known);
	}
	if (p->len)
		return first_request(skb, known);
	if (!(p->flags & FIN)) {
		end_handshake(p->ack - 1);
		return HANDSHAKE_ACK;
	}
	if (!checksum_ok(skb, &w->packet, &w->sum))
		return DROP_BAD_CHECKSUM;
	forget_undecided(&p->key);
	drop_options(&w->packet, &w->syn_key);
	linger(&p->key, SIDE_LINGER, BPF_ANY, clock_ms());
	return answer_fin(skb, w);
}

/* A SYN from a client whose last session has ended: the old state is dropped. */
static __always_inline int syn_again(struct __sk_buff *skb, struct work *w)
{
	if (w->packet.flags & (ACK | RST | FIN))
		return DROP_BAD_FLAGS;
	if (!checksum_ok(skb, &w->packet, &w->sum))
		return DROP_BAD_CHECKSUM;
	/* first: without the flow another packet could find it */
	forget_undecided(&w->packet.key);
	bpf_map_delete_elem(&flows, &w->packet.key);
	return to_vip(&w->packet, &w->routing) ? answer_syn(skb) : PASS;
}

/* A SYN for a session of a local socket: a live socket handles it (RFC 5961, 4). */
__noinline int syn_on_local(struct __sk_buff *skb)
{
	struct work *w = work();

	if (!w)
		return DROP_NOMEM;
	return socket_lives(skb, &w->packet) ? PASS_LOCAL : syn_again(skb, w);
}

/*
 * A packet from a client whose session was closed here: expected is only its last ACK, or its FIN again. After our RST
 * nothing is expected: a client that ignored the RST because of a lost packet before it (RFC 5961, 3.2) is reset at its
 * current number.
 */
static __always_inline int lingering_client(struct __sk_buff *skb, struct work *w, __u32 side)
{
	struct packet *p = &w->packet;

	if (side == SIDE_RESET && !(p->flags & (RST | SYN)))
		return reset_sender(skb, w);
	if (p->flags & FIN && !p->len)
		return checksum_ok(skb, &w->packet, &w->sum) ? answer_fin(skb, w) : DROP_BAD_CHECKSUM;
	if (p->len && !(p->flags & (RST | SYN)))
		return reset_sender(skb, w);
	if (p->flags & SYN)
		return syn_again(skb, w);
	return CONSUMED;
}
