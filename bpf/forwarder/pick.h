/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OP_PICK: a packet from the inside goes the way of its flow (docs/openflow-pick.md). */
#pragma once

#include "choose.h"
#include "shortcut.h"

static __always_inline __u32 tcp_flags(struct traversal *t)
{
	return t->kind4 == L4_TCP ? bpf_ntohs(t->fields.tcp_flags) : 0;
}

/* Wants a connection. */
static __always_inline bool bare_syn(__u32 flags)
{
	return (flags & (FLAG_SYN | FLAG_ACK | FLAG_RST | FLAG_FIN)) == FLAG_SYN;
}

/* Whether a SYN with the numbers of a flow that is known is another flow's. */
static __always_inline bool over(const struct pick *p, __u64 now)
{
	return p->state == PICK_CLOSING || (p->state == PICK_OPEN && now - p->used > ACTIVE_NS);
}

struct seek {
	__u32 first;
	__be32 port;
	__u32 relative;
	__u32 found; /* place; NO_ENTRY: none */
};

static long seek_bucket(__u32 i, struct seek *k)
{
	__u32 place = k->first + i;
	struct bucket *b = bpf_map_lookup_elem(&buckets, &place);
	struct port *p;

	if (!b)
		return 1;
	p = pickable(b);
	if (!p || p->number != k->port)
		return 0;
	k->relative = i;
	k->found = place;
	return 1;
}

/* Returns the place of the live bucket of the flow's port, or NO_ENTRY. */
static __always_inline __u32 bucket_of(struct traversal *t, struct pick *p)
{
	struct seek k = { .first = t->flow.first, .port = p->port, .found = NO_ENTRY };

	if (p->bucket < t->flow.count)
		seek_bucket(p->bucket, &k);
	if (k.found != NO_ENTRY)
		return t->flow.first + p->bucket;
	bpf_loop(t->flow.count < 4096 ? t->flow.count : 4096, seek_bucket, &k, 0);
	if (k.found != NO_ENTRY)
		p->bucket = k.relative;
	return k.found;
}

/* A SYN that was not answered says that handshakes take as long, at least. */
static __always_inline void repeated(struct traversal *t, struct pick *p)
{
	struct picking *all = the_picking();
	struct pick_seat *s;

	if (!all)
		return;
	s = seat_of(all, p->seat);
	__sync_fetch_and_or(&p->flags, PICK_SYN_REPEATED);
	__sync_fetch_and_add(&s->syn_repeats, 1);
	if (t->now - p->began > s->peak) {
		s->peak = t->now - p->began;
		s->measured = t->now;
	}
}

/* A packet of a known flow goes out. rousing: it may make the flow active. */
static __always_inline void track_out(struct traversal *t, struct pick *p, bool rousing)
{
	__u32 flags = tcp_flags(t);

	p->used = t->now;
	__sync_fetch_and_add(&p->sent, t->bytes);
	if (flags & FLAG_RST) {
		p->flags &= ~PICK_RST_RECEIVED;
		p->state = PICK_CLOSING;
		rest(p, ONE_CHANGE);
		return;
	}
	if (p->state == PICK_OPENING && bare_syn(flags)) {
		repeated(t, p);
	} else if (p->state == PICK_CLOSING && p->flags & PICK_RST_RECEIVED && !(flags & (FLAG_SYN | FLAG_FIN))) {
		p->flags &= ~PICK_RST_RECEIVED; /* the RST was not the peer's (RFC 5961, 3.2) */
		p->state = PICK_OPEN;
	}
	if (rousing)
		wake(p);
	if (flags & FLAG_FIN)
		finned(p, PICK_FIN_SENT);
	if (t->flow.together && t->now - p->refreshed > NS) {
		p->refreshed = t->now;
		note_remote(t, p->port);
	}
}

/* Takes back that a flow is active, which has not come about or is not so. */
static __always_inline void untake(struct traversal *t)
{
	struct picking *all = the_picking();

	if (all)
		__sync_fetch_and_add(&seat_of(all, t->flow.chosen.seat)->active, ONE_CHANGE - 1);
}

