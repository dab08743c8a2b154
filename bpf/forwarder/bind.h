/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OP_BIND: a packet from the host leaves by the port that its flow is bound to; a new flow is bound to one first (docs/openflow-bind.md). */
#pragma once

#include "choose.h"
#include "group.h"
#include "microflow.h"

/* A connection request. */
static __always_inline bool bare_syn(__u32 flags)
{
	return (flags & (SYN | ACK | RST | FIN)) == SYN;
}

/* Whether a SYN with a bound flow's addresses and ports starts a new flow. */
static __always_inline bool reusable(const struct binding *p, __u64 now)
{
	return p->state == BINDING_CLOSING || (p->state == BINDING_OPEN && now - p->used > ACTIVE_NS);
}

struct bucket_search {
	__u32 first;
	__be32 port;
	__u32 relative;
	__u32 found; /* index; NO_ENTRY: none */
};

static long search_bucket(__u32 i, struct bucket_search *k)
{
	__u32 place = k->first + i;
	struct bucket *b = bpf_map_lookup_elem(&buckets, &place);
	struct port *p;

	if (!b)
		return 1;
	p = eligible(b);
	if (!p || p->number != k->port)
		return 0;
	k->relative = i;
	k->found = place;
	return 1;
}

/* Returns the index of the live bucket of the flow's port, or NO_ENTRY. */
static __always_inline __u32 bucket_of(const struct selection *s, struct binding *p)
{
	struct bucket_search k = { .first = s->first, .port = p->port, .found = NO_ENTRY };

	if (p->bucket < s->count)
		search_bucket(p->bucket, &k);
	if (k.found != NO_ENTRY)
		return s->first + p->bucket;
	bpf_loop(s->count < 4096 ? s->count : 4096, search_bucket, &k, 0);
	if (k.found != NO_ENTRY)
		p->bucket = k.relative;
	return k.found;
}

/* A SYN was not answered in time: handshakes take at least that long. */
static __always_inline void syn_repeated(struct binding *p, __u64 now)
{
	struct binder *all = the_binder();
	struct bind_seat *s;

	if (!all)
		return;
	s = seat_of(all, p->seat);
	__sync_fetch_and_or(&p->flags, BINDING_SYN_REPEATED);
	__sync_fetch_and_add(&s->syn_repeats, 1);
	if (now - p->began > s->peak) {
		s->peak = now - p->began;
		s->measured = now;
	}
}

/* Tracks a packet sent by a bound flow. activates: it may make the flow active. */
static __always_inline void track_out(struct traversal *t, struct binding *p, bool activates)
{
	__u32 flags = tcp_flags(&t->frame);

	p->used = t->weight.now;
	__sync_fetch_and_add(&p->sent, t->weight.bytes);
	if (flags & RST) {
		p->flags &= ~BINDING_RST_RECEIVED;
		p->state = BINDING_CLOSING;
		set_inactive(p, ONE_CHANGE);
		return;
	}
	if (p->state == BINDING_OPENING && bare_syn(flags)) {
		syn_repeated(p, t->weight.now);
	} else if (p->state == BINDING_CLOSING && p->flags & BINDING_RST_RECEIVED && !(flags & (SYN | FIN))) {
		p->flags &= ~BINDING_RST_RECEIVED; /* the RST was spoofed or rejected (RFC 5961, 3.2) */
		p->state = BINDING_OPEN;
	}
	if (activates)
		set_active(p);
	if (flags & FIN)
		track_fin(p, BINDING_FIN_SENT);
	if (t->selection.affinity && t->weight.now - p->refreshed > NS) {
		p->refreshed = t->weight.now;
		update_remote(&t->flow, t->selection.id, p->port, t->weight.now);
	}
}

/* Reverts the active count that assign or choose_candidate added for a flow. */
static __always_inline void unassign(const struct candidate *c)
{
	struct binder *all = the_binder();

	if (all)
		__sync_fetch_and_add(&seat_of(all, c->seat)->active, ONE_CHANGE - 1);
}

enum claim { CLAIMED, CLAIM_CLASH, CLAIM_FULL };

