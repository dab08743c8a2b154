/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The binding table of bind and unbind, and the statistics of their ports. All maps but those of fragments and credits outlive the
 * process.
 *
 * Whether a flow is active is one word, changed by compare-and-swap; whoever changes it updates the port's seat, so the seat's count is
 * exact under concurrency. The caller that sets BINDING_ENDED removes the flow.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/packet.h"
#include "flow.h"
#include "frame.h"

#define NS         1000000000ULL
#define ACTIVE_NS  (2 * NS)
#define CLOSING_NS (10 * NS)
#define OPENING_NS (240 * NS)  /* RFC 5382, REQ-5 */
#define TCP_NS     (7440 * NS) /* 2 h 4 min (RFC 5382, REQ-5) */
#define UDP_NS     (300 * NS)  /* RFC 4787, REQ-5 */
#define ICMP_NS    (60 * NS)   /* RFC 5508, REQ-1 */

/* If full, the packet is dropped. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__type(key, struct binding_key);
	__type(value, struct binding);
} bindings SEC(".maps");

/* A reply matches only while its flow is bound to that port, so a stale entry is harmless. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__type(key, struct binding_reply_key);
	__type(value, struct binding_reply);
} binding_replies SEC(".maps");

/* For affinity. LRU. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct binding_remote_key);
	__type(value, struct binding_remote);
} binding_remotes SEC(".maps");

struct binder {
	struct bpf_spin_lock lock; /* serializes selections; guards bind_credits, too */
	__u32 reserved;
	struct bind_seat seat[BIND_SEATS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct binder);
} binders SEC(".maps");

/* OpenFlow's number of the port of each seat; written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BIND_SEATS);
	__type(key, __u32);
	__type(value, __u32);
} bind_seats SEC(".maps");

/* Smooth weighted round-robin: the credit of each seat, per group. */
struct bind_credits {
	__s32 total; /* sum of the weights that the credits were computed with */
	__s32 credit[BIND_SEATS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct bind_credits);
} bind_credits SEC(".maps");

/* LRU; later fragments of an evicted packet are dropped. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct binding_fragment_key);
	__type(value, struct binding_fragment);
} binding_fragments SEC(".maps");

static __always_inline struct binder *the_binder(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&binders, &zero);
}

static __always_inline struct bind_seat *seat_of(struct binder *all, __u32 seat)
{
	return &all->seat[seat & (BIND_SEATS - 1)];
}

#define ONE_CHANGE (1ULL << 32)

/* Active flows of a seat: the lower half. A transiently negative count reads as 0. */
static __always_inline __u32 active_flows(const struct bind_seat *s)
{
	__s32 n = (__s32)s->active;

	return n & ~(n >> 31);
}

static __always_inline void set_active(struct binding *p)
{
	struct binder *all;

	if (p->active != BINDING_INACTIVE || p->state == BINDING_CLOSING)
		return;
	all = the_binder();
	if (all && __sync_val_compare_and_swap(&p->active, BINDING_INACTIVE, BINDING_ACTIVE) == BINDING_INACTIVE)
		__sync_fetch_and_add(&seat_of(all, p->seat)->active, ONE_CHANGE + 1);
}

/* change: ONE_CHANGE, or 0 from the sweep. */
static __always_inline void set_inactive(struct binding *p, __u64 change)
{
	struct binder *all = the_binder();

	if (all && __sync_val_compare_and_swap(&p->active, BINDING_ACTIVE, BINDING_INACTIVE) == BINDING_ACTIVE)
		__sync_fetch_and_add(&seat_of(all, p->seat)->active, change - 1);
}

static __always_inline void reply_key(struct binding_reply_key *reply, const struct binding_key *key, __be32 port)
{
	__builtin_memcpy(reply, key, 8);
	reply->port = port;
	__builtin_memcpy(reply->remote, key->remote, 16);
}

/* Adds the bytes since the last call to the port's seat. */
static __always_inline void report_bytes(struct binding *p, struct bind_seat *s)
{
	__u64 sent = p->sent - p->sent_reported, received = p->received - p->received_reported;

	if (sent) {
		p->sent_reported += sent;
		__sync_fetch_and_add(&s->sent, sent);
	}
	if (received) {
		p->received_reported += received;
		__sync_fetch_and_add(&s->received, received);
	}
}

/* Removes a flow, unless another processor is doing so. key is a copy, because the map's own key goes with the entry. */
static __always_inline bool remove_binding(const struct binding_key *key, struct binding_reply_key *reply,
					   struct binding *p, __u64 change)
{
	struct binder *all = the_binder();
	struct binding_reply *owner;
	struct bind_seat *s;
	__u32 was;

	if (!all)
		return false;
	was = __sync_lock_test_and_set(&p->active, BINDING_ENDED);
	if (was == BINDING_ENDED)
		return false;
	s = seat_of(all, p->seat);
	if (was == BINDING_ACTIVE)
		__sync_fetch_and_add(&s->active, change - 1);
	__sync_fetch_and_add(&s->flows, -1);
	report_bytes(p, s);
	/* the reply entry first: until the flow itself is deleted, packets may still find it */
	reply_key(reply, key, p->port);
	owner = bpf_map_lookup_elem(&binding_replies, reply);
	if (owner && same_addr(owner->internal, key->internal))
		bpf_map_delete_elem(&binding_replies, reply);
	bpf_map_delete_elem(&bindings, key);
	return true;
}

