/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The host's sockets, found by the addresses of a packet. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/packet.h"

/* The socket that packets from src to dst are for, or what is left of one. The caller releases it. */
static __always_inline struct bpf_sock *socket_between(struct __sk_buff *skb, bool v6, const void *src, __be16 sport,
						       const void *dst, __be16 dport)
{
	struct bpf_sock_tuple tuple = {};

	if (v6) {
		copy_addr(tuple.ipv6.saddr, src);
		copy_addr(tuple.ipv6.daddr, dst);
		tuple.ipv6.sport = sport;
		tuple.ipv6.dport = dport;
		return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv6), BPF_F_CURRENT_NETNS, 0);
	}
	tuple.ipv4.saddr = unmap_addr(src);
	tuple.ipv4.daddr = unmap_addr(dst);
	tuple.ipv4.sport = sport;
	tuple.ipv4.dport = dport;
	return bpf_skc_lookup_tcp(skb, &tuple, sizeof(tuple.ipv4), BPF_F_CURRENT_NETNS, 0);
}

static __always_inline struct bpf_sock *socket_of(struct __sk_buff *skb, const struct packet *p)
{
	return socket_between(skb, p->v6, p->key.src, p->key.sport, p->key.dst, p->key.dport);
}

/* The state of the socket that has the packet's session; 0: none has, as a listener or the rest of a closed one. */
static __always_inline __u32 socket_state(struct __sk_buff *skb, const struct packet *p)
{
	struct bpf_sock *skc = socket_of(skb, p);
	__u32 state;

	if (!skc)
		return 0;
	state = skc->state;
	bpf_sk_release(skc);
	return state == BPF_TCP_LISTEN || state == BPF_TCP_TIME_WAIT ? 0 : state;
}

/* Whether a process has the socket in this state. Else it is there only until its peer has everything. */
static __always_inline bool is_open(__u32 state)
{
	return state == BPF_TCP_ESTABLISHED || state == BPF_TCP_SYN_RECV || state == BPF_TCP_NEW_SYN_RECV ||
	       state == BPF_TCP_CLOSE_WAIT;
}
