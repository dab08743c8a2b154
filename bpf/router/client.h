/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets from spliced clients. */
#pragma once

#include "../session/client.h"
#include "hold.h"
#include "insertion.h"
#include "plan.h"
#include "session.h"
#include "syn_options.h"
#include "walk.h"

/*
 * The client has closed cleanly. Answers its FIN, acknowledges the response to the surrogate on its behalf, and leaves
 * the leg to the next client. w->out is the translated FIN; w->reply is filled.
 */
static __always_inline int end_client(struct __sk_buff *skb, struct work *w)
{
	if (!write_segment(skb, &w->reply))
		return DROP_NOMEM;
	bpf_clone_redirect(skb, skb->ifindex, 0);
	ack_like(&w->reply, &w->out)->seq = w->out.seq;
	if (!write_segment(skb, &w->reply))
		return DROP_NOMEM;
	w->action = redirect(&w->out.hop);
	return RECYCLED;
}

/* Sends a packet that the client repeats with the insertion, which the surrogate may lack. */
static __always_inline int send_with_insertion(struct __sk_buff *skb, struct work *w, struct splice *s, __u32 idx,
					       __u32 now)
{
	__u32 inserted = w->introduction.len;

	if (!w->introduction.head) {
		if (!rebuild_header(w, idx))
			return send_to_server(skb, w, s, now, TO_SERVER);
		return send_behind(skb, w, s, now, TO_SERVER);
	}
	if (!edit_head(skb, &w->packet, &w->introduction, &w->payload, &w->edited) ||
	    w->edited.len != w->introduction.head + inserted)
		return DROP_RACE; /* the edit has been replaced */
	return send_head(skb, w, s, now, TO_SERVER);
}

/* The packet starts a connection on a port that still has a session. Ends that session; the client retransmits. */
static __always_inline int replace_session(struct __sk_buff *skb, struct work *w, __u32 idx, struct splice *s,
					   __u32 now)
{
	bool over;

	if (!checksum_ok(skb, &w->packet, &w->sum))
		return DROP_BAD_CHECKSUM;
	bpf_spin_lock(&s->lock);
	over = replaced_event(s, &w->packet, now);
	bpf_spin_unlock(&s->lock);
	if (over)
		end_session(idx, s, LEG_REPLACED, now);
	return DROP_RACE;
}

/* Parses the packet before the session is locked. Returns 0, or a verdict. */
static __always_inline int read_client_packet(struct __sk_buff *skb, struct work *w, __u32 idx, const struct splice *s)
{
	struct packet *p = &w->packet;
	bool walk = p->len && walked(s->request);

	if (p->ttl <= 1)
		return DROP_TTL;
	if (!p->plain && !read_options(skb, &w->packet, &w->option.now))
		return DROP_BAD_OPTIONS;
	if (!(p->flags & (SYN | RST | ACK)))
		return DROP_BAD_FLAGS;
	if ((p->flags & (SYN | FIN | RST) || walk) && !checksum_ok(skb, &w->packet, &w->sum))
		return DROP_BAD_CHECKSUM;
	w->walk.from = FRAMING_QUIET; /* no walk */
	w->walk.bad = w->walk.hidden = 0;
	w->walk.behind = 0;
	if (walk)
		walk_request(skb, p, idx, &w->walk);
	return 0;
}

/* Reads a head that the client repeats while it is open. Returns 0, or a verdict. */
static __always_inline int read_repeated(struct __sk_buff *skb, struct work *w, const struct config *set,
					 const struct splice *s, struct input *in)
{
	in->reread = begins_head(s, &w->packet);
	if (!in->reread)
		return 0;
	if (!checksum_ok(skb, &w->packet, &w->sum))
		return DROP_BAD_CHECKSUM;
	if (read_again(skb, s->header)) {
		in->head = w->reading.scan.size;
		in->sum = digest(&w->reading.scan, set->salt);
		in->request = length_of(&w->reading.scan);
	}
	return 0;
}

/* The client's FIN closes its session cleanly. */
static __always_inline int recycle_by_fin(struct __sk_buff *skb, struct work *w, __u32 idx, struct splice *s, __u32 now)
{
	__u32 tsval = w->reply.tsval;
	struct packet *p = &w->packet;
	struct segment *r = reply_to(&w->reply, p, FIN | ACK, p->ack, p->seq + 1);

	linger(&p->key, SIDE_LINGER, BPF_EXIST, now);
	r->with_ts = w->out.keep_ts && has_ts(p);
	r->tsval = tsval;
	r->tsecr = p->tsval;
	if (hop_is_old(&w->out.hop, now))
		resolve(skb, &w->out, &w->fib, p->v6, now);
	recycle(&w->released, idx, s, now);
	return end_client(skb, w);
}

