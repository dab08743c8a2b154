/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Tracks and reports connections whose client does not respond. */
#pragma once

#include "../kernel/sock.h"
#include "policy.h"

/*
 * States in which this host still waits for an acknowledgement of data or of a FIN. All but the first two may be orphans, which the
 * application has closed.
 */
static __always_inline bool wants_answer(__u32 state)
{
	if (state == BPF_TCP_ESTABLISHED || state == BPF_TCP_CLOSE_WAIT)
		return true;
	return orphans && (state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_LAST_ACK || state == BPF_TCP_CLOSING);
}

#define MOST_LEVELS 64 /* of nested control groups */

/* Whether the socket belongs to a control group that the programs are attached to, or to a descendant of one. */
static __always_inline bool in_groups(const struct tcp_sock *tp)
{
	const struct cgroup *c = tp->inet_conn.icsk_inet.sk.sk_cgrp_data.cgroup;

	for (int level = 0; c && level < MOST_LEVELS; level++) {
		const struct cgroup_subsys_state *parent = c->self.parent;
		__u64 id = c->kn->id;

		if (bpf_map_lookup_elem(&groups, &id))
			return true;
		if (!parent)
			break;
		c = parent->cgroup;
	}
	return false;
}

/* For a full socket. */
static __always_inline void tuple_of(const struct tcp_sock *tp, struct tuple *t)
{
	const struct sock_common *sk = &tp->inet_conn.icsk_inet.sk.__sk_common;

	t->sport = sk->skc_dport;
	t->dport = bpf_htons(sk->skc_num);
	if (sk->skc_family == AF_INET) {
		map_addr(t->src, sk->skc_daddr);
		map_addr(t->dst, sk->skc_rcv_saddr);
		return;
	}
	for (int i = 0; i < 16; i++) {
		t->src[i] = sk->skc_v6_daddr.in6_u.u6_addr8[i];
		t->dst[i] = sk->skc_v6_rcv_saddr.in6_u.u6_addr8[i];
	}
}

/* Whether the client has not responded since the period was recorded. */
static __always_inline bool still(const struct unresponsive *s, const struct tcp_sock *tp)
{
	return s->heard == tp->rcv_tstamp && s->una == tp->snd_una && s->rcv == tp->rcv_nxt;
}

/* ms since the last packet from the client. */
static __always_inline __u32 quiet_ms(const struct tcp_sock *tp)
{
	__u32 now = bpf_jiffies64(), acked = now - tp->rcv_tstamp, sent = now - tp->inet_conn.icsk_ack.lrcvtime;

	return jiffies_ms(acked < sent ? acked : sent);
}

static __always_inline int report(struct unresponsive *s, const struct tcp_sock *tp, const struct mark *m)
{
	if (bpf_ringbuf_output(&marks, (void *)m, sizeof(*m), 0))
		return MARK_LOST;
	s->marked = m->policy;
	return MARKED;
}

/*
 * Handles an expired timeout of rto ms or, for a connection that was found, the last of found timeouts. m has the cookie and kind.
 */
static __always_inline int expired(struct unresponsive *s, const struct tcp_sock *tp, __u32 rto, __u32 found,
				   struct mark *m)
{
	bool spared = false;
	struct policy *p;
	__u32 now = exact_ms(), quiet = quiet_ms(tp), unanswered;

	m->state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	if (!wants_answer(m->state))
		return CLOSING;
	m->ifindex = tp->inet_conn.icsk_inet.sk.__sk_common.skc_bound_dev_if;
	tuple_of(tp, &m->tuple);
	p = policy_of(&m->tuple, &spared);
	if (!p)
		return NO_POLICY;
	if (spared)
		return EXEMPT;
	if (!tp->snd_wnd)
		return SHUT;
	/* each of the found timeouts was twice as long as the one before (RFC 6298, 5.5) */
	unanswered = found ? 2 * rto - (rto >> ((found - 1) & 31)) : rto;
	if (found && quiet < rto)
		return RETRYING; /* the client responded since, without acknowledging anything new */
	if (!s->count || !still(s, tp)) {
		s->cookie = m->cookie;
		s->heard = tp->rcv_tstamp;
		s->una = tp->snd_una;
		s->rcv = tp->rcv_nxt;
		/* a duplicate acknowledgement does not restart the timeout */
		s->began = now - (quiet < unanswered ? quiet : unanswered);
		s->count = found;
		s->period++;
		s->marked = 0;
	}
	if (!found)
		s->count++;
	if (s->marked && (!found || s->marked == p->id)) /* another policy may have exempted it */
		return MARKED_BEFORE;
	m->expiry = (struct expiry){ .count = s->count, .rto = rto, .unresponsive = now - s->began };
	m->policy = p->id;
	m->period = s->period;
	m->srtt = tp->srtt_us >> 3;
	m->within = dormant_in(p, &m->expiry);
	if (m->within == NEVER)
		return RETRYING;
	return report(s, tp, m);
}
