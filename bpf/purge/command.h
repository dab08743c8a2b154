/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The check that user space makes before it ends a connection. */
#pragma once

#include "../kernel/sockets.h"
#include "watch.h"

static __always_inline int answer_of(struct bpf_sock *sk, struct question *q)
{
	struct tcp_sock *tp = (void *)bpf_skc_to_tcp_sock(sk);
	struct unresponsive *s;

	s = tp ? bpf_sk_storage_get(&unresponsive, tp, NULL, 0) : NULL;
	if (!s || s->cookie != q->cookie)
		return ANSWER_GONE;
	q->state = tp->inet_conn.icsk_inet.sk.__sk_common.skc_state;
	if (!wants_answer(q->state))
		return ANSWER_GONE;
	q->snd_una = tp->snd_una;
	q->snd_nxt = tp->snd_nxt;
	q->rcv_nxt = tp->rcv_nxt;
	return s->marked && s->period == q->period && still(s, tp) ? ANSWER_UNRESPONSIVE : ANSWER_HEARD;
}

static long question_step(__u32 i, struct __sk_buff **skb)
{
	__u32 at = sizeof(struct inquiry) + i * sizeof(struct question);
	struct question q;
	struct bpf_sock *sk;

	if (bpf_skb_load_bytes(*skb, at, &q, sizeof(q)))
		return 1;
	q.answer = ANSWER_GONE;
	sk = socket_between(*skb, !is_mapped(q.tuple.src), q.tuple.src, q.tuple.sport, q.tuple.dst, q.tuple.dport);
	if (sk) {
		q.answer = answer_of(sk, &q);
		bpf_sk_release(sk);
	}
	return bpf_skb_store_bytes(*skb, at, &q, sizeof(q), 0) != 0;
}
