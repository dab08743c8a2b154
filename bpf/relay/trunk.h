/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Initial settings of trunks, and the loss of their first flight, the segments that the initial window allows. */
#pragma once

#include <linux/tcp.h>
#include "maps.h"

#define SOL_SOCKET         1
#define SO_MAX_PACING_RATE 47
#define SOL_TCP            6

/* The first flight of a trunk that has settings. */
struct flight {
	__u32 place;
	__u32 generation;
	__u32 first;    /* sequence number */
	__u32 segments; /* limit */
	__u32 over;     /* it was counted */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct flight);
} flights SEC(".maps");

static __always_inline void remote_of(struct bpf_sock_ops *ops, struct trunk_key *key)
{
	if (ops->family == AF_INET) {
		map_addr(key->addr, ops->remote_ip4);
		return;
	}
	((__u32 *)key->addr)[0] = ops->remote_ip6[0];
	((__u32 *)key->addr)[1] = ops->remote_ip6[1];
	((__u32 *)key->addr)[2] = ops->remote_ip6[2];
	((__u32 *)key->addr)[3] = ops->remote_ip6[3];
}

static __always_inline void local_of(struct bpf_sock_ops *ops, struct trunk_key *key)
{
	if (ops->family == AF_INET) {
		map_addr(key->addr, ops->local_ip4);
		return;
	}
	((__u32 *)key->addr)[0] = ops->local_ip6[0];
	((__u32 *)key->addr)[1] = ops->local_ip6[1];
	((__u32 *)key->addr)[2] = ops->local_ip6[2];
	((__u32 *)key->addr)[3] = ops->local_ip6[3];
}

static __always_inline __u32 *opened(struct bpf_sock_ops *ops)
{
	struct trunk_key key = { .kind = TRUNK_TO, .port = bpf_htons(bpf_ntohl(ops->remote_port)) };

	remote_of(ops, &key);
	return bpf_map_lookup_elem(&trunk_places, &key);
}

static __always_inline __u32 *accepted(struct bpf_sock_ops *ops)
{
	struct trunk_key key = { .kind = TRUNK_AT, .port = bpf_htons(ops->local_port) }, from = { .kind = TRUNK_FROM };
	__u32 *at, *record;

	local_of(ops, &key);
	at = bpf_map_lookup_elem(&trunk_places, &key);
	if (!at) {
		__builtin_memset(key.addr, 0, sizeof(key.addr));
		at = bpf_map_lookup_elem(&trunk_places, &key);
		if (!at)
			return NULL;
	}
	remote_of(ops, &from);
	record = bpf_map_lookup_elem(&trunk_places, &from);
	return record ?: at;
}

static __always_inline void set(struct bpf_sock_ops *ops, struct trunk_counts *n, int level, int option, __u32 value)
{
	if (value && bpf_setsockopt(ops, level, option, &value, sizeof(value)))
		__sync_fetch_and_add(&n->refused, 1);
}

/* The handshake is complete. The algorithm is set last: its initial state depends on the window. */
static __always_inline void begin(struct bpf_sock_ops *ops, __u32 *place)
{
	struct trunk *t = bpf_map_lookup_elem(&trunks, place);
	struct trunk_counts *n = bpf_map_lookup_elem(&counts, place);
	struct flight *f;
	char name[NAME_BYTES];

	if (!t || !n)
		return;
	__sync_fetch_and_add(&n->established, 1);
	set(ops, n, SOL_TCP, TCP_BPF_IW, t->window);
	set(ops, n, SOL_TCP, TCP_BPF_SNDCWND_CLAMP, t->clamp);
	set(ops, n, SOL_SOCKET, SO_MAX_PACING_RATE, t->pace);
	if (t->congestion[0]) {
		__builtin_memcpy(name, t->congestion, sizeof(name));
		if (bpf_setsockopt(ops, SOL_TCP, TCP_CONGESTION, name, sizeof(name)))
			__sync_fetch_and_add(&n->refused, 1);
	}
	f = ops->sk ? bpf_sk_storage_get(&flights, ops->sk, NULL, BPF_SK_STORAGE_GET_F_CREATE) : NULL;
	if (!f)
		return;
	f->place = *place;
	f->generation = t->generation;
	f->first = ops->snd_nxt;
	f->segments = t->window ?: ops->snd_cwnd;
	f->over = 0;
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_RETRANS_CB_FLAG |
					       BPF_SOCK_OPS_RTT_CB_FLAG | BPF_SOCK_OPS_STATE_CB_FLAG);
}

static __always_inline struct flight *flight_of(struct bpf_sock_ops *ops)
{
	return ops->sk ? bpf_sk_storage_get(&flights, ops->sk, NULL, 0) : NULL;
}

/* The counts of the record; NULL if it was reused for another key. */
static __always_inline struct trunk_counts *counts_of(const struct flight *f)
{
	__u32 place = f->place;
	struct trunk *t = bpf_map_lookup_elem(&trunks, &place);

	return t && t->generation == f->generation ? bpf_map_lookup_elem(&counts, &place) : NULL;
}

static __always_inline void count_flight(struct bpf_sock_ops *ops, struct flight *f)
{
	__u32 sent = ops->data_segs_out;
	struct trunk_counts *n;

	f->over = 1;
	n = counts_of(f);
	if (!n || !sent)
		return;
	__sync_fetch_and_add(&n->flights, 1);
	__sync_fetch_and_add(&n->sent, sent < f->segments ? sent : f->segments);
}

static __always_inline void retransmitted(struct bpf_sock_ops *ops, const struct flight *f)
{
	__u32 at = ops->args[0] - f->first;
	struct trunk_counts *n;

	if (at >= f->segments * ops->mss_cache)
		return;
	n = counts_of(f);
	if (n)
		__sync_fetch_and_add(&n->retransmitted, ops->args[1]);
}

/* The last segment of the first flight may have been acknowledged. */
static __always_inline void acknowledged(struct bpf_sock_ops *ops, struct flight *f)
{
	if (ops->snd_una - f->first < f->segments * ops->mss_cache)
		return;
	count_flight(ops, f);
	bpf_sock_ops_cb_flags_set(ops, ops->bpf_sock_ops_cb_flags & ~BPF_SOCK_OPS_RTT_CB_FLAG);
}
