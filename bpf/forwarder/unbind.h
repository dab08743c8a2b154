/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OP_UNBIND: a reply to a bound flow goes back to the flow's internal address (docs/openflow-bind.md). */
#pragma once

#include "change.h"
#include "errors.h"
#include "bindings.h"
#include "group.h"
#include "microflow.h"

/* Measures a handshake. */
static __always_inline void note_handshake(struct binding *p, __u64 now)
{
	struct binder *all = the_binder();
	struct bind_seat *s;
	__u64 sample;

	if (!all || p->flags & BINDING_SYN_REPEATED) /* ambiguous which SYN was answered (RFC 6298, 3) */
		return;
	s = seat_of(all, p->seat);
	sample = now - p->began;
	s->measured = now;
	s->rtt = s->rtt ? s->rtt - s->rtt / 8 + sample / 8 : sample;
	s->peak = sample > s->peak ? sample : s->peak - s->peak / 8 + sample / 8;
}

/* Tracks a packet received by a bound flow. activates: it may make the flow active. */
static __always_inline void track_in(struct binding *p, const struct weight *w, __u32 flags, bool activates)
{
	p->used = w->now;
	__sync_fetch_and_add(&p->received, w->bytes);
	if (flags & RST) {
		if (p->state != BINDING_CLOSING) {
			__sync_fetch_and_or(&p->flags, BINDING_RST_RECEIVED);
			p->state = BINDING_CLOSING;
		}
		set_inactive(p, ONE_CHANGE);
		return;
	}
	if (p->state == BINDING_OPENING && flags & ACK &&
	    __sync_val_compare_and_swap(&p->state, BINDING_OPENING, BINDING_OPEN) == BINDING_OPENING && flags & SYN)
		note_handshake(p, w->now);
	if (activates)
		set_active(p);
	if (flags & FIN)
		track_fin(p, BINDING_FIN_RECEIVED);
}

/* Rewrites the destination address, 16 bytes. Returns 0, or the verdict. */
static __always_inline int restore_destination(struct __sk_buff *skb, struct frame *frame, const __u8 *address)
{
	__u8 *was = frame->fields.ip_dst;
	bool v4 = frame->kind3 == L3_IPV4;
	__u32 difference;

	difference = (__u32)bpf_csum_diff((__be32 *)was, 16, (__be32 *)address, 16, 0);
	if (v4 && bpf_l3_csum_replace(skb, frame->l3 + 10, 0, difference, 0))
		return DROP_CHANGE;
	if (frame->kind4 != L4_SCTP && mend_l4(skb, frame, difference, true))
		return DROP_CHANGE;
	__builtin_memcpy(was, address, 16);
	if (v4)
		return bpf_skb_store_bytes(skb, frame->l3 + 16, address, 4, 0) ? DROP_CHANGE : 0;
	return bpf_skb_store_bytes(skb, frame->l3 + 24, address, 16, BPF_F_RECOMPUTE_CSUM) ? DROP_CHANGE : 0;
}

/* Caches the microflow of replies, if the group has only one possible bucket. */
static __always_inline void cache_group(struct traversal *t, __u32 place)
{
	struct group_head *head = bpf_map_lookup_elem(&group_heads, &place);
	struct bucket *b;
	struct group *g;
	__u32 version, bucket;

	if (!head)
		return;
	version = *(volatile __u32 *)&head->version;
	g = bpf_map_lookup_elem(&groups, &version);
	if (!g || g->kind != GROUP_FAILOVER || g->count != 1)
		return;
	bucket = g->first;
	b = bpf_map_lookup_elem(&buckets, &bucket);
	if (b && !b->watch && !(b->flags & BUCKET_WATCHES))
		cache_microflow(t, place, bucket, 1);
}

/* Looks up the flow of f->reply, and fills in f->key. NULL if none is bound. */
static __always_inline struct binding *flow_of_reply(struct flow_at_hand *f)
{
	struct binding_reply *owner = bpf_map_lookup_elem(&binding_replies, &f->reply);
	struct binding *p;

	if (!owner)
		return NULL;
	__builtin_memcpy(&f->key, &f->reply, 8);
	__builtin_memcpy(f->key.internal, owner->internal, 16);
	__builtin_memcpy(f->key.remote, f->reply.remote, 16);
	p = bpf_map_lookup_elem(&bindings, &f->key);
	return p && p->port == f->reply.port && p->active != BINDING_ENDED ? p : NULL;
}

/* Reads the packet into f->reply. Returns -1 if it cannot be a reply. */
static __always_inline int read_reply(struct __sk_buff *skb, const struct frame *frame, struct flow_at_hand *f)
{
	struct binding_reply_key *reply = &f->reply;

	if (read_ports(skb, frame, f))
		return -1;
	reply->protocol = bpf_ntohs(frame->fields.ip_proto);
	reply->family = frame->kind3 == L3_IPV4 ? 4 : 6;
	reply->internal_port = f->ports.dst_port;
	reply->remote_port = f->ports.src_port;
	reply->zero = 0;
	reply->port = frame->fields.in_port;
	__builtin_memcpy(reply->remote, frame->fields.ip_src, 16);
	return 0;
}

/* Returns 0, for the group's actions or, if the packet is no reply, for the next action; 1 when the packet has ended. */
__noinline int run_unbind(struct __sk_buff *skb, struct traversal *t)
{
	struct flow_at_hand *f;
	struct frame *frame;
	int verdict = 0;
	struct binding *p;
	__u32 group;
	bool error;

	if (!t)
		return 1;
	if (!is_ip(&t->frame))
		return 0;
	frame = &t->frame;
	f = &t->flow;
	group = t->op.arg;
	error = !frame->later && is_error(frame);
	if (error ? read_error(skb, frame, &t->icmp_error, &f->reply) : read_reply(skb, frame, f))
		return 0;
	p = flow_of_reply(f);
	if (!p)
		return 0;
	if (t->outcome.out)
		flush(skb, &t->outcome);
	if (error) {
		verdict = restore_quote(skb, frame, &t->icmp_error, &f->key);
	} else {
		track_in(p, &t->weight, tcp_flags(frame), activates(skb, frame, p));
		cache_group(t, group);
	}
	if (!verdict)
		verdict = restore_destination(skb, frame, f->key.internal);
	if (verdict)
		return stop(t, verdict);
	end_here(t);
	return run_group(skb, t, group);
}