enum claim { CLAIMED, CLAIM_CLASH, CLAIM_FULL };

/* Makes replies by the chosen port the flow's. */
static __always_inline enum claim claim_replies(struct traversal *t)
{
	struct pick_back *other;
	struct pick *p;

	back_of(&t->flow.back, &t->flow.key, t->flow.chosen.port);
	__builtin_memcpy(t->flow.owner.inside, t->flow.key.inside, 16);
	if (!bpf_map_update_elem(&pick_backs, &t->flow.back, &t->flow.owner, BPF_NOEXIST))
		return CLAIMED;
	other = bpf_map_lookup_elem(&pick_backs, &t->flow.back);
	if (!other)
		return CLAIM_FULL;
	if (same_address(other->inside, t->flow.key.inside))
		return CLAIMED;
	t->flow.other = t->flow.key;
	__builtin_memcpy(t->flow.other.inside, other->inside, 16);
	p = bpf_map_lookup_elem(&picks, &t->flow.other);
	if (p && p->port == t->flow.chosen.port && p->active != PICK_ENDED)
		return CLAIM_CLASH;
	return bpf_map_update_elem(&pick_backs, &t->flow.back, &t->flow.owner, BPF_ANY) ? CLAIM_FULL : CLAIMED;
}

static __always_inline void begin_flow(struct traversal *t)
{
	struct pick *p = &t->flow.fresh;
	__u32 flags = tcp_flags(t);

	__builtin_memset(p, 0, sizeof(*p));
	p->began = p->used = p->refreshed = t->now;
	p->sent = t->bytes;
	p->port = t->flow.chosen.port;
	p->seat = t->flow.chosen.seat;
	p->bucket = t->flow.chosen.relative;
	p->group = t->flow.id;
	p->active = PICK_ACTIVE;
	p->state = bare_syn(flags) ? PICK_OPENING : PICK_OPEN;
	if (flags & FLAG_FIN) {
		p->flags = PICK_FIN_SENT;
		p->active = PICK_INACTIVE;
	}
}

/* Remembers what was chosen. Returns 0, a verdict, or DROP_PICK_CLASH when another port may do. */
__noinline int remember_flow(void)
{
	struct picking *all = the_picking();
	struct traversal *t = traversal();
	enum claim claim;
	struct pick_seat *s;
	struct pick *p;
	__u32 place;

	if (!t || !all)
		return DROP_PICKS_FULL;
	claim = claim_replies(t);
	if (claim != CLAIMED) {
		untake(t);
		return claim == CLAIM_CLASH ? DROP_PICK_CLASH : DROP_PICKS_FULL;
	}
	begin_flow(t);
	if (bpf_map_update_elem(&picks, &t->flow.key, &t->flow.fresh, BPF_NOEXIST)) {
		untake(t);
		p = bpf_map_lookup_elem(&picks, &t->flow.key);
		if (!p || p->port != t->flow.chosen.port)
			bpf_map_delete_elem(&pick_backs, &t->flow.back);
		if (!p)
			return DROP_PICKS_FULL;
		/* another processor was first */
		place = p->active == PICK_ENDED ? NO_ENTRY : bucket_of(t, p);
		if (place == NO_ENTRY)
			return DROP_PICK_GONE;
		track_out(t, p, !(p->flags & BOTH_FINS)); /* it has only just begun: payload is not looked for */
		t->flow.chosen.bucket = place;
		return 0;
	}
	s = seat_of(all, t->flow.chosen.seat);
	__sync_fetch_and_add(&s->flows, 1);
	if (t->flow.fresh.active == PICK_INACTIVE)
		untake(t);
	if (t->flow.fresh.state == PICK_OPENING)
		__sync_fetch_and_add(&s->syns, 1);
	if (t->flow.together)
		note_remote(t, t->flow.chosen.port);
	return 0;
}

