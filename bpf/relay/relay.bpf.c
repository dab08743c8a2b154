/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The relay's kernel programs: they steer intercepted packets to its listeners, report SYNs early, and set the initial windows of
 * trunks.
 */
#include <linux/pkt_cls.h>
#include "../wire/parse.h"
#include "../wire/write.h"
#include "command.h"
#include "early.h"
#include "entry.h"
#include "reopen.h"
#include "steer.h"
#include "trunk.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static __always_inline int syn_packet(struct __sk_buff *skb, const struct packet *p, const struct entry *e, __u32 *fate)
{
	struct bpf_sock *sk = connection_of(skb, p), *listener;
	int verdict = e->intercept ? STEERED_SYN : PASS;
	bool steered;

	if (sk && sk->state != BPF_TCP_TIME_WAIT) {
		/* retransmitted during the handshake, or on a live connection, which answers it (RFC 9293, section 3.10.7.4) */
		verdict = PASS;
		if (e->intercept)
			verdict = assign(skb, sk) ? STEERED : STEER_FAILED;
		goto out;
	}
	listener = listener_of(skb, p, e);
	if (!listener) {
		verdict = NO_LISTENER;
		goto out;
	}
	bpf_get_hash_recalc(skb); /* the reuseport group only reads the hash */
	if (e->early)
		verdict = early_syn(skb, p, e, listener, fate);
	if (e->intercept && *fate == FATE_PASS) {
		steered = sk ? reopen(skb, p, e, sk) : assign(skb, listener);
		if (!steered)
			verdict = STEER_FAILED;
	}
	bpf_sk_release(listener);
out:
	if (sk)
		bpf_sk_release(sk);
	return verdict;
}

static __always_inline int entry_packet(struct __sk_buff *skb, const struct packet *p, __u32 *fate)
{
	int verdict = 0, steered;
	struct entry *e;

	e = entry_of(p);
	if (!e)
		return PASS;
	if ((p->flags & (SYN | ACK | RST | FIN)) == SYN)
		return syn_packet(skb, p, e, fate);
	if (p->flags & RST && e->early)
		verdict = cancel(p);
	if (verdict == CANCELLED_HELD) {
		*fate = FATE_DROP;
		return verdict;
	}
	steered = e->intercept ? steer(skb, p, e) : PASS;
	return verdict ?: steered;
}

/* Turns a SYN into the reset that refuses it. Returns false without memory. */
static __always_inline bool refuse(struct __sk_buff *skb, const struct packet *p)
{
	struct segment reset;

	answer_reset(&reset, p);
	return write_segment(skb, &reset);
}

/* True for a readable TCP packet. A separate function, so that the verifier checks the code after it only once. */
__noinline int read_packet(struct __sk_buff *skb, struct packet *p)
{
	return p && parse(skb, p) == PARSED_TCP;
}

/* At the ingress of interfaces towards clients. Other packets go to the next program. */
SEC("tc")
int relay_ingress(struct __sk_buff *skb)
{
	__u32 fate = FATE_PASS;
	int verdict = PASS, action = TC_ACT_UNSPEC;
	struct packet p;

	if (read_packet(skb, &p))
		verdict = entry_packet(skb, &p, &fate);
	if (fate == FATE_RESET && !refuse(skb, &p)) {
		verdict = DROP_NOMEM;
		fate = FATE_DROP;
	}
	if (fate == FATE_RESET)
		action = bpf_redirect(skb->ifindex, 0);
	else if (fate == FATE_DROP)
		action = TC_ACT_SHOT;
	count(verdict);
	return action;
}

/* At the ingress of interfaces towards servers that see clients' addresses. */
SEC("tc")
int relay_return(struct __sk_buff *skb)
{
	struct packet p;

	count(read_packet(skb, &p) ? give_back(skb, &p) : PASS);
	return TC_ACT_UNSPEC;
}

/* Not attached: user space runs it on a struct syn_command. */
SEC("tc")
int relay_command(struct __sk_buff *skb)
{
	struct syn_sweep sweep = { .now = clock_ms() };
	struct settling settling = { .skb = skb };
	struct syn_command c;

	if (bpf_skb_load_bytes(skb, 0, &c, sizeof(c)))
		return TC_ACT_SHOT;
	switch (c.kind) {
	case COMMAND_SETTLE:
		bpf_loop(c.count, settle_step, &settling, 0);
		c.result = settling.settled;
		break;
	case COMMAND_SWEEP:
		sweep.expire = c.expire;
		bpf_for_each_map_elem(&syns, sweep_step, &sweep, 0);
		c.result = sweep.settled;
		break;
	}
	bpf_skb_store_bytes(skb, 0, &c, sizeof(c), 0);
	return TC_ACT_OK;
}

/* Not attached: user space runs it on the frame of a held SYN, which goes in again by its interface and meets the decision there. */
SEC("tc")
int relay_replay(struct __sk_buff *skb)
{
	struct packet p;

	return read_packet(skb, &p) ? replay(skb, &p, skb->cb[0]) : REPLAY_GONE;
}

/* In the relay's network namespace, when the stack looks up a listener. */
SEC("sk_lookup")
int relay_lookup(struct bpf_sk_lookup *ctx)
{
	find_listener(ctx);
	return SK_PASS;
}

/* In the cgroup of the relay's process. */
SEC("sockops")
int relay_trunk(struct bpf_sock_ops *ops)
{
	struct flight *f;
	__u32 *place;
	struct trunk *t;

	switch (ops->op) {
	case BPF_SOCK_OPS_RWND_INIT:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		if (bpf_get_netns_cookie(ops) != own_netns)
			return 1;
		/* accepted ones are not full sockets before they are established */
		place = ops->op == BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB ||
					(ops->op == BPF_SOCK_OPS_RWND_INIT && ops->is_fullsock)
				? opened(ops)
				: accepted(ops);
		if (!place)
			return 1;
		if (ops->op != BPF_SOCK_OPS_RWND_INIT) {
			begin(ops, place);
			return 1;
		}
		t = bpf_map_lookup_elem(&trunks, place);
		if (t && t->receive)
			ops->reply = t->receive;
		return 1;
	case BPF_SOCK_OPS_RETRANS_CB:
		f = flight_of(ops);
		if (f)
			retransmitted(ops, f);
		return 1;
	case BPF_SOCK_OPS_RTT_CB:
		f = flight_of(ops);
		if (f && !f->over)
			acknowledged(ops, f);
		return 1;
	case BPF_SOCK_OPS_STATE_CB:
		f = ops->args[1] == BPF_TCP_CLOSE ? flight_of(ops) : NULL;
		if (f && !f->over)
			count_flight(ops, f);
		return 1;
	}
	return 1;
}

/* Keeps the types in the object, for the generated Go code. */
const enum bound *bound_type __attribute__((unused));
const enum verdict *verdict_type __attribute__((unused));
const enum early_kind *early_kind_type __attribute__((unused));
const enum syn_state *syn_state_type __attribute__((unused));
const enum event_kind *event_kind_type __attribute__((unused));
const enum command_kind *command_kind_type __attribute__((unused));
const enum replay_kind *replay_kind_type __attribute__((unused));
const enum replay_result *replay_result_type __attribute__((unused));
const enum trunk_kind *trunk_kind_type __attribute__((unused));
const struct syn_event *syn_event_type __attribute__((unused));
const struct held_event *held_event_type __attribute__((unused));
const struct syn_key *syn_key_type __attribute__((unused));
const struct syn_command *syn_command_type __attribute__((unused));
