/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Packets from surrogates. */
#pragma once

#include "../session/opening.h"
#include "../session/server.h"
#include "insertion.h"
#include "responses.h"
#include "session.h"

static __always_inline int send_to_client(struct __sk_buff *skb, struct inbound *in, struct outbound *out,
					  struct splice *s, __u32 now)
{
	int err;

	if (hop_is_old(&out->translation.hop, now) && resolve(skb, &out->translation, &out->fib, in->packet.v6, now)) {
		bpf_spin_lock(&s->lock);
		if (same_tuple(&s->server, &in->packet.key) && s->to_client.ifindex)
			s->to_client = out->translation.hop;
		bpf_spin_unlock(&s->lock);
	}
	if (is_too_big(skb, &in->packet, &out->translation.hop))
		return refuse_size(&in->packet, &s->told, out->translation.hop.mtu, now);
	err = rewrite(skb, &in->packet, &out->translation, &in->option);
	if (err)
		return -err;
	out->action = redirect(&out->translation.hop);
	return TO_CLIENT;
}

/* The response to our SYN. */
__noinline int leg_up(struct __sk_buff *skb, struct inbound *in, struct outbound *out, __u32 idx)
{
	struct config *set = config();
	struct splice *s = splice_at(idx);
	struct input event = { .now = clock_ms() };
	__u32 next, surrogate, leg_class;

	if (!in || !out || !s || !set)
		return DROP_NOMEM;
	begin_event(&event, in, set);
	in->packet.plain = 0;
	if (in->packet.options && !read_options(skb, &in->packet, &in->option.now))
		return DROP_BAD_OPTIONS;
	if (!checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	bpf_spin_lock(&s->lock);
	next = opening_event(s, &event, &out->reply);
	surrogate = s->surrogate;
	leg_class = s->leg_class;
	bpf_spin_unlock(&s->lock);
	switch (next) {
	case OPENING_RESET:
		report(EVENT_LEG_STALE, 0, idx, s, event.now);
		return reset_sender(skb, in, out);
	case OPENING_REFUSED:
		report(EVENT_LEG_DOWN, LEG_REFUSED, idx, s, event.now);
		return CONSUMED;
	case OPENING_ANSWERED:
		report(EVENT_LEG_ANSWERED, 0, idx, s, event.now);
		return LEG_ANSWERED;
	case OPENING_UP:
		report(EVENT_LEG_UP, 0, idx, s, event.now);
		leg_class &= LEG_CLASSES - 1;
		count_idle(surrogate, leg_class, BAND_NONE, 1);
		push_leg(surrogate, leg_class, BAND_NONE, idx);
		return send_back(skb, out, LEG_UP);
	}
	return DROP_STALE;
}

/* After the lock: accounts for an idle leg that has died. */
static __always_inline void idle_leg_over(__u32 idx, struct splice *s, __u32 end, __u32 now)
{
	count_idle(s->surrogate, s->leg_class, s->band, -1);
	report(EVENT_LEG_DOWN, end, idx, s, now);
}

/* Whether a route to the leg's surrogate uses the interface. */
static __always_inline bool leads_to(const struct splice *s, __u32 ifindex)
{
	struct path_key path = { .surrogate = s->surrogate, .ifindex = ifindex };

	return ifindex == s->to_server.ifindex || bpf_map_lookup_elem(&paths, &path);
}

/* Parses the packet before the session is locked. Returns 0, or a verdict. */
static __always_inline int read_server_packet(struct __sk_buff *skb, struct inbound *in, struct reading *reading,
					      __u32 idx, const struct splice *s)
{
	struct packet *p = &in->packet;
	bool walk = p->len && read_on(s->response);

	if (p->ttl <= 1)
		return DROP_TTL;
	if (!p->plain && !read_options(skb, &in->packet, &in->option.now))
		return DROP_BAD_OPTIONS;
	if (!(p->flags & (SYN | RST | ACK)))
		return DROP_BAD_FLAGS;
	if ((p->flags & (SYN | FIN | RST) || walk) && !checksum_ok(skb, &in->packet, &in->sum))
		return DROP_BAD_CHECKSUM;
	in->walk.from = FRAMING_QUIET; /* no walk */
	if (walk)
		walk_response(skb, p, idx, &in->walk, reading);
	return 0;
}

/* Carries out the result of server_event. */
static __always_inline int after_server(struct __sk_buff *skb, struct inbound *in, struct outbound *out,
					const struct config *set, __u32 idx, struct splice *s, __u32 next, __u32 now)
{
	switch (next) {
	case SERVER_STALE:
		return DROP_STALE;
	case SERVER_OUTSIDE:
		return DROP_WINDOW;
	case SERVER_GAP:
		return DROP_GAP;
	case SERVER_RACE:
		return DROP_RACE;
	case SERVER_NOTHING:
		return CONSUMED;
	case SERVER_ACK:
		return send_back(skb, out, in->packet.len ? DROP_OLD_BYTES : LEG_ACKED);
	case SERVER_INSERT:
		if (!rebuild_header(&out->own, idx) || !write_payload(skb, &out->reply, &out->own.payload))
			return DROP_NOMEM;
		out->action = bpf_redirect(skb->ifindex, 0);
		return INSERTED_AGAIN;
	case SERVER_IDLE_CLOSED:
		idle_leg_over(idx, s, LEG_CLOSED_IDLE, now);
		return reset_sender(skb, in, out);
	case SERVER_RESET:
		return reset_sender(skb, in, out);
	case SERVER_FAILED:
		remember_client(s, set, now);
		end_session(idx, s, LEG_FAILED, now);
		return reset_sender(skb, in, out);
	case SERVER_UNSOLICITED:
		end_session(idx, s, LEG_CUT, now);
		return reset_sender(skb, in, out);
	case SERVER_REFUSED:
		report(EVENT_LEG_DOWN, LEG_REFUSED, idx, s, now);
		return CONSUMED;
	case SERVER_IDLE_OVER:
		idle_leg_over(idx, s, LEG_RESET_IDLE, now);
		return CONSUMED;
	case SERVER_CLOSED:
		end_session(idx, s, LEG_CLOSED, now);
		break;
	case SERVER_OVER:
		end_session(idx, s, LEG_SERVER_RESET, now);
		break;
	}
	return send_to_client(skb, in, out, s, now);
}

__noinline int server_packet(struct __sk_buff *skb, struct work *w, __u32 idx)
{
	struct config *set = config();
	struct splice *s = splice_at(idx);
	struct input event = { .now = clock_ms() };
	struct request_log *l = log_at(idx);
	struct outbound *out;
	struct inbound *in;
	__u32 next, nxt;
	__u8 response;
	__u64 ns;
	int verdict;

	if (!w || !s || !set)
		return DROP_NOMEM;
	in = &w->in;
	out = &w->out;
	hide(out); /* else clang keeps its place in w on the stack, and loads that for each use */
	begin_event(&event, in, set);
	if (!leads_to(s, skb->ifindex))
		return DROP_INTERFACE;
	if (s->state == SPLICE_OPENING)
		return leg_up(skb, in, out, idx);
	verdict = read_server_packet(skb, in, &w->deciding.reading, idx, s);
	if (verdict)
		return verdict;
	ns = l ? bpf_ktime_get_ns() : 0;
	bpf_spin_lock(&s->lock);
	nxt = s->rcv_nxt;
	response = s->response;
	next = server_event(s, &event, &out->translation, &out->reply);
	if (next == SERVER_INSERT)
		introduce(s, &out->own.introduction);
	if (l && (next == SERVER_SEND || next == SERVER_OVER || next == SERVER_CLOSED))
		log_server(l, s, &event, nxt, response, skb->gso_segs, ns);
	bpf_spin_unlock(&s->lock);
	return after_server(skb, in, out, set, idx, s, next, event.now);
}
