/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * A client reuses a port while its last connection is still in TIME_WAIT here. The stack replaces that connection only if it looks up
 * the listener itself. If the listener was assigned to the packet, it drops every SYN until TIME_WAIT ends (since Linux 6.10, where a
 * request must not exist twice). So relay_lookup returns the listener, which it cannot look up itself. A program at an interface cannot hand it
 * one either, since Linux 7.3: user space does.
 */
#pragma once

#include <linux/in.h>
#include "steer.h"

/* Of entries that intercept, one a group. Written by user space; the kernel removes a closed listener. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 2 * MAX_ENTRIES);
	__type(key, struct listen_key);
	__type(value, __u64);
} listeners SEC(".maps");

/* The listener for a client that reconnects, until the stack looks it up. Full: the oldest is evicted and resends its SYN. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1024);
	__type(key, struct tuple);
	__type(value, struct listen_key);
} reopened SEC(".maps");

/* A SYN that matches an earlier connection in TIME_WAIT: sk. */
static __always_inline bool reopen(struct __sk_buff *skb, const struct packet *p, const struct entry *e,
				   struct bpf_sock *sk)
{
	struct listen_key at = { .port = e->port };

	copy_addr(at.addr, e->listen);
	/* otherwise TIME_WAIT answers the client, which resets it and resends its SYN */
	bpf_map_update_elem(&reopened, &p->key, &at, BPF_ANY);
	return assign(skb, sk);
}

/* The stack looks for a listener. */
static __always_inline void find_listener(struct bpf_sk_lookup *ctx)
{
	struct listen_key *known, at;
	struct bpf_sock *listener;
	struct tuple t;

	if (ctx->protocol != IPPROTO_TCP)
		return;
	if (ctx->family == AF_INET) {
		map_addr(t.src, ctx->remote_ip4);
		map_addr(t.dst, ctx->local_ip4);
	} else {
		for (int i = 0; i < 4; i++) {
			((__u32 *)t.src)[i] = ctx->remote_ip6[i];
			((__u32 *)t.dst)[i] = ctx->local_ip6[i];
		}
	}
	t.sport = ctx->remote_port;
	t.dport = bpf_htons(ctx->local_port);
	known = bpf_map_lookup_elem(&reopened, &t);
	if (!known)
		return;
	at = *known;
	bpf_map_delete_elem(&reopened, &t);
	listener = bpf_map_lookup_elem(&listeners, &at);
	if (!listener)
		return;
	bpf_sk_assign(ctx, listener, 0);
	bpf_sk_release(listener);
}
