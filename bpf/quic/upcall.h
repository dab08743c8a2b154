/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The slow path: a datagram of a client without a surrogate goes to user space, which replays it when it has chosen one. */
#pragma once

#include <linux/pkt_cls.h>
#include "../kernel/clock.h"
#include "ids.h"

/* Whether the client's prefix may have another upcall. What it has left over is kept up to the burst. */
static __always_inline bool may_ask(const __u8 *client, const struct quic_config *set, __u32 now)
{
	const __u32 *addr = (const __u32 *)client;
	struct quic_bucket *b, fresh = { .filled = now };
	__u64 most = (__u64)set->burst * TOKENS_A_PACKET, tokens;
	struct quic_prefix key = {};

	key.addr[0] = addr[0];
	key.addr[1] = addr[1] & (is_mapped(client) ? ~0U : bpf_htonl(0xffffff00));
	if (is_mapped(client)) {
		key.addr[2] = addr[2];
		key.addr[3] = addr[3] & bpf_htonl(0xffffff00);
	}
	b = bpf_map_lookup_elem(&buckets, &key);
	if (!b) {
		fresh.tokens = most - TOKENS_A_PACKET;
		bpf_map_update_elem(&buckets, &key, &fresh, BPF_ANY);
		return true;
	}
	tokens = b->tokens + (__u64)(now - b->filled) * set->rate;
	b->filled = now;
	if (tokens > most)
		tokens = most;
	b->tokens = tokens < TOKENS_A_PACKET ? tokens : tokens - TOKENS_A_PACKET;
	return tokens >= TOKENS_A_PACKET;
}

/* Sends the datagram to user space, with the interface that it came in by in its source MAC. */
static __always_inline int to_user_space(struct __sk_buff *skb, const struct datagram *d, int verdict, int *action)
{
	struct {
		__be16 mark;
		__be32 ifindex;
	} __attribute__((packed)) mac = { bpf_htons(UPCALL_MAC), bpf_htonl(skb->ifindex) };
	struct quic_config *set;
	__u32 zero = 0;

	set = bpf_map_lookup_elem(&settings, &zero);
	if (!set || !set->tap)
		return DROP_NO_TAP;
	if (!may_ask(d->key.src, set, clock_ms()))
		return DROP_RATE;
	if (bpf_skb_store_bytes(skb, ETH_ALEN, &mac, sizeof(mac), 0))
		return DROP_NOMEM;
	*action = bpf_redirect(set->tap, 0);
	return verdict;
}

/* A datagram to a VIP, of no flow. */
static __always_inline int unknown_client(struct __sk_buff *skb, const struct datagram *d, const struct quic_vip *vip,
					  int *action)
{
	struct long_start s = {};

	if (!d->len || bpf_skb_load_bytes(skb, d->payload, &s.first, 1))
		return DROP_EMPTY;
	if (s.first & LONG_HEADER && (bpf_skb_load_bytes(skb, d->payload, &s, sizeof(s)) || !is_handshake(&s)))
		return to_user_space(skb, d, UPCALL, action);
	if (!server_of(skb, d, vip->lengths, false) && !vip->layouts)
		return DROP_UNKNOWN_ID;
	return to_user_space(skb, d, UPCALL_MOVED, action);
}