/* Maps replies on the chosen port to the flow. */
static __always_inline enum claim claim_replies(struct flow_at_hand *f, __be32 port)
{
	struct binding_reply *other;
	struct binding *p;

	reply_key(&f->reply, &f->key, port);
	__builtin_memcpy(f->owner.internal, f->key.internal, 16);
	if (!bpf_map_update_elem(&binding_replies, &f->reply, &f->owner, BPF_NOEXIST))
		return CLAIMED;
	other = bpf_map_lookup_elem(&binding_replies, &f->reply);
	if (!other)
		return CLAIM_FULL;
	if (same_addr(other->internal, f->key.internal))
		return CLAIMED;
	f->other = f->key;
	__builtin_memcpy(f->other.internal, other->internal, 16);
	p = bpf_map_lookup_elem(&bindings, &f->other);
	if (p && p->port == port && p->active != BINDING_ENDED)
		return CLAIM_CLASH;
	return bpf_map_update_elem(&binding_replies, &f->reply, &f->owner, BPF_ANY) ? CLAIM_FULL : CLAIMED;
}

static __always_inline void init_binding(struct traversal *t)
{
	struct binding *p = &t->flow.fresh;
	__u32 flags = tcp_flags(&t->frame);

	__builtin_memset(p, 0, sizeof(*p));
	p->began = p->used = p->refreshed = t->weight.now;
	p->sent = t->weight.bytes;
	p->port = t->selection.chosen.port;
	p->seat = t->selection.chosen.seat;
	p->bucket = t->selection.chosen.relative;
	p->group = t->selection.id;
	p->active = BINDING_ACTIVE;
	p->state = bare_syn(flags) ? BINDING_OPENING : BINDING_OPEN;
	if (flags & FIN) {
		p->flags = BINDING_FIN_SENT;
		p->active = BINDING_INACTIVE;
	}
}

/* Stores the binding. Returns 0, a verdict, or DROP_BIND_CLASH if another port may do. */
__noinline int add_binding(struct traversal *t)
{
	struct binder *all = the_binder();
	enum claim claim;
	struct bind_seat *s;
	struct binding *p;
	__u32 place;

	if (!t || !all)
		return DROP_BINDINGS_FULL;
	claim = claim_replies(&t->flow, t->selection.chosen.port);
	if (claim != CLAIMED) {
		unassign(&t->selection.chosen);
		return claim == CLAIM_CLASH ? DROP_BIND_CLASH : DROP_BINDINGS_FULL;
	}
	init_binding(t);
	if (bpf_map_update_elem(&bindings, &t->flow.key, &t->flow.fresh, BPF_NOEXIST)) {
		unassign(&t->selection.chosen);
		p = bpf_map_lookup_elem(&bindings, &t->flow.key);
		if (!p || p->port != t->selection.chosen.port)
			bpf_map_delete_elem(&binding_replies, &t->flow.reply);
		if (!p)
			return DROP_BINDINGS_FULL;
		/* another processor was first */
		place = p->active == BINDING_ENDED ? NO_ENTRY : bucket_of(&t->selection, p);
		if (place == NO_ENTRY)
			return DROP_BIND_GONE;
		track_out(t, p, !(p->flags & BOTH_FINS)); /* the flow is new: payload does not matter yet */
		t->selection.chosen.bucket = place;
		return 0;
	}
	s = seat_of(all, t->selection.chosen.seat);
	__sync_fetch_and_add(&s->flows, 1);
	if (t->flow.fresh.active == BINDING_INACTIVE)
		unassign(&t->selection.chosen);
	if (t->flow.fresh.state == BINDING_OPENING)
		__sync_fetch_and_add(&s->syns, 1);
	if (t->selection.affinity)
		update_remote(&t->flow, t->selection.id, t->selection.chosen.port, t->weight.now);
	return 0;
}

struct bind_run {
	struct traversal *traversal;
	__u32 verdict;
};

static long bind_once(__u32 i, struct bind_run *run)
{
	struct traversal *t = run->traversal;
	struct selection *s = &t->selection;

	if (choose(s, &t->flow, &t->frame, &t->probe, t->weight.now)) {
		run->verdict = s->excluded ? DROP_BIND_CLASH : DROP_BIND_NONE;
		return 1;
	}
	run->verdict = add_binding(t);
	if (run->verdict != DROP_BIND_CLASH)
		return 1;
	s->excluded |= 1U << (s->chosen.seat & (BIND_SEATS - 1));
	return 0;
}

