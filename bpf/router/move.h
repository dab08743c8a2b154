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
static __always_inline void send_both(struct __sk_buff *skb, struct work *w)
{
	if (!w->out.hop.checked) /* the neighbour is resolved on output, which works for one packet only */
		return;
	bpf_clone_redirect(skb, w->out.hop.ifindex, 0);
	w->out.hop = w->reply_hop;
	w->action = TC_ACT_SHOT;
	if (write_segment(skb, &w->reply))
		w->action = redirect(&w->out.hop);
}

/* Releases the leg of the current client, which has moved. */
__noinline int leave_leg(struct __sk_buff *skb, __u32 idx, int verdict)
{
	struct work *w = work();
	struct splice *s = splice_at(idx);
	struct input in = { .now = clock_ms() };
	bool owed = verdict == MOVED, logged = false;
	struct request_log *l = log_at(idx);
	__u32 next;

	if (!w || !s)
		return 0;
	in.packet = &w->packet;
	in.limit = limit_of(s->surrogate);
	bpf_spin_lock(&s->lock);
	next = leave_event(s, &in, &owed, &w->reply, &w->released);
	w->reply_hop = s->to_server;
	if (next != LEAVE_NOT && l)
		logged = take_log(l, &w->logged);
	bpf_spin_unlock(&s->lock);
	if (next == LEAVE_NOT)
		return 0;
	if (logged)
		put_log(&w->logged);
	if (next == LEAVE_CLOSED)
		end_session(idx, s, LEG_CLOSED, in.now);
	else
		recycle(&w->released, idx, s, in.now);
	if (owed)
		send_both(skb, w);
	return 0;
}

/* Moves the client to a local socket, or to a leg of another pool or surrogate. Returns a verdict, or NO_LEG. */
static __always_inline int move_client(struct __sk_buff *skb, struct work *w, __u32 idx, struct splice *s, bool local,
				       __u32 ts_client)
{
	int verdict;

	if (local) {
		verdict = assign_local(skb);
		if (verdict != ASSIGNED)
			bpf_map_delete_elem(&flows, &w->packet.key);
		return verdict;
	}
	verdict = splice_client(skb, idx, ts_client);
	if (verdict == MOVED)
		return verdict;
	bpf_spin_lock(&s->lock);
	stay_event(s, verdict == NO_LEG);
	bpf_spin_unlock(&s->lock);
	return verdict;
}

/* Lets user space decide the next request. */
static __always_inline int ask(struct __sk_buff *skb, struct work *w, const struct config *set, struct splice *s,
			       __u32 now)
{
	bpf_spin_lock(&s->lock);
	s->flags |= SPLICE_UPCALL;
	bpf_spin_unlock(&s->lock);
	return upcall(skb, w, set, now);
}

/* Routes the next request, into w->decision and w->client. Returns 0, or the verdict of an upcall. */
static __always_inline int find_decision(struct __sk_buff *skb, struct work *w, const struct config *set,
					 struct splice *s, bool known, __u32 now)
{
	if (known && w->known.state == CLIENT_UPCALL)
		return to_user_space(w, set);
	if (known) {
		adopt_decision(&w->decision, &w->known);
		w->client = w->known;
		if (w->known.state == CLIENT_LOCAL)
			return 0;
	} else {
		client_of(s, set, &w->client);
		if (!decide(skb, &w->packet, &w->reading.scan, &w->routing, &w->decision))
			return ask(skb, w, set, s, now);
	}
	if (plan_header(skb, known, set->salt))
		return 0;
	w->client.flags |= CLIENT_PROXY;
	return ask(skb, w, set, s, now);
}

/* The routed request begins, if it stays: what is logged of the one before is over. Returns enum request_next. */
static __always_inline __u32 begin_next(struct work *w, __u32 idx, struct splice *s, const struct input *in, bool local,
					__u32 *ts_client)
{
	struct request_log *l = log_at(idx);
	struct insertion insertion = insertion_of(w);
	bool here, logged = false;
	__u32 next;

	bpf_spin_lock(&s->lock);
	if (w->routing.vip.flags & VIP_HOLD && same_tuple(&s->client, &in->packet->key))
		s->flags |= SPLICE_HOLD | SPLICE_ROUTED; /* the session may be older than the VIP's configuration */
	here = !local && (w->decision.surrogate == NO_SURROGATE ? s->pool == w->decision.pool
								: s->surrogate == w->decision.surrogate);
	next = request_event(s, in, &w->decision, &insertion, here, &w->out);
	*ts_client = s->ts_client;
	if (next == REQUEST_STAYS && l) {
		logged = take_log(l, &w->logged);
		begin_log(l, &w->request, s, in->packet->seq, in->packet->len);
	}
	bpf_spin_unlock(&s->lock);
	if (logged)
		put_log(&w->logged);
	if (next == REQUEST_STAYS)
		miss_log(&w->request, l);
	return next;
}

/* The next request of a spliced session: it stays on its leg, or moves to one of another pool or surrogate. */
__noinline int next_request(struct __sk_buff *skb, __u32 idx)
{
	struct work *w = work();
	struct config *set = config();
	struct splice *s = splice_at(idx);
	struct input in = { .now = clock_ms() };
	int verdict, known = NOT_KNOWN;
	__u32 next, ts_client;
	bool local;
	struct packet *p;

	if (!w || !s || !set)
		return DROP_NOMEM;
	p = &w->packet;
	if (!to_vip(&w->packet, &w->routing))
		return DROP_CLOSED; /* the VIP was removed from the configuration */
	in.packet = p;
	in.walk = &w->walk;
	in.clock = in.now + set->ts_offset;
	/* without the lock: bytes are counted before they are sent, so ACKs cannot be ahead */
	if (!client_fits(s, p, p->seq + s->to_server_seq, p->ack + s->to_server_ack))
		return DROP_WINDOW;
	if (s->flags & SPLICE_UPCALL) /* unless the upcall has expired */
		known = lookup_client(&p->key, &w->known);
	if (known == KNOWN_CHANGING)
		return DROP_RACE;
	if (!checksum_ok(skb, &w->packet, &w->sum))
		return DROP_BAD_CHECKSUM;
	verdict = find_decision(skb, w, set, s, known, in.now);
	if (verdict)
		return verdict;
	local = known && w->known.state == CLIENT_LOCAL;
	describe(skb, known);
	if (w->decision.chunked)
		walk_first(skb, p, &w->decision, &w->walk);
	if (!local && w->routing.vip.flags & VIP_HOLD && !hold_first(skb, p, &w->decision, &w->walk, &w->sum))
		return DROP_EARLY;
	w->introduction.len = 0;
	if (!local && w->introduction.head && !prepare_insertion(skb, w, idx, s->rcv_base - s->to_server_ack))
		return DROP_NOMEM;
	next = begin_next(w, idx, s, &in, local, &ts_client);
	if (next == REQUEST_RACE || next == REQUEST_EARLY)
		return next == REQUEST_RACE ? DROP_RACE : DROP_EARLY;
	if (next == REQUEST_STAYS) {
		if (known)
			forget_undecided(&p->key);
		return send_head(skb, w, s, in.now, TO_SERVER);
	}
	verdict = move_client(skb, w, idx, s, local, ts_client);
	if (verdict == NO_LEG)
		return upcall(skb, w, set, in.now);
	if (verdict != MOVED && !local)
		return verdict;
	if (known && verdict != ASSIGNED)
		forget_undecided(&p->key);
	leave_leg(skb, idx, verdict);
	return verdict;
}
