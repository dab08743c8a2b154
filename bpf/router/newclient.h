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

/* Whether the packet begins the client's request, by its acknowledgement of this connection and no earlier one. */
static __always_inline bool begins(const struct client *c, const struct packet *p)
{
	return p->seq == c->seq && p->ack == c->ack;
}

static __always_inline bool is_keepalive_before(const struct client *c, const struct packet *p)
{
	return p->seq + 1 == c->seq && p->ack == c->ack;
}

/*
 * A packet that does not begin the request of its client's entry. Returns 0, or a verdict. It may begin a session
 * of its own: then the entry, of an earlier one on the same port, is forgotten, and not known.
 */
static __always_inline int not_begun(struct inbound *in, const struct client *entry, struct outbound *out,
				     const struct config *set, bool *known)
{
	if (cookie_ok(&in->cookie, &in->packet, in->packet.seq)) {
		forget_undecided(&in->packet.key);
		*known = false;
		return 0;
	}
	if (entry->ack != in->packet.ack)
		return DROP_STALE; /* of an earlier session */
	return entry->state == CLIENT_UPCALL ? 0 : behind_replay(out, set, entry);
}

/* The first request bytes after a handshake. known: d->known is this client's entry; if not, its cookie is valid. */
__noinline int first_request(struct __sk_buff *skb, struct inbound *in, struct deciding *d, struct outbound *out,
			     bool known)
{
	struct config *set = config();
	__u32 now = clock_ms(), state;
	int verdict;

	if (!in || !d || !out || !set)
		return DROP_NOMEM;
	state = known ? d->known.state : CLIENT_SYN;
	if (state != CLIENT_SYN && !begins(&d->known, &in->packet)) {
		verdict = not_begun(in, &d->known, out, set, &known);
		if (verdict)
			return verdict;
		if (!known)
			state = CLIENT_SYN;
	}
	if (!checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	if (known)
		d->client = d->known;
	else
		recall_client(&in->packet, set, syn_key_of(&d->syn_key, &in->packet, in->packet.seq), &d->client);
	d->client.flags |= CLIENT_FIRST;
	if (d->client.band == BAND_NONE)
		d->client.band = band_of_client(in->packet.ack - 1);
	d->adopted = state == CLIENT_SPLICE;
	switch (state) {
	case CLIENT_LOCAL:
		return assign_local(skb, in, &d->client, out);
	case CLIENT_UPCALL:
		return to_user_space(out, set);
	case CLIENT_SPLICE:
		adopt_decision(&d->decision, &d->known);
		break;
	default:
		if (d->routing.vip.flags & VIP_TLS
			    ? !decide_hello(skb, &in->packet, &d->routing, &d->decision)
			    : !decide(skb, &in->packet, &d->reading.scan, &d->routing, &d->decision))
			return upcall(skb, &in->packet, &d->client, out, set, now);
	}
	if (!plan_header(skb, &in->packet, d, &out->own, set->salt)) {
		d->client.flags |= CLIENT_PROXY;
		return upcall(skb, &in->packet, &d->client, out, set, now);
	}
	describe(skb, &in->packet, d);
	d->moved_from = NO_SPLICE;
	d->joining.ts_client = in->packet.tsecr;
	verdict = splice_client(skb, in, d, out);
	if (verdict == NO_LEG)
		return upcall(skb, &in->packet, &d->client, out, set, now);
	if (verdict == DROP_RACE || verdict == DROP_FLOWS_FULL)
		return verdict;
	if (known)
		forget_undecided(&in->packet.key);
	drop_options(&in->packet, &d->syn_key);
	return verdict;
}

/*
 * Whether a socket of the VIP's listener has the session without a flow: it was accepted before the program was
 * attached, or its client was silent for long. One that its process has closed gets none: nobody would remove it.
 */
static __always_inline bool is_local_without_flow(struct __sk_buff *skb, const struct packet *p)
{
	struct flow local = { .ifindex = skb->ifindex, .side = SIDE_LOCAL };
	__u32 state = socket_state(skb, p);

	if (is_open(state))
		bpf_map_update_elem(&flows, &p->key, &local, BPF_NOEXIST);
	return state;
}

/* Whether the packet echoes a timestamp that a cookie still good was sent with. */
static __always_inline bool is_recent(const struct packet *p, const struct config *set)
{
	return has_ts(p) && ts_clock(set) - p->tsecr < COOKIE_LEAST_MS;
}

/* A packet to a VIP without a flow, and not the first after one of our handshakes. */
static __always_inline int no_session(struct __sk_buff *skb, struct inbound *in, struct deciding *d,
				      struct outbound *out, const struct config *set, bool known)
{
	struct packet *p = &in->packet;

	if (is_local_without_flow(skb, p))
		return PASS_LOCAL;
	if (p->len <= 1 && !(p->flags & FIN) && cookie_ok(&in->cookie, p, p->seq + 1)) {
		/* keepalive; repeats the last timestamp, which carries the client's options */
		struct segment *r = reply_to(&out->reply, p, ACK, p->ack, p->seq + 1);

		if (!checksum_ok(skb, &in->packet, &in->sum))
			return DROP_BAD_CHECKSUM;
		if (known && d->known.seq == p->seq + 1)
			d->client = d->known;
		else
			recall_client(p, set, syn_key_of(&d->syn_key, p, p->seq + 1), &d->client);
		if (!(d->client.flags & CLIENT_WSCALE))
			r->window = WINDOW_SENT;
		r->with_ts = has_ts(p);
		r->tsval = p->tsecr;
		r->tsecr = p->tsval;
		return send_back(skb, out, LEG_ACKED);
	}
	if (known || was_sent(p->ack - 1) || ((p->len || p->flags & FIN) && is_recent(p, set)))
		return DROP_EARLY;         /* probably follows a request whose start was lost or reordered */
	return reset_sender(skb, in, out); /* also of a client whose cookie is too old: it may connect again */
}

/* Answers a FIN, or its retransmission. Its checksum has been verified. */
static __always_inline int answer_fin(struct __sk_buff *skb, const struct packet *p, struct outbound *out)
{
	struct segment *r = reply_to(&out->reply, p, FIN | ACK, p->ack, p->seq + 1);

	r->with_ts = has_ts(p);
	r->tsval = p->tsecr + 1;
	r->tsecr = p->tsval;
	return send_back(skb, out, FIN_ANSWERED);
}

/* The end of an undecided client goes the way of its request: to answer it would acknowledge what user space holds. */
static __always_inline int undecided_fin(struct __sk_buff *skb, struct inbound *in, const struct client *known,
					 struct outbound *out, const struct config *set)
{
	if (known->ack != in->packet.ack)
		return DROP_STALE;
	if (!checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	return known->state == CLIENT_UPCALL ? to_user_space(out, set) : behind_replay(out, set, known);
}

/* A packet to a VIP without a flow. */
__noinline int new_client(struct __sk_buff *skb, struct work *w)
{
	struct config *set = config();
	struct deciding *d;
	struct outbound *out;
	struct inbound *in;
	struct packet *p;
	int known;

	if (!w || !set)
		return DROP_NOMEM;
	in = &w->in;
	d = &w->deciding;
	out = &w->out;
	p = &in->packet;
	if (p->flags & SYN)
		return answer_syn(skb, in, d, out);
	if (p->flags & RST)
		return is_local_without_flow(skb, p) ? PASS_LOCAL : undecided_reset(skb, in, &d->known, out);
	if (!(p->flags & ACK))
		return DROP_BAD_FLAGS;
	if (!p->plain && !read_options(skb, &in->packet, &in->option.now))
		return DROP_BAD_OPTIONS;
	known = lookup_client(&p->key, &d->known);
	if (known == KNOWN_CHANGING)
		return DROP_RACE;
	if (known && d->known.state == CLIENT_SYN && !begins(&d->known, p) && !is_keepalive_before(&d->known, p))
		known = NOT_KNOWN; /* of an earlier session */
	if (known && d->known.state != CLIENT_SYN) {
		if (!p->len)
			return p->flags & FIN ? undecided_fin(skb, in, &d->known, out, set) : HANDSHAKE_ACK;
	} else if (!(known && begins(&d->known, p)) && !cookie_ok(&in->cookie, p, p->seq)) {
		return no_session(skb, in, d, out, set, known);
	}
	if (p->len)
		return first_request(skb, in, d, out, known);
	if (!(p->flags & FIN)) {
		end_handshake(p->ack - 1);
		return HANDSHAKE_ACK;
	}
	if (!checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	forget_undecided(&p->key);
	drop_options(&in->packet, &d->syn_key);
	linger(&p->key, SIDE_LINGER, p->seq + 1, BPF_ANY, clock_ms());
	return answer_fin(skb, p, out);
}

/* A SYN from a client whose last session has ended: the old state is dropped. */
static __always_inline int syn_again(struct __sk_buff *skb, struct inbound *in, struct deciding *d,
				     struct outbound *out)
{
	if (in->packet.flags & (ACK | RST | FIN))
		return DROP_BAD_FLAGS;
	if (!checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	/* first: without the flow another packet could find it */
	forget_undecided(&in->packet.key);
	bpf_map_delete_elem(&flows, &in->packet.key);
	return to_vip(&in->packet, &d->routing) ? answer_syn(skb, in, d, out) : PASS;
}

/* A SYN for a session of a local socket: a live socket handles it (RFC 5961, 4). */
__noinline int syn_on_local(struct __sk_buff *skb, struct work *w)
{
	if (!w)
		return DROP_NOMEM;
	return socket_state(skb, &w->in.packet) ? PASS_LOCAL : syn_again(skb, &w->in, &w->deciding, &w->out);
}

/*
 * Whether the packet is of a connection after the one that has ended at seq, by its initial sequence number (RFC 6528).
 * Its SYN came before that end: a packet of the ended one had been with user space.
 */
static __always_inline bool is_of_next(const struct packet *p, __u32 seq)
{
	return (p->len || p->flags & FIN) && !(p->flags & (RST | SYN)) && before(seq, p->seq);
}

/*
 * A packet from a client whose session was closed here, at seq: expected is only its last ACK, its FIN again, or the
 * next connection. After our RST nothing is expected: a client that ignored the RST because of a lost packet before it
 * (RFC 5961, 3.2) is reset at its current number.
 */
static __always_inline int lingering_client(struct __sk_buff *skb, struct work *w, __u32 side, __u32 seq)
{
	struct inbound *in = &w->in;
	struct packet *p = &in->packet;

	if (is_of_next(p, seq)) {
		if (cookie_ok(&in->cookie, p, p->seq)) {
			bpf_map_delete_elem(&flows, &p->key);
			return to_vip(p, &w->deciding.routing) ? new_client(skb, w) : PASS;
		}
		if (side == SIDE_LINGER && was_sent(p->ack - 1))
			return DROP_EARLY; /* the next one's first bytes were lost, or come behind */
	}
	if (side == SIDE_RESET && !(p->flags & (RST | SYN)))
		return reset_sender(skb, in, &w->out);
	if (p->flags & FIN && !p->len)
		return checksum_ok(skb, &in->packet, &in->sum) ? answer_fin(skb, p, &w->out) : DROP_BAD_CHECKSUM;
	if (p->len && !(p->flags & (RST | SYN)))
		return reset_sender(skb, in, &w->out);
	if (p->flags & SYN)
		return syn_again(skb, in, &w->deciding, &w->out);
	return CONSUMED;
}