/* Carries out the result of client_event. */
static __always_inline int after_client(struct __sk_buff *skb, struct work *w, const struct config *set, __u32 idx,
					struct splice *s, __u32 next, __u32 now)
{
	switch (next) {
	case NEXT_STALE:
		return DROP_STALE; /* it moved or is closing: a SYN will be retransmitted */
	case NEXT_RACE:
		return DROP_RACE;
	case NEXT_REQUEST:
		return BEGINS_REQUEST;
	case NEXT_UPCALL:
		/* behind a decided request that has to wait: user space, which has nothing to decide, would send it back */
		if (lookup_client(&w->packet.key, &w->known) == KNOWN && w->known.state != CLIENT_UPCALL)
			return DROP_EARLY;
		return to_user_space(w, set);
	case NEXT_EARLY:
		return DROP_EARLY;
	case NEXT_OUTSIDE:
		return DROP_WINDOW;
	case NEXT_CUT:
		end_session(idx, s, LEG_CUT, now);
		return reset_sender(skb, w);
	case NEXT_MALFORMED: /* user space replies */
		end_session(idx, s, LEG_MALFORMED, now);
		return DROP_MALFORMED;
	case NEXT_CHALLENGE:
		return send_back(skb, w, CHALLENGED);
	case NEXT_RECYCLE:
		return recycle_by_fin(skb, w, idx, s, now);
	case NEXT_RECYCLE_RESET:
		linger(&w->packet.key, SIDE_LINGER, BPF_EXIST, now);
		recycle(&w->released, idx, s, now);
		return RECYCLED;
	case NEXT_RESET:
		end_session(idx, s, LEG_CLIENT_RESET, now);
		break;
	case NEXT_OVER:
		end_session(idx, s, LEG_CLOSED, now);
		break;
	}
	return w->out.insert ? send_with_insertion(skb, w, s, idx, now) : send_to_server(skb, w, s, now, TO_SERVER);
}

/* Whether the packet is part of the session's stream, and has changed its record. */
static __always_inline bool is_in_stream(__u32 next)
{
	return next == NEXT_SEND || next == NEXT_RECYCLE || next == NEXT_RECYCLE_RESET || next == NEXT_RESET ||
	       next == NEXT_OVER;
}

__noinline int client_packet(struct __sk_buff *skb, __u32 idx)
{
	struct work *w = work();
	struct config *set = config();
	struct splice *s = splice_at(idx);
	struct input in = { .now = clock_ms() };
	struct request_log *l = log_at(idx);
	__u32 next, nxt;
	__u64 ns;
	bool logged;
	int verdict;

	if (!w || !s || !set)
		return DROP_NOMEM;
	in.packet = &w->packet;
	in.walk = &w->walk;
	in.clock = in.now + set->ts_offset;
	in.limit = w->packet.flags & (FIN | RST) ? limit_of(s->surrogate) : 0;
	verdict = read_client_packet(skb, w, idx, s);
	if (verdict)
		return verdict;
	if (may_be_old_connection(s, &w->packet) && cookie_ok(&w->cookie, &w->packet, w->packet.seq))
		return replace_session(skb, w, idx, s, in.now);
	if (may_begin_request(s, &w->packet)) /* the usual case: next_request checks under the lock */
		return BEGINS_REQUEST;
	if (s->flags & SPLICE_HOLD && w->packet.len && !(s->flags & SPLICE_UPCALL)) {
		verdict = hold_more(skb, &w->packet, &w->walk, s, &w->sum);
		if (verdict)
			return verdict;
	}
	verdict = split_request(skb, &w->packet, s, &w->sum);
	if (verdict)
		return verdict;
	verdict = read_repeated(skb, w, set, s, &in);
	if (verdict)
		return verdict;
	ns = l && w->packet.len ? bpf_ktime_get_ns() : 0;
	bpf_spin_lock(&s->lock);
	nxt = s->snd_nxt;
	next = client_event(s, &in, &w->out, &w->reply, &w->released);
	if (s->ins_len)
		introduce(s, &w->introduction);
	logged = l && is_in_stream(next) && log_client(l, s, &w->packet, nxt, skb->gso_segs, ns, &w->logged);
	bpf_spin_unlock(&s->lock);
	if (logged)
		put_log(&w->logged);
	return after_client(skb, w, set, idx, s, next, in.now);
}
