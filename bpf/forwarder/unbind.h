/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OP_UNBIND: a reply to a flow that was bound goes back to where the flow comes from (docs/openflow-bind.md). */
#pragma once

#include "change.h"
#include "errors.h"
#include "bindings.h"
#include "group.h"
#include "microflow.h"

/* A handshake has taken as long. */
static __always_inline void measured(struct binding *p, __u64 now)
{
	struct binder *all = the_binder();
	struct bind_seat *s;
	__u64 sample;

	if (!all || p->flags & BINDING_SYN_REPEATED) /* which one was answered cannot be told (RFC 6298, 3) */
		return;
	s = seat_of(all, p->seat);
	sample = now - p->began;
	s->measured = now;
	s->rtt = s->rtt ? s->rtt - s->rtt / 8 + sample / 8 : sample;
	s->peak = sample > s->peak ? sample : s->peak - s->peak / 8 + sample / 8;
}

/* A packet of a known flow has come in. rousing: it may make the flow active. */
static __always_inline void track_in(struct binding *p, const struct weight *w, __u32 flags, bool rousing)
{
	p->used = w->now;
	__sync_fetch_and_add(&p->received, w->bytes);
	if (flags & RST) {
		if (p->state != BINDING_CLOSING) {
			__sync_fetch_and_or(&p->flags, BINDING_RST_RECEIVED);
			p->state = BINDING_CLOSING;
		}
		rest(p, ONE_CHANGE);
		return;
	}
	if (p->state == BINDING_OPENING && flags & ACK &&
	    __sync_val_compare_and_swap(&p->state, BINDING_OPENING, BINDING_OPEN) == BINDING_OPENING && flags & SYN)
		measured(p, w->now);
	if (rousing)
		wake(p);
	if (flags & FIN)
		finned(p, BINDING_FIN_RECEIVED);
}

/* Has the packet be for an address, of 16 bytes. Returns 0, or the verdict. */
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

/* Has the next packets of the flow go to a group's bucket at once, if that has nothing to choose. */
static __always_inline void learn_group(struct traversal *t, __u32 place)
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
		learn(t, place, bucket, 1);
}

/* The flow of a reply, or of what an error quotes, into f: its key. NULL: there is none that is remembered. */
static __always_inline struct binding *flow_of_reply(struct flow_at_hand *f)
{
	struct binding_reply *owner = bpf_map_lookup_elem(&binding_replies, &f->back);
	struct binding *p;

	if (!owner)
		return NULL;
	__builtin_memcpy(&f->key, &f->back, 8);
	__builtin_memcpy(f->key.internal, owner->internal, 16);
	__builtin_memcpy(f->key.remote, f->back.remote, 16);
	p = bpf_map_lookup_elem(&bindings, &f->key);
	return p && p->port == f->back.port && p->active != BINDING_ENDED ? p : NULL;
}

/* The packet as a reply, into f->back. Returns -1 if it cannot be told. */
static __always_inline int read_reply(struct __sk_buff *skb, const struct frame *frame, struct flow_at_hand *f)
{
	struct binding_reply_key *back = &f->back;

	if (read_ports(skb, frame, f))
		return -1;
	back->protocol = bpf_ntohs(frame->fields.ip_proto);
	back->family = frame->kind3 == L3_IPV4 ? 4 : 6;
	back->internal_port = f->ports.dst_port;
	back->remote_port = f->ports.src_port;
	back->zero = 0;
	back->port = frame->fields.in_port;
	__builtin_memcpy(back->remote, frame->fields.ip_src, 16);
	return 0;
}

/* Returns 0, also for the group's actions or, when it is no reply, for the next one; or 1 when the packet has ended. */
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
	if (error ? read_error(skb, frame, &t->complaint, &f->back) : read_reply(skb, frame, f))
		return 0;
	p = flow_of_reply(f);
	if (!p)
		return 0;
	if (t->outcome.out)
		flush(skb, &t->outcome);
	if (error) {
		verdict = restore_quote(skb, frame, &t->complaint, &f->key);
	} else {
		track_in(p, &t->weight, tcp_flags(frame), rouses(skb, frame, p));
		learn_group(t, group);
	}
	if (!verdict)
		verdict = restore_destination(skb, frame, f->key.internal);
	if (verdict)
		return stop(t, verdict);
	end_here(t);
	return run_group(skb, t, group);
}
