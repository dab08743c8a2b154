/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Requests after the first: each is routed; the client stays on its leg or moves to another. */
#pragma once

#include "../session/move.h"
#include "describe.h"
#include "handoff.h"
#include "plan.h"
#include "session.h"
#include "upcall.h"

/* Sends the translated request, and the old leg's last ACK. */
static __always_inline void send_both(struct __sk_buff *skb, struct outbound *out)
{
	if (!out->translation.hop.checked) /* the neighbour is resolved on output, which works for one packet only */
		return;
	bpf_clone_redirect(skb, out->translation.hop.ifindex, 0);
	out->translation.hop = out->reply_hop;
	out->action = TC_ACT_SHOT;
	if (write_segment(skb, &out->reply))
		out->action = redirect(&out->translation.hop);
}

/*
 * Releases the leg of the client of p, which has moved. owed: an ACK can go to its surrogate, beside the packet. Returns
 * whether one must: it is in out->reply, for out->reply_hop.
 */
__noinline int leave_leg(const struct packet *p, __u32 idx, bool owed, struct outbound *out, struct leaving *leaving)
{
	struct splice *s = splice_at(idx);
	struct input event = { .now = clock_ms() };
	struct request_log *l = log_at(idx);
	bool logged = false;
	__u32 next;

	if (!p || !out || !leaving || !s)
		return false;
	event.packet = p;
	event.limit = limit_of(s->surrogate);
	bpf_spin_lock(&s->lock);
	next = leave_event(s, &event, &owed, &out->reply, &leaving->released);
	out->reply_hop = s->to_server;
	if (next != LEAVE_NOT && l)
		logged = take_log(l, &leaving->logged);
	bpf_spin_unlock(&s->lock);
	if (next == LEAVE_NOT)
		return false;
	if (logged)
		put_log(&leaving->logged);
	if (next == LEAVE_CLOSED)
		end_session(idx, s, LEG_CLOSED, event.now);
	else
		recycle(&leaving->released, idx, s, event.now);
	return owed;
}

/* Moves the client to a local socket, or to a leg of another pool or surrogate. Returns a verdict, or NO_LEG. */
static __always_inline int move_client(struct __sk_buff *skb, struct inbound *in, struct deciding *d,
				       struct outbound *out, struct splice *s, bool local)
{
	int verdict;

	if (local) {
		verdict = assign_local(skb, in, &d->client, out);
		if (verdict != ASSIGNED)
			bpf_map_delete_elem(&flows, &in->packet.key);
		return verdict;
	}
	verdict = splice_client(skb, in, d, out);
	if (verdict == MOVED)
		return verdict;
	bpf_spin_lock(&s->lock);
	stay_event(s, verdict == NO_LEG);
	bpf_spin_unlock(&s->lock);
	return verdict;
}

/* Lets user space decide the next request. */
static __always_inline int ask(struct __sk_buff *skb, const struct packet *p, struct client *c, struct outbound *out,
			       const struct config *set, struct splice *s, __u32 now)
{
	bool asked;

	bpf_spin_lock(&s->lock);
	asked = ask_event(s, p);
	bpf_spin_unlock(&s->lock);
	return asked ? upcall(skb, p, c, out, set, now) : DROP_RACE;
}

/* Finds what user space knows of the next request. Returns enum known. */
static __always_inline int find_entry(const struct splice *s, const struct packet *p, struct client *entry)
{
	int known;

	if (!(s->flags & SPLICE_UPCALL))
		return NOT_KNOWN;
	known = lookup_client(&p->key, entry); /* not known: the upcall has expired */
	if (known != KNOWN || entry->seq == p->seq)
		return known;
	forget_undecided(&p->key); /* of an earlier request, which was sent without it */
	return NOT_KNOWN;
}

/* Routes the next request. Returns 0, or the verdict of an upcall. */
static __always_inline int find_decision(struct __sk_buff *skb, const struct packet *p, struct deciding *d,
					 struct outbound *out, const struct config *set, struct splice *s, bool known,
					 __u32 now)
{
	if (known && d->known.state == CLIENT_UPCALL)
		return to_user_space(out, set);
	d->adopted = known;
	if (known) {
		adopt_decision(&d->decision, &d->known);
		d->client = d->known;
		if (d->known.state == CLIENT_LOCAL)
			return 0;
	} else {
		client_of(s, set, &d->client);
		if (!decide(skb, p, &d->reading.scan, &d->routing, &d->decision))
			return ask(skb, p, &d->client, out, set, s, now);
	}
	if (plan_header(skb, p, d, &out->own, set->salt))
		return 0;
	d->client.flags |= CLIENT_PROXY;
	return ask(skb, p, &d->client, out, set, s, now);
}

