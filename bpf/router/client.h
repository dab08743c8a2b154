/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets from spliced clients. */
#pragma once

#include "../session/client.h"
#include "../session/move.h"
#include "hold.h"
#include "insertion.h"
#include "plan.h"
#include "session.h"
#include "syn_options.h"
#include "upcall.h"
#include "walk.h"

/*
 * The client has closed cleanly. Answers its FIN, acknowledges the response to the surrogate on its behalf, and leaves
 * the leg to the next client. out->translation is the translated FIN; out->reply is filled.
 */
static __always_inline int end_client(struct __sk_buff *skb, struct outbound *out)
{
	if (!write_segment(skb, &out->reply))
		return DROP_NOMEM;
	bpf_clone_redirect(skb, skb->ifindex, 0);
	ack_like(&out->reply, &out->translation)->seq = out->translation.seq;
	if (!write_segment(skb, &out->reply))
		return DROP_NOMEM;
	out->action = redirect(&out->translation.hop);
	return RECYCLED;
}

/* Sends a packet that the client repeats with the insertion, which the surrogate may lack. */
static __always_inline int send_with_insertion(struct __sk_buff *skb, struct inbound *in, struct outbound *out,
					       const struct vip *vip, struct splice *s, __u32 idx, __u32 now)
{
	struct own_bytes *own = &out->own;
	__u32 inserted = own->introduction.len;

	if (!own->introduction.head) {
		if (!rebuild_header(own, idx))
			return send_to_server(skb, in, out, s, now, TO_SERVER);
		return send_behind(skb, in, out, s, now, TO_SERVER);
	}
	if (!edit_head(skb, &in->packet, &own->introduction, &own->payload, &own->edited) ||
	    own->edited.len != own->introduction.head + inserted)
		return DROP_RACE; /* the edit has been replaced */
	return send_head(skb, in, out, vip, s, now, TO_SERVER);
}

