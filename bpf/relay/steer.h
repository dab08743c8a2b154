/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Packets to other hosts' addresses that are for sockets of this host. bpf_sk_assign attaches the socket to the packet, and the mark
 * makes the routing deliver it here: the route lookup comes after this hook.
 */
#pragma once

#include <linux/if_ether.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/tcp.h>
#include "../kernel/sock.h"
#include "../kernel/sockets.h"
#include "maps.h"

/* The connection of the packet's tuple, which may be in TIME_WAIT. The caller releases it. */
static __always_inline struct bpf_sock *connection_of(struct __sk_buff *skb, const struct packet *p)
{
	struct bpf_sock *sk = socket_of(skb, p);

	if (!sk || sk->state != BPF_TCP_LISTEN)
		return sk;
	bpf_sk_release(sk);
	return NULL;
}

/* One of the entry's listeners; the stack then selects within the reuseport group by the hash. The caller releases it. */
static __always_inline struct bpf_sock *listener_of(struct __sk_buff *skb, const struct packet *p,
						    const struct entry *e)
{
	struct bpf_sock *sk = socket_between(skb, p->v6, p->key.src, p->key.sport, e->listen, e->port);

	if (!sk || sk->state == BPF_TCP_LISTEN)
		return sk;
	bpf_sk_release(sk); /* a client connected to the listener's own address */
	return NULL;
}

static __always_inline bool assign(struct __sk_buff *skb, struct bpf_sock *sk)
{
	if (bpf_sk_assign(skb, sk, 0))
		return false;
	skb->mark = steer_mark;
	return true;
}

/* True if the packet completes a handshake of which the listener kept only a SYN cookie. */
static __always_inline bool ends_cookie_handshake(struct __sk_buff *skb, const struct packet *p, struct bpf_sock *sk)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct tcphdr *th;

	if (p->v6) {
		struct ipv6hdr *ip = data + ETH_HLEN;

		th = (void *)(ip + 1);
		return (void *)(th + 1) <= end && !bpf_tcp_check_syncookie(sk, ip, sizeof(*ip), th, sizeof(*th));
	} else {
		struct iphdr *ip = data + ETH_HLEN;

		th = (void *)(ip + 1);
		return (void *)(th + 1) <= end && !bpf_tcp_check_syncookie(sk, ip, sizeof(*ip), th, sizeof(*th));
	}
}

/* A packet without SYN, to an entry that intercepts. */
static __always_inline int steer(struct __sk_buff *skb, const struct packet *p, const struct entry *e)
{
	struct bpf_sock *sk = connection_of(skb, p);
	int verdict = PASS_UNKNOWN;

	if (sk) {
		verdict = assign(skb, sk) ? STEERED : STEER_FAILED;
		bpf_sk_release(sk);
		return verdict;
	}
	if ((p->flags & (SYN | RST | ACK)) != ACK)
		return PASS_UNKNOWN;
	sk = listener_of(skb, p, e);
	if (!sk)
		return PASS_UNKNOWN;
	if (ends_cookie_handshake(skb, p, sk)) {
		bpf_get_hash_recalc(skb); /* the reuseport group only reads the hash */
		verdict = assign(skb, sk) ? STEERED_COOKIE : STEER_FAILED;
	}
	bpf_sk_release(sk);
	return verdict;
}

/* The mark of a socket; 0 for a request socket. */
static __always_inline __u32 mark_of(struct bpf_sock *sk)
{
	struct tcp_timewait_sock *tw;
	struct bpf_sock *full;

	if (sk->state == BPF_TCP_TIME_WAIT) {
		tw = (void *)bpf_skc_to_tcp_timewait_sock(sk);
		return tw ? tw->tw_sk.tw_mark : 0;
	}
	full = bpf_sk_fullsock(sk);
	return full ? *(volatile __u32 *)&full->mark : 0; /* the verifier rejects one load for both pointer types */
}

/* A packet from a server to a connection of ours that has a client's address. */
static __always_inline int give_back(struct __sk_buff *skb, const struct packet *p)
{
	struct bpf_sock *sk = connection_of(skb, p);
	int verdict = PASS;

	if (!sk)
		return PASS;
	if (mark_of(sk) == steer_mark)
		verdict = assign(skb, sk) ? RETURNED : STEER_FAILED;
	bpf_sk_release(sk);
	return verdict;
}