/* Prepares the packet of a routed request. ack: see prepare_insertion. Returns 0, or a verdict. */
static __always_inline int prepare_next(struct __sk_buff *skb, struct inbound *in, const struct deciding *d,
					struct own_bytes *own, __u32 idx, __u32 ack, bool local)
{
	struct packet *p = &in->packet;

	if (d->decision.chunked)
		walk_first(skb, p, &d->decision, &in->walk);
	if (!local && d->routing.vip.flags & VIP_HOLD && !hold_first(skb, p, &d->decision, &in->walk, &in->sum))
		return DROP_EARLY;
	own->introduction.len = 0;
	if (!local && own->introduction.head && !prepare_insertion(skb, p, d, own, idx, ack))
		return DROP_NOMEM;
	return 0;
}

/* The routed request begins, if it stays: what is logged of the one before is over. Returns enum request_next. */
static __always_inline __u32 begin_next(struct deciding *d, struct outbound *out, struct leaving *leaving, __u32 idx,
					struct splice *s, const struct input *event, bool local)
{
	struct request_log *l = log_at(idx);
	struct insertion insertion = insertion_of(&out->own.introduction);
	bool here, logged = false;
	__u32 next;

	bpf_spin_lock(&s->lock);
	if (d->routing.vip.flags & VIP_HOLD && same_tuple(&s->client, &event->packet->key))
		s->flags |= SPLICE_HOLD | SPLICE_ROUTED; /* the session may be older than the VIP's configuration */
	here = !local && (d->decision.surrogate == NO_SURROGATE ? s->pool == d->decision.pool
								: s->surrogate == d->decision.surrogate);
	next = request_event(s, event, &d->decision, &insertion, here, &out->translation);
	d->joining.ts_client = s->ts_client;
	if (next == REQUEST_STAYS && l) {
		logged = take_log(l, &leaving->logged);
		begin_log(l, &d->request, s, event->packet->seq, event->packet->len);
	}
	bpf_spin_unlock(&s->lock);
	if (logged)
		put_log(&leaving->logged);
	if (next == REQUEST_STAYS)
		miss_log(&d->request, l);
	return next;
}

/* The next request of a spliced session: it stays on its leg, or moves to one of another pool or surrogate. */
__noinline int next_request(struct __sk_buff *skb, struct work *w, __u32 idx)
{
	struct config *set = config();
	struct splice *s = splice_at(idx);
	struct input event = { .now = clock_ms() };
	int verdict, known;
	struct deciding *d;
	struct outbound *out;
	struct inbound *in;
	struct packet *p;
	__u32 next;
	bool local;

	if (!w || !s || !set)
		return DROP_NOMEM;
	in = &w->in;
	d = &w->deciding;
	out = &w->out;
	p = &in->packet;
	if (!to_vip(p, &d->routing))
		return DROP_CLOSED; /* the VIP was removed from the configuration */
	begin_event(&event, in, set);
	/* without the lock: bytes are counted before they are sent, so ACKs cannot be ahead */
	if (!client_fits(s, p, p->seq + s->to_server_seq, p->ack + s->to_server_ack))
		return DROP_WINDOW;
	known = find_entry(s, p, &d->known);
	if (known == KNOWN_CHANGING)
		return DROP_RACE;
	if (!checksum_ok(skb, p, &in->sum))
		return DROP_BAD_CHECKSUM;
	verdict = find_decision(skb, p, d, out, set, s, known, event.now);
	if (verdict)
		return verdict;
	local = known && d->known.state == CLIENT_LOCAL;
	describe(skb, p, d);
	verdict = prepare_next(skb, in, d, &out->own, idx, s->rcv_base - s->to_server_ack, local);
	if (verdict)
		return verdict;
	next = begin_next(d, out, &w->leaving, idx, s, &event, local);
	if (next == REQUEST_RACE || next == REQUEST_EARLY)
		return next == REQUEST_RACE ? DROP_RACE : DROP_EARLY;
	if (next == REQUEST_STAYS) {
		if (known)
			forget_undecided(&p->key);
		return send_head(skb, in, out, &d->routing.vip, s, event.now, TO_SERVER);
	}
	d->moved_from = idx;
	verdict = move_client(skb, in, d, out, s, local);
	if (verdict == NO_LEG)
		return upcall(skb, p, &d->client, out, set, event.now);
	if (verdict != MOVED && !local)
		return verdict;
	if (known && verdict != ASSIGNED)
		forget_undecided(&p->key);
	if (leave_leg(p, idx, verdict == MOVED, out, &w->leaving))
		send_both(skb, out);
	return verdict;
}
