/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The memory of bind: which port each flow was bound for, whose a reply is, and what is counted of the ports. The maps but for those of
 * fragments and turns outlive the process.
 *
 * Whether a flow is active is one word, and who changes it counts it in the port's seat, so that seats are exact whoever hasPrerequisite whom. Whoever
 * sets BINDING_ENDED forgets the flow.
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
#define TCP_NS     (7440 * NS) /* 2 h 4 min: the same */
#define UDP_NS     (300 * NS)  /* RFC 4787, REQ-5 */
#define ICMP_NS    (60 * NS)   /* RFC 5508, REQ-1 */

/* Full: the packet is dropped. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__type(key, struct binding_key);
	__type(value, struct binding);
} bindings SEC(".maps");

/* A reply leads to its flow only while that has its port: what is left behind does no harm. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__type(key, struct binding_reply_key);
	__type(value, struct binding_reply);
} binding_replies SEC(".maps");

/* For flows that stay together. The longest unused address goes first. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 65536);
	__type(key, struct binding_remote_key);
	__type(value, struct binding_remote);
} binding_remotes SEC(".maps");

struct binder {
	struct bpf_spin_lock lock; /* of credits, too: one selection at a time */
	__u32 reserved;
	struct bind_seat seat[BIND_SEATS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct binder);
} binders SEC(".maps");

/* Whose the seats are: OpenFlow's number; user space's. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, BIND_SEATS);
	__type(key, __u32);
	__type(value, __u32);
} bind_seats SEC(".maps");

/* Smooth weighted round robin: what each seat has earned, by the group. */
struct bind_credits {
	__s32 total; /* of the weights that it was credit by */
	__s32 credit[BIND_SEATS];
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 8192);
	__type(key, __u32);
	__type(value, struct bind_credits);
} bind_credits SEC(".maps");

/* The longest unused one goes first: its later fragments are dropped then. */
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

/* Of a seat, how many flows are active: its lower half, which is never seen below none. */
static __always_inline __u32 active_flows(const struct bind_seat *s)
{
	__s32 n = (__s32)s->active;

	return n & ~(n >> 31);
}

static __always_inline void wake(struct binding *p)
{
	struct binder *all;

	if (p->active != BINDING_INACTIVE || p->state == BINDING_CLOSING)
		return;
	all = the_binder();
	if (all && __sync_val_compare_and_swap(&p->active, BINDING_INACTIVE, BINDING_ACTIVE) == BINDING_INACTIVE)
		__sync_fetch_and_add(&seat_of(all, p->seat)->active, ONE_CHANGE + 1);
}

/* change: ONE_CHANGE, or 0 for the sweep. */
static __always_inline void rest(struct binding *p, __u64 change)
{
	struct binder *all = the_binder();

	if (all && __sync_val_compare_and_swap(&p->active, BINDING_ACTIVE, BINDING_INACTIVE) == BINDING_ACTIVE)
		__sync_fetch_and_add(&seat_of(all, p->seat)->active, change - 1);
}

static __always_inline void back_of(struct binding_reply_key *back, const struct binding_key *key, __be32 port)
{
	__builtin_memcpy(back, key, 8);
	back->port = port;
	__builtin_memcpy(back->remote, key->remote, 16);
}

/* Counts in the seat what a flow has sent and received since it was last counted there. */
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

/* Forgets a flow, unless somebody else is at it. key is a copy: the flow's own goes with it. */
static __always_inline bool forget(const struct binding_key *key, struct binding_reply_key *back, struct binding *p,
				   __u64 change)
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
	/* first the way back: a packet that still finds the flow does not miss it for long, as the flow goes next */
	back_of(back, key, p->port);
	owner = bpf_map_lookup_elem(&binding_replies, back);
	if (owner && same_addr(owner->internal, key->internal))
		bpf_map_delete_elem(&binding_replies, back);
	bpf_map_delete_elem(&bindings, key);
	return true;
}

/* How long a flow of that protocol is remembered without a packet. */
static __always_inline __u64 patience(__u8 protocol, const struct binding *p)
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

/* Which packet a fragment is of. False: it cannot be read. */
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

/* The packet's ports, or what stands for them, into f->ports. Returns -1 for a fragment whose first one was not seen. */
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
		if (type == (frame->kind4 == L4_ICMP ? 8 : 128)) /* the one who asks has it as its port */
			f->ports.src_port = id;
		else if (type == (frame->kind4 == L4_ICMP ? 0 : 129))
			f->ports.dst_port = id;
		break;
	}
	if (frame->fragment)
		bpf_map_update_elem(&binding_fragments, &f->whole, &f->ports, BPF_ANY);
	return 0;
}

/* Flags of the packet at hand, of TCP; else 0. */
static __always_inline __u32 tcp_flags(const struct frame *frame)
{
	return frame->kind4 == L4_TCP ? bpf_ntohs(frame->fields.tcp_flags) : 0;
}

#define BOTH_FINS (BINDING_FIN_SENT | BINDING_FIN_RECEIVED)

/* TCP: a FIN, whichever way it goes. From the first one on the flow rests. */
static __always_inline void finned(struct binding *p, __u32 flag)
{
	__u32 was = __sync_fetch_and_or(&p->flags, flag) & BOTH_FINS;

	if ((was | flag) == BOTH_FINS)
		p->state = BINDING_CLOSING;
	else if (was)
		return;
	rest(p, ONE_CHANGE);
}

/* Whether a packet of TCP has payload, by its headers: a frame may be padded. */
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
	if (frame->kind3 == L3_IPV6) /* its length is that of what follows its first header */
		headers -= sizeof(struct ipv6hdr);
	/* 0: a frame that is too large for the field (RFC 2675; Linux in IPv4, too) */
	return !len || bpf_ntohs(len) > headers;
}

/* After a FIN a flow is active again with payload alone. */
static __always_inline bool rouses(struct __sk_buff *skb, const struct frame *frame, const struct binding *p)
{
	return !(p->flags & BOTH_FINS) || has_payload(skb, frame);
}