/* Reads the flow's key. Returns a verdict if it cannot be determined. */
static __always_inline __u32 read_flow(struct __sk_buff *skb, struct traversal *t)
{
	struct binding_key *key = &t->flow.key;

	if (!is_ip(&t->frame))
		return DROP_NOT_THERE;
	if (read_ports(skb, &t->frame, &t->flow))
		return DROP_BIND_GONE;
	key->protocol = bpf_ntohs(t->frame.fields.ip_proto);
	key->family = t->frame.kind3 == L3_IPV4 ? 4 : 6;
	key->internal_port = t->flow.ports.src_port;
	key->remote_port = t->flow.ports.dst_port;
	key->zero = 0;
	__builtin_memcpy(key->internal, t->frame.fields.ip_src, 16);
	__builtin_memcpy(key->remote, t->frame.fields.ip_dst, 16);
	return 0;
}

/* Reads the current version of the op's group. Returns a verdict if it is not a select group. */
static __always_inline __u32 read_group(const struct op *op, struct selection *s)
{
	struct group_head *head;
	struct group *g = NULL;
	__u32 version;
	__u64 word;

	s->head = op->arg;
	s->method = op->at;
	__builtin_memcpy(&s->affinity, op->value, 4);
	head = bpf_map_lookup_elem(&group_heads, &s->head);
	if (head) {
		word = *(volatile __u64 *)head;
		version = (__u32)word;
		s->id = word >> 32;
		g = bpf_map_lookup_elem(&groups, &version);
	}
	if (!g || g->kind != GROUP_SELECT)
		return DROP_GROUP;
	s->first = g->first;
	s->count = g->count;
	s->slots = g->slots;
	s->slot_mask = g->slot_mask;
	return 0;
}

/* Selects a bucket for a flow that is new or must be bound anew, and binds it. */
static __always_inline __u32 bind_new(struct traversal *t)
{
	struct bind_run run = { .traversal = t, .verdict = DROP_BIND_CLASH };

	t->selection.excluded = 0;
	bpf_loop(BIND_SEATS, bind_once, &run, 0);
	return run.verdict;
}

/* Finds the bucket that the flow is bound to, or binds it to one. Returns 0, or the verdict. */
static __always_inline __u32 find_bucket(struct __sk_buff *skb, struct traversal *t, __u32 *bucket)
{
	struct binding *p = bpf_map_lookup_elem(&bindings, &t->flow.key);
	__u32 verdict, flags = tcp_flags(&t->frame);

	if (p && p->active != BINDING_ENDED && !(bare_syn(flags) && reusable(p, t->weight.now))) {
		*bucket = bucket_of(&t->selection, p);
		if (*bucket != NO_ENTRY) {
			track_out(t, p, activates(skb, &t->frame, p));
			return 0;
		}
		if (t->flow.key.protocol == IPPROTO_TCP && !bare_syn(flags))
			return DROP_BIND_GONE;
	}
	if (p)
		remove_binding(&t->flow.key, &t->flow.reply, p, ONE_CHANGE);
	verdict = bind_new(t);
	*bucket = t->selection.chosen.bucket;
	return verdict;
}

/* Returns 0, or 1 when the packet has ended. */
__noinline int run_bind(struct __sk_buff *skb, struct traversal *t)
{
	struct pipeline *st = the_pipeline();
	__u32 verdict, bucket;
	struct bucket *b;

	if (!t || !st)
		return 1;
	verdict = read_group(&t->op, &t->selection);
	if (verdict)
		return stop(t, verdict);
	account(&group_counts, t->selection.head, &t->weight);
	if (!st->bindings)
		return stop(t, DROP_BINDINGS_FULL);
	verdict = read_flow(skb, t);
	if (!verdict)
		verdict = find_bucket(skb, t, &bucket);
	if (verdict)
		return stop(t, verdict);
	b = bpf_map_lookup_elem(&buckets, &bucket);
	if (!b)
		return stop(t, DROP_BIND_GONE);
	cache_microflow(t, t->selection.head, bucket, 0);
	end_here(t);
	return run_bucket(skb, t, b, bucket);
}