/* The packet starts a connection on a port that still has a session. Ends that session; the client retransmits. */
static __always_inline int replace_session(struct __sk_buff *skb, struct inbound *in, __u32 idx, struct splice *s,
					   __u32 now)
{
	bool over;

	if (!checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	bpf_spin_lock(&s->lock);
	over = replaced_event(s, &in->packet, now);
	bpf_spin_unlock(&s->lock);
	if (over)
		end_session(idx, s, LEG_REPLACED, now);
	return DROP_RACE;
}

/* Parses the packet before the session is locked. Returns 0, or a verdict. */
static __always_inline int read_client_packet(struct __sk_buff *skb, struct inbound *in, __u32 idx,
					      const struct splice *s)
{
	struct packet *p = &in->packet;
	bool walk = p->len && walked(s->request);

	if (p->ttl <= 1)
		return DROP_TTL;
	if (!p->plain && !read_options(skb, &in->packet, &in->option.now))
		return DROP_BAD_OPTIONS;
	if (!(p->flags & (SYN | RST | ACK)))
		return DROP_BAD_FLAGS;
	if ((p->flags & (SYN | FIN | RST) || walk) && !checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	in->walk.from = FRAMING_QUIET; /* no walk */
	in->walk.bad = in->walk.hidden = 0;
	in->walk.behind = 0;
	if (walk)
		walk_request(skb, p, idx, &in->walk);
	return 0;
}

/* Reads a head that the client repeats while it is open. Returns 0, or a verdict. */
static __always_inline int read_repeated(struct __sk_buff *skb, struct inbound *in, struct deciding *d,
					 struct edited *at, const struct config *set, const struct splice *s,
					 struct input *event)
{
	event->reread = begins_head(s, &in->packet);
	if (!event->reread)
		return 0;
	if (!checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	if (read_again(skb, &in->packet, d, at, s->header)) {
		event->head = d->reading.scan.size;
		event->sum = digest(&d->reading.scan, set->salt);
		event->request = length_of(&d->reading.scan);
	}
	return 0;
}

/* The client's FIN closes its session cleanly. */
static __always_inline int recycle_by_fin(struct __sk_buff *skb, const struct packet *p, struct outbound *out,
					  const struct released_leg *leg, __u32 idx, struct splice *s, __u32 now)
{
	__u32 tsval = out->reply.tsval;
	struct segment *r = reply_to(&out->reply, p, FIN | ACK, p->ack, p->seq + 1);

	linger(&p->key, SIDE_LINGER, p->seq + p->len + 1, BPF_EXIST, now);
	r->with_ts = out->translation.keep_ts && has_ts(p);
	r->tsval = tsval;
	r->tsecr = p->tsval;
	if (hop_is_old(&out->translation.hop, now))
		resolve(skb, &out->translation, &out->fib, p->v6, now);
	recycle(leg, idx, s, now);
	return end_client(skb, out);
}

/* The packet is behind a request that user space decides, or has decided. */
static __always_inline int behind_upcall(const struct packet *p, struct deciding *d, struct outbound *out,
					 const struct config *set, struct splice *s)
{
	switch (lookup_client(&p->key, &d->known)) {
	case KNOWN:
		return d->known.state == CLIENT_UPCALL ? to_user_space(out, set) : behind_replay(out, set, &d->known);
	case KNOWN_CHANGING:
		return DROP_RACE;
	}
	bpf_spin_lock(&s->lock);
	unask_event(s, p);
	bpf_spin_unlock(&s->lock);
	return DROP_EARLY;
}

/* Carries out the result of client_event. */
static __always_inline int after_client(struct __sk_buff *skb, struct inbound *in, struct deciding *d,
					struct outbound *out, const struct released_leg *leg, const struct config *set,
					__u32 idx, struct splice *s, __u32 next, __u32 now)
{
	switch (next) {
	case NEXT_STALE:
		return DROP_STALE; /* it moved or is closing: a SYN will be retransmitted */
	case NEXT_RACE:
		return DROP_RACE;
	case NEXT_REQUEST:
		return BEGINS_REQUEST;
	case NEXT_UPCALL:
		return behind_upcall(&in->packet, d, out, set, s);
	case NEXT_EARLY:
		return DROP_EARLY;
	case NEXT_OUTSIDE:
		return DROP_WINDOW;
	case NEXT_CUT:
		end_session(idx, s, LEG_CUT, now);
		return reset_sender(skb, in, out);
	case NEXT_MALFORMED: /* user space replies */
		end_session(idx, s, LEG_MALFORMED, now);
		return DROP_MALFORMED;
	case NEXT_CHALLENGE:
		return send_back(skb, out, CHALLENGED);
	case NEXT_RECYCLE:
		return recycle_by_fin(skb, &in->packet, out, leg, idx, s, now);
	case NEXT_RECYCLE_RESET:
		linger(&in->packet.key, SIDE_LINGER, in->packet.seq, BPF_EXIST, now);
		recycle(leg, idx, s, now);
		return RECYCLED;
	case NEXT_RESET:
		end_session(idx, s, LEG_CLIENT_RESET, now);
		break;
	case NEXT_OVER:
		end_session(idx, s, LEG_CLOSED, now);
		break;
	}
	return out->translation.insert ? send_with_insertion(skb, in, out, &d->routing.vip, s, idx, now)
				       : send_to_server(skb, in, out, s, now, TO_SERVER);
}

/* Whether the packet is part of the session's stream, and has changed its record. */
static __always_inline bool is_in_stream(__u32 next)
{
	return next == NEXT_SEND || next == NEXT_RECYCLE || next == NEXT_RECYCLE_RESET || next == NEXT_RESET ||
	       next == NEXT_OVER;
}

__noinline int client_packet(struct __sk_buff *skb, struct work *w, __u32 idx)
{
	struct config *set = config();
	struct splice *s = splice_at(idx);
	struct input event = { .now = clock_ms() };
	struct request_log *l = log_at(idx);
	struct leaving *leaving;
	struct outbound *out;
	struct inbound *in;
	__u32 next, nxt;
	__u64 ns;
	bool logged;
	int verdict;

	if (!w || !s || !set)
		return DROP_NOMEM;
	in = &w->in;
	out = &w->out;
	leaving = &w->leaving;
	begin_event(&event, in, set);
	event.limit = in->packet.flags & (FIN | RST) ? limit_of(s->surrogate) : 0;
	verdict = read_client_packet(skb, in, idx, s);
	if (verdict)
		return verdict;
	if (may_be_old_connection(s, &in->packet) && cookie_ok(&in->cookie, &in->packet, in->packet.seq))
		return replace_session(skb, in, idx, s, event.now);
	if (may_begin_request(s, &in->packet)) /* the usual case: next_request checks under the lock */
		return BEGINS_REQUEST;
	if (s->flags & SPLICE_HOLD && in->packet.len && !(s->flags & SPLICE_UPCALL)) {
		verdict = hold_more(skb, &in->packet, &in->walk, s, &in->sum);
		if (verdict)
			return verdict;
	}
	verdict = split_request(skb, &in->packet, s, &in->sum);
	if (verdict)
		return verdict;
	verdict = read_repeated(skb, in, &w->deciding, &out->own.edited, set, s, &event);
	if (verdict)
		return verdict;
	ns = l && in->packet.len ? bpf_ktime_get_ns() : 0;
	bpf_spin_lock(&s->lock);
	nxt = s->snd_nxt;
	next = client_event(s, &event, &out->translation, &out->reply, &leaving->released);
	if (s->ins_len)
		introduce(s, &out->own.introduction);
	logged = l && is_in_stream(next) && log_client(l, s, &in->packet, nxt, skb->gso_segs, ns, &leaving->logged);
	bpf_spin_unlock(&s->lock);
	if (logged)
		put_log(&leaving->logged);
	return after_client(skb, in, &w->deciding, out, &leaving->released, set, idx, s, next, event.now);
}
