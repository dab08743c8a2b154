/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is remembered of a connection's silence, and reported of it. */
#pragma once

#include "../kernel/sock.h"
#include "policy.h"

/*
 * States in which the server's own host still wants an acknowledgement of data or of a FIN. All but the first two may be orphans: the
 * application has closed them.
 */
static __always_inline bool wants_answer(__u32 state)
{
	if (state == BPF_TCP_ESTABLISHED || state == BPF_TCP_CLOSE_WAIT)
		return true;
	return orphans && (state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_LAST_ACK || state == BPF_TCP_CLOSING);
}

#define MOST_LEVELS 64 /* of control groups within each other */

/* Whether the socket belongs to a control group that the programs are attached to, or to one below it. */
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

/* Of a full socket. */
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

/* Whether nothing was heard since the silence was noted. */
static __always_inline bool still(const struct silence *s, const struct tcp_sock *tp)
{
	return s->heard == tp->rcv_tstamp && s->una == tp->snd_una && s->rcv == tp->rcv_nxt;
}

/* How many ms ago the client was heard of. */
static __always_inline __u32 quiet_ms(const struct tcp_sock *tp)
{
	__u32 now = bpf_jiffies64(), acked = now - tp->rcv_tstamp, sent = now - tp->inet_conn.icsk_ack.lrcvtime;

	return jiffies_ms(acked < sent ? acked : sent);
}

static __always_inline int report(struct silence *s, const struct tcp_sock *tp, const struct mark *m)
{
	if (bpf_ringbuf_output(&marks, (void *)m, sizeof(*m), 0))
		return MARK_LOST;
	s->marked = m->policy;
	return MARKED;
}

/*
 * A timeout of rto ms has run out, or, when the connection was found, has done so as the last one of found. m has the cookie and kind.
 */
static __always_inline int expired(struct silence *s, const struct tcp_sock *tp, __u32 rto, __u32 found, struct mark *m)
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
	/* of those that were found, each timeout was twice as long as the one before (RFC 6298, 5.5) */
	unanswered = found ? 2 * rto - (rto >> ((found - 1) & 31)) : rto;
	if (found && quiet < rto)
		return RETRYING; /* it was heard of since, though nothing new was acknowledged */
	if (!s->count || !still(s, tp)) {
		s->cookie = m->cookie;
		s->heard = tp->rcv_tstamp;
		s->una = tp->snd_una;
		s->rcv = tp->rcv_nxt;
		/* a repeated acknowledgement sets no timeout anew */
		s->began = now - (quiet < unanswered ? quiet : unanswered);
		s->count = found;
		s->turn++;
		s->marked = 0;
	}
	if (!found)
		s->count++;
	if (s->marked && (!found || s->marked == p->id)) /* another policy may have spared it */
		return MARKED_BEFORE;
	m->expiry = (struct expiry){ .count = s->count, .rto = rto, .silent = now - s->began };
	m->policy = p->id;
	m->turn = s->turn;
	m->srtt = tp->srtt_us >> 3;
	m->within = dormant_in(p, &m->expiry);
	if (m->within == NEVER)
		return RETRYING;
	return report(s, tp, m);
}
