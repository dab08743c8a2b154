/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The slow path: the packet alone goes to user space for a decision, or the whole connection to an ordinary socket. */
#pragma once

#include "../kernel/sock.h"
#include "../kernel/sockets.h"
#include "syn_options.h"
#include "sources.h"
#include "work.h"

/* Linux 6.9: include/net/tcp.h, struct bpf_tcp_req_attrs */
struct bpf_tcp_req_attrs {
	__u32 rcv_tsval;
	__u32 rcv_tsecr;
	__u16 mss;
	__u8 rcv_wscale;
	__u8 snd_wscale;
	__u8 ecn_ok;
	__u8 wscale_ok;
	__u8 sack_ok;
	__u8 tstamp_ok;
	__u8 usec_ts_ok;
	__u8 reserved[3];
};

/* NULL before Linux 6.9. */
extern int bpf_sk_assign_tcp_reqsk(struct __sk_buff *skb, struct sock *sk, struct bpf_tcp_req_attrs *attrs,
				   int attrs__sz) __weak __ksym;

/* Sends the first packet of a request to user space and keeps its client until the decision. */
static __always_inline int upcall(struct __sk_buff *skb, const struct packet *p, struct client *c, struct outbound *out,
				  const struct config *set, __u32 now)
{
	bool first;

	if (!set->tap)
		return DROP_NO_TAP;
	c->state = CLIENT_UPCALL;
	c->ifindex = skb->ifindex;
	c->since = now;
	c->seq = p->seq;
	c->ack = p->ack;
	first = !bpf_map_lookup_elem(&clients, &p->key);
	if (first && source_full(&p->key, set))
		return DROP_SOURCE_FULL;
	if (bpf_map_update_elem(&clients, &p->key, c, BPF_ANY))
		return DROP_PENDING_FULL;
	if (first)
		count_client(&p->key, set, 1);
	return to_user_space(out, set);
}

/* How long user space takes at most to replay the packets of a request once it is decided (ms). */
#define REPLAY_MS 20

/*
 * A packet that has overtaken those of a decided request, which are about to be replayed: it takes the same way, and so
 * comes behind them. Nothing goes round for long.
 */
static __always_inline int behind_replay(struct outbound *out, const struct config *set, const struct client *known)
{
	return past(known->decided, REPLAY_MS, clock_ms()) ? DROP_EARLY : to_user_space(out, set);
}

/*
 * Gives the connection to the listening socket of its VIP as if that had done the handshake. The current packet is the
 * first the socket sees; c has the client's options. The client's entry stays until a later packet finds the
 * socket: see local_packet.
 */
__noinline int assign_local(struct __sk_buff *skb, struct inbound *in, const struct client *c, struct outbound *out)
{
	struct bpf_tcp_req_attrs attrs = {};
	struct flow local = { .ifindex = skb->ifindex, .side = SIDE_LOCAL };
	struct packet *p;
	struct bpf_sock *skc;
	int verdict = DROP_NOMEM;
	struct sock *sk;

	if (!in || !c || !out)
		return DROP_NOMEM;
	p = &in->packet;
	if (!bpf_sk_assign_tcp_reqsk)
		return reset_sender(skb, in, out);
	skc = socket_of(skb, p);
	if (!skc)
		return reset_sender(skb, in, out);
	attrs.mss = c->mss < 536 ? 536 : c->mss;
	if (c->flags & CLIENT_WSCALE) {
		attrs.wscale_ok = 1;
		attrs.snd_wscale = c->wscale;
		attrs.rcv_wscale = OUR_WSCALE;
	}
	attrs.sack_ok = !!(c->flags & CLIENT_SACK);
	if (c->flags & CLIENT_TS) {
		attrs.tstamp_ok = 1;
		attrs.rcv_tsval = p->tsval;
		attrs.rcv_tsecr = p->tsecr;
	}
	if (skc->state != BPF_TCP_LISTEN)
		goto out;
	sk = (struct sock *)bpf_skc_to_tcp_sock(skc);
	if (!sk || bpf_map_update_elem(&flows, &p->key, &local, BPF_ANY))
		goto out;
	if (bpf_sk_assign_tcp_reqsk(skb, sk, &attrs, sizeof(attrs))) {
		bpf_map_delete_elem(&flows, &p->key);
		goto out;
	}
	out->action = TC_ACT_UNSPEC;
	verdict = ASSIGNED;
out:
	bpf_sk_release(skc);
	if (verdict != ASSIGNED)
		return reset_sender(skb, in, out);
	return verdict;
}

/* Most bytes that an undecided client may have sent. */
#define UNDECIDED_SPAN (128 << 10)

/*
 * Forgets the client if the sequence number is plausible; its SYN options expire. User space, which knows what has come
 * of the request, judges the reset of one that it reads.
 */
static __always_inline int undecided_reset(struct __sk_buff *skb, struct inbound *in, struct client *known,
					   struct outbound *out)
{
	struct config *set = config();
	struct packet *p = &in->packet;

	if (!checksum_ok(skb, p, &in->sum))
		return DROP_BAD_CHECKSUM;
	if (!set || lookup_client(&p->key, known) != KNOWN)
		return CONSUMED;
	if (p->seq - known->seq > UNDECIDED_SPAN || (p->flags & ACK && p->ack != known->ack))
		return DROP_WINDOW;
	if (known->state == CLIENT_UPCALL)
		return to_user_space(out, set);
	forget_undecided(&p->key);
	return CONSUMED;
}

/*
 * A packet of a session that a socket of this host owns or will own. Until the first packet has created the socket,
 * others would reach the listener, which sends RST.
 */
__noinline int local_packet(struct __sk_buff *skb, struct work *w)
{
	struct config *set = config();
	struct client *entry;
	struct bpf_sock *skc;
	struct packet *p;
	bool made;
	int known;

	if (!w)
		return DROP_NOMEM;
	p = &w->in.packet;
	entry = &w->deciding.known;
	known = lookup_client(&p->key, entry);
	if (known == KNOWN_CHANGING)
		return DROP_RACE;
	if (!known || entry->state != CLIENT_LOCAL)
		return PASS_LOCAL;
	skc = socket_of(skb, p);
	made = skc && skc->state != BPF_TCP_LISTEN;
	if (skc)
		bpf_sk_release(skc);
	if (made) {
		forget_undecided(&p->key);
		return PASS_LOCAL;
	}
	if (p->flags & RST) {
		int verdict = undecided_reset(skb, &w->in, entry, &w->out);

		if (verdict == CONSUMED)
			bpf_map_delete_elem(&flows, &p->key);
		return verdict;
	}
	if (!p->len && !(p->flags & FIN))
		return DROP_EARLY;
	if (p->seq != entry->seq)
		return set ? behind_replay(&w->out, set, entry) : DROP_NOMEM;
	return assign_local(skb, &w->in, entry, &w->out); /* again: the first was lost before the socket */
}