/* How long an idle flow of that protocol stays bound. */
static __always_inline __u64 idle_timeout(__u8 protocol, const struct binding *p)
{
	switch (p->state) {
	case BINDING_CLOSING:
		return CLOSING_NS;
	case BINDING_OPENING:
		return OPENING_NS;
	}
	switch (protocol) {
	case IPPROTO_TCP:
	case IPPROTO_SCTP:
		return TCP_NS;
	case IPPROTO_ICMP:
	case IPPROTO_ICMPV6:
		return ICMP_NS;
	}
	return UDP_NS;
}

/* The key of the packet that a fragment belongs to. False if it cannot be read. */
static __always_inline bool whole_of(struct __sk_buff *skb, const struct frame *frame,
				     struct binding_fragment_key *whole)
{
	bool v4 = frame->kind3 == L3_IPV4;

	__builtin_memcpy(whole->src, frame->fields.ip_src, 16);
	__builtin_memcpy(whole->dst, frame->fields.ip_dst, 16);
	whole->protocol = bpf_ntohs(frame->fields.ip_proto);
	whole->family = v4 ? 4 : 6;
	whole->id = 0;
	whole->zero = 0;
	return v4 ? !bpf_skb_load_bytes(skb, frame->l3 + 4, &whole->id, 2)
		  : !bpf_skb_load_bytes(skb, frame->fragment_header + 4, &whole->id, 4);
}

/* Reads the packet's ports, or their substitutes, into f->ports. Returns -1 for a fragment whose first fragment was not seen. */
__noinline int read_ports(struct __sk_buff *skb, const struct frame *frame, struct flow_at_hand *f)
{
	struct binding_fragment *known;
	__u32 type;
	__be16 id;

	if (!frame || !f)
		return -1;
	f->ports.src_port = f->ports.dst_port = 0;
	if (frame->fragment && !whole_of(skb, frame, &f->whole))
		return -1;
	if (frame->later) {
		known = bpf_map_lookup_elem(&binding_fragments, &f->whole);
		if (!known)
			return -1;
		f->ports = *known;
		return 0;
	}
	switch (frame->kind4) {
	case L4_TCP:
	case L4_UDP:
	case L4_SCTP:
		f->ports.src_port = frame->fields.l4_src;
		f->ports.dst_port = frame->fields.l4_dst;
		break;
	case L4_ICMP:
	case L4_ICMPV6:
		type = bpf_ntohs(frame->fields.l4_src);
		if (bpf_skb_load_bytes(skb, frame->l4 + 4, &id, 2))
			break;
		if (type == (frame->kind4 == L4_ICMP ? 8 : 128)) /* a request: the identifier is the sender's port */
			f->ports.src_port = id;
		else if (type == (frame->kind4 == L4_ICMP ? 0 : 129))
			f->ports.dst_port = id;
		break;
	}
	if (frame->fragment)
		bpf_map_update_elem(&binding_fragments, &f->whole, &f->ports, BPF_ANY);
	return 0;
}

/* The TCP flags, or 0 for other protocols. */
static __always_inline __u32 tcp_flags(const struct frame *frame)
{
	return frame->kind4 == L4_TCP ? bpf_ntohs(frame->fields.tcp_flags) : 0;
}

#define BOTH_FINS (BINDING_FIN_SENT | BINDING_FIN_RECEIVED)

/* TCP: a FIN in either direction. The first one makes the flow inactive. */
static __always_inline void track_fin(struct binding *p, __u32 flag)
{
	__u32 was = __sync_fetch_and_or(&p->flags, flag) & BOTH_FINS;

	if ((was | flag) == BOTH_FINS)
		p->state = BINDING_CLOSING;
	else if (was)
		return;
	set_inactive(p, ONE_CHANGE);
}

/* Whether a TCP packet has payload, by its headers, because short frames are padded. */
__noinline int has_payload(struct __sk_buff *skb, const struct frame *frame)
{
	__u32 headers;
	__be16 len;
	__u8 words;

	if (!frame)
		return 0;
	if (frame->kind4 != L4_TCP)
		return frame->later;
	if (bpf_skb_load_bytes(skb, frame->kind3 == L3_IPV4 ? frame->l3 + 2 : frame->l3 + 4, &len, 2) ||
	    bpf_skb_load_bytes(skb, frame->l4 + 12, &words, 1))
		return 0;
	headers = frame->l4 - frame->l3 + (words >> 4) * 4;
	if (frame->kind3 == L3_IPV6) /* IPv6's length excludes the fixed header */
		headers -= sizeof(struct ipv6hdr);
	/* 0: larger than the field can say (RFC 2675; Linux does so in IPv4, too) */
	return !len || bpf_ntohs(len) > headers;
}

/* Whether the packet may make the flow active: after a FIN, only if it has payload. */
static __always_inline bool activates(struct __sk_buff *skb, const struct frame *frame, const struct binding *p)
{
	return !(p->flags & BOTH_FINS) || has_payload(skb, frame);
}