static long pick_once(__u32 i, void *unused)
{
	struct traversal *t = traversal();

	if (!t)
		return 1;
	if (choose()) {
		t->flow.verdict = t->flow.excluded ? DROP_PICK_CLASH : DROP_PICK_NONE;
		return 1;
	}
	t->flow.verdict = remember_flow();
	if (t->flow.verdict != DROP_PICK_CLASH)
		return 1;
	t->flow.excluded |= 1U << (t->flow.chosen.seat & (PICK_SEATS - 1));
	return 0;
}

/* The flow, as the inside sees it. Returns a verdict if it cannot be told. */
static __always_inline __u32 read_flow(struct __sk_buff *skb, struct traversal *t)
{
	struct pick_key *key = &t->flow.key;

	if (t->kind3 != L3_IPV4 && t->kind3 != L3_IPV6)
		return DROP_NOT_THERE;
	if (read_ports(skb))
		return DROP_PICK_GONE;
	key->protocol = bpf_ntohs(t->fields.ip_proto);
	key->family = t->kind3 == L3_IPV4 ? 4 : 6;
	key->inside_port = t->flow.ports.src_port;
	key->remote_port = t->flow.ports.dst_port;
	key->zero = 0;
	__builtin_memcpy(key->inside, t->fields.ip_src, 16);
	__builtin_memcpy(key->remote, t->fields.ip_dst, 16);
	return 0;
}

/* What is done next is the last that is done: neither the entry's other instructions nor the action set. */
static __always_inline void end_here(struct traversal *t)
{
	t->phase = PHASE_LIST;
	t->depth = 0;
	t->list.next = t->list.end = 0;
}

/* Returns 0, or 1 when the packet has ended. */
__noinline int run_pick(struct __sk_buff *skb)
{
	struct pipeline *st = the_pipeline();
	struct group_head *head;
	struct traversal *t = traversal();
	struct group *g = NULL;
	__u64 word;
	__u32 version, flags, verdict, bucket = NO_ENTRY;
	struct bucket *b;
	struct pick *p;

	if (!t || !st)
		return 1;
	t->flow.head = t->op.arg;
	t->flow.method = t->op.at;
	__builtin_memcpy(&t->flow.together, t->op.value, 4);
	head = bpf_map_lookup_elem(&group_heads, &t->flow.head);
	if (head) {
		word = *(volatile __u64 *)head;
		version = (__u32)word;
		t->flow.id = word >> 32;
		g = bpf_map_lookup_elem(&groups, &version);
	}
	if (!g || g->kind != GROUP_SELECT)
		return stop(t, DROP_GROUP);
	account(&group_counts, t->flow.head, t);
	if (!st->picks)
		return stop(t, DROP_PICKS_FULL);
	t->flow.first = g->first;
	t->flow.count = g->count;
	t->flow.slots = g->slots;
	t->flow.slot_mask = g->slot_mask;
	verdict = read_flow(skb, t);
	if (verdict)
		return stop(t, verdict);
	flags = tcp_flags(t);
	p = bpf_map_lookup_elem(&picks, &t->flow.key);
	if (p && p->active != PICK_ENDED && !(bare_syn(flags) && over(p, t->now))) {
		bucket = bucket_of(t, p);
		if (bucket != NO_ENTRY)
			track_out(t, p, rouses(skb, p));
		else if (t->flow.key.protocol == IPPROTO_TCP && !bare_syn(flags))
			return stop(t, DROP_PICK_GONE);
	}
	if (bucket == NO_ENTRY) {
		if (p)
			forget(&t->flow.key, &t->flow.back, p, ONE_CHANGE);
		t->flow.excluded = 0;
		t->flow.verdict = DROP_PICK_CLASH;
		bpf_loop(PICK_SEATS, pick_once, NULL, 0);
		if (t->flow.verdict)
			return stop(t, t->flow.verdict);
		bucket = t->flow.chosen.bucket;
	}
	b = bpf_map_lookup_elem(&buckets, &bucket);
	if (!b)
		return stop(t, DROP_PICK_GONE);
	learn(t->flow.head, bucket, 0);
	end_here(t);
	return run_bucket(skb, t, b, bucket);
}
