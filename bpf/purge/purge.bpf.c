/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Finds a server's connections that retransmit without a response because the client has moved away. User space ends the marked ones,
 * and checks right before that they are still unresponsive.
 */
#include <linux/pkt_cls.h>
#include "command.h"

char _license[] SEC("license") = "Dual BSD/GPL";

#define SOL_TCP                   6
#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008

static __always_inline int established(struct bpf_sock_ops *ops, const struct tcp_sock *tp)
{
	struct tuple t = {};
	bool spared = false;

	tuple_of(tp, &t);
	if (!policy_of(&t, &spared))
		return UNWATCHED;
	if (bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RTO_CB_FLAG))
		return WATCH_FAILED;
	return WATCHED;
}

static __always_inline int timeout(struct bpf_sock_ops *ops, struct tcp_sock *tp)
{
	struct mark m = { .kind = MARK_EXPIRED, .cookie = bpf_get_socket_cookie(ops) };
	struct unresponsive *s = bpf_sk_storage_get(&unresponsive, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);

	return s ? expired(s, tp, jiffies_ms(ops->args[1]), 0, &m) : NO_MEMORY;
}

/* Attached to a control group: sees all connections that its processes accept. */
SEC("sockops")
int purge_watch(struct bpf_sock_ops *ops)
{
	struct tcp_sock *tp = NULL;
	struct bpf_sock *sk;
	int verdict;

	if (ops->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB && ops->op != BPF_SOCK_OPS_RTO_CB)
		return 1;
	sk = ops->sk;
	if (sk)
		tp = (void *)bpf_skc_to_tcp_sock(sk);
	if (bpf_get_netns_cookie(ops) != own_netns)
		verdict = ELSEWHERE;
	else if (!tp)
		verdict = CLOSING;
	else
		verdict = ops->op == BPF_SOCK_OPS_RTO_CB ? timeout(ops, tp) : established(ops, tp);
	count(verdict);
	return 1;
}

/*
 * User space runs it over all connections of the network namespace, for those in its control groups that are older than the
 * programs.
 */
SEC("iter/tcp")
int purge_arm(struct bpf_iter__tcp *ctx)
{
	struct sock_common *sk = ctx->sk_common;
	struct mark m = { .kind = MARK_FOUND };
	struct tuple t = {};
	struct tcp_sock *tp;
	struct unresponsive *s;
	bool spared = false;
	int flags, verdict;

	if (!sk)
		return 0;
	tp = (void *)bpf_skc_to_tcp_sock(sk);
	if (!tp || !wants_answer(tp->inet_conn.icsk_inet.sk.__sk_common.skc_state))
		return 0;
	tuple_of(tp, &t);
	if (!policy_of(&t, &spared) || !in_groups(tp))
		return 0;
	flags = tp->bpf_sock_ops_cb_flags;
	verdict = ARMED;
	if (!(flags & BPF_SOCK_OPS_RTO_CB_FLAG)) {
		flags |= BPF_SOCK_OPS_RTO_CB_FLAG;
		if (bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &flags, sizeof(flags)))
			verdict = WATCH_FAILED;
	}
	count(verdict);
	if (!tp->inet_conn.icsk_retransmits)
		return 0;
	s = bpf_sk_storage_get(&unresponsive, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	verdict = NO_MEMORY;
	if (s) {
		m.cookie = bpf_get_socket_cookie(tp);
		/* the current timeout is twice as long as the one that has expired */
		verdict = expired(s, tp, jiffies_ms(tp->inet_conn.icsk_rto) / 2, tp->inet_conn.icsk_retransmits, &m);
	}
	count(verdict);
	return 0;
}

/* Not attached: user space runs it with a struct inquiry. */
SEC("tc")
int purge_command(struct __sk_buff *skb)
{
	struct inquiry c;

	if (bpf_skb_load_bytes(skb, 0, &c, sizeof(c)))
		return TC_ACT_SHOT;
	bpf_loop(c.count, question_step, &skb, 0);
	return TC_ACT_OK;
}

/* Keeps types in the object that the Go side is generated from. */
const enum bound *bound_type __attribute__((unused));
const enum verdict *verdict_type __attribute__((unused));
const enum mark_kind *mark_kind_type __attribute__((unused));
const enum answer_kind *answer_kind_type __attribute__((unused));
const struct mark *mark_type __attribute__((unused));
const struct question *question_type __attribute__((unused));
const struct inquiry *inquiry_type __attribute__((unused));
