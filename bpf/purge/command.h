/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space asks before it ends a connection. */
#pragma once

#include "watch.h"

/* The socket of a server's connection. The caller releases it. */
static __always_inline struct bpf_sock *socket_of(struct __sk_buff *skb, const struct tuple *t)
{
	const __u32 *src = (const __u32 *)t->src, *dst = (const __u32 *)t->dst;
	struct bpf_sock_tuple tuple = {};

	if (!src[0] && !src[1] && src[2] == bpf_htonl(0xffff)) {
		tuple.ipv4.saddr = src[3];
		tuple.ipv4.daddr = dst[3];
		tuple.ipv4.sport = t->sport;
		tuple.ipv4.dport = t->dport;
		return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
	}
	copy_addr(tuple.ipv6.saddr, src);
	copy_addr(tuple.ipv6.daddr, dst);
	tuple.ipv6.sport = t->sport;
	tuple.ipv6.dport = t->dport;
	return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
}

static __always_inline int answer(struct bpf_sock *sk, struct question *q)
{
	struct tcp_sock *tp = (void *)bpf_skc_to_tcp_sock(sk);
	struct silence *s;

	s = tp ? bpf_sk_storage_get(&silences, tp, NULL, 0) : NULL;
	if (!s || s->cookie != q->cookie)
		return ANSWER_GONE;
	q->state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	if (!wants_answer(q->state))
		return ANSWER_GONE;
	q->snd_una = tp->snd_una;
	q->snd_nxt = tp->snd_nxt;
	q->rcv_nxt = tp->rcv_nxt;
	return s->marked && s->turn == q->turn && still(s, tp) ? ANSWER_SILENT : ANSWER_HEARD;
}

static long question_step(__u32 i, struct __sk_buff **skb)
{
	__u32 at = sizeof(struct command) + i * sizeof(struct question);
	struct question q;
	struct bpf_sock *sk;

	if (bpf_skb_load_bytes(*skb, at, &q, sizeof(q)))
		return 1;
	q.answer = ANSWER_GONE;
	sk = socket_of(*skb, &q.tuple);
	if (sk) {
		q.answer = answer(sk, &q);
		bpf_sk_release(sk);
	}
	return bpf_skb_store_bytes(*skb, at, &q, sizeof(q), 0) != 0;
}
