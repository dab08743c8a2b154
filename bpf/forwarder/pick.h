/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OP_PICK: a packet from the inside goes the way of its flow (docs/openflow-pick.md). */
#pragma once

#include "choose.h"
#include "shortcut.h"

static __always_inline __u32 tcp_flags(struct work *w)
{
	return w->kind4 == L4_TCP ? bpf_ntohs(w->fields.tcp_flags) : 0;
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
static __always_inline __u32 bucket_of(struct work *w, struct pick *p)
{
	struct seek k = { .first = w->flow.first, .port = p->port, .found = NO_ENTRY };

	if (p->bucket < w->flow.count)
		seek_bucket(p->bucket, &k);
	if (k.found != NO_ENTRY)
		return w->flow.first + p->bucket;
	bpf_loop(w->flow.count < 4096 ? w->flow.count : 4096, seek_bucket, &k, 0);
	if (k.found != NO_ENTRY)
		p->bucket = k.relative;
	return k.found;
}

/* A SYN that was not answered says that handshakes take as long, at least. */
static __always_inline void repeated(struct work *w, struct pick *p)
{
	struct picking *all = the_picking();
	struct pick_seat *s;

	if (!all)
		return;
	s = seat_of(all, p->seat);
	__sync_fetch_and_or(&p->flags, PICK_SYN_REPEATED);
	__sync_fetch_and_add(&s->syn_repeats, 1);
	if (w->now - p->began > s->peak) {
		s->peak = w->now - p->began;
		s->measured = w->now;
	}
}

/* A packet of a known flow goes out. rousing: it may make the flow active. */
static __always_inline void track_out(struct work *w, struct pick *p, bool rousing)
{
	__u32 flags = tcp_flags(w);

	p->used = w->now;
	__sync_fetch_and_add(&p->sent, w->bytes);
	if (flags & FLAG_RST) {
		p->flags &= ~PICK_RST_RECEIVED;
		p->state = PICK_CLOSING;
		rest(p, ONE_CHANGE);
		return;
	}
	if (p->state == PICK_OPENING && bare_syn(flags)) {
		repeated(w, p);
	} else if (p->state == PICK_CLOSING && p->flags & PICK_RST_RECEIVED && !(flags & (FLAG_SYN | FLAG_FIN))) {
		p->flags &= ~PICK_RST_RECEIVED; /* the RST was not the peer's (RFC 5961, 3.2) */
		p->state = PICK_OPEN;
	}
	if (rousing)
		wake(p);
	if (flags & FLAG_FIN)
		finned(p, PICK_FIN_SENT);
	if (w->flow.together && w->now - p->refreshed > NS) {
		p->refreshed = w->now;
		note_remote(w, p->port);
	}
}

/* Takes back that a flow is active, which has not come about or is not so. */
static __always_inline void untake(struct work *w)
{
	struct picking *all = the_picking();

	if (all)
		__sync_fetch_and_add(&seat_of(all, w->flow.chosen.seat)->active, ONE_CHANGE - 1);
}

enum claim { CLAIMED, CLAIM_CLASH, CLAIM_FULL };

/* Makes replies by the chosen port the flow's. */
static __always_inline enum claim claim_replies(struct work *w)
{
	struct pick_back *other;
	struct pick *p;

	back_of(&w->flow.back, &w->flow.key, w->flow.chosen.port);
	__builtin_memcpy(w->flow.owner.inside, w->flow.key.inside, 16);
	if (!bpf_map_update_elem(&pick_backs, &w->flow.back, &w->flow.owner, BPF_NOEXIST))
		return CLAIMED;
	other = bpf_map_lookup_elem(&pick_backs, &w->flow.back);
	if (!other)
		return CLAIM_FULL;
	if (same_address(other->inside, w->flow.key.inside))
		return CLAIMED;
	w->flow.other = w->flow.key;
	__builtin_memcpy(w->flow.other.inside, other->inside, 16);
	p = bpf_map_lookup_elem(&picks, &w->flow.other);
	if (p && p->port == w->flow.chosen.port && p->active != PICK_ENDED)
		return CLAIM_CLASH;
	return bpf_map_update_elem(&pick_backs, &w->flow.back, &w->flow.owner, BPF_ANY) ? CLAIM_FULL : CLAIMED;
}

static __always_inline void begin_flow(struct work *w)
{
	struct pick *p = &w->flow.fresh;
	__u32 flags = tcp_flags(w);

	__builtin_memset(p, 0, sizeof(*p));
	p->began = p->used = p->refreshed = w->now;
	p->sent = w->bytes;
	p->port = w->flow.chosen.port;
	p->seat = w->flow.chosen.seat;
	p->bucket = w->flow.chosen.relative;
	p->group = w->flow.id;
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
	struct work *w = work();
	enum claim claim;
	struct pick_seat *s;
	struct pick *p;
	__u32 place;

	if (!w || !all)
		return DROP_PICKS_FULL;
	claim = claim_replies(w);
	if (claim != CLAIMED) {
		untake(w);
		return claim == CLAIM_CLASH ? DROP_PICK_CLASH : DROP_PICKS_FULL;
	}
	begin_flow(w);
	if (bpf_map_update_elem(&picks, &w->flow.key, &w->flow.fresh, BPF_NOEXIST)) {
		untake(w);
		p = bpf_map_lookup_elem(&picks, &w->flow.key);
		if (!p || p->port != w->flow.chosen.port)
			bpf_map_delete_elem(&pick_backs, &w->flow.back);
		if (!p)
			return DROP_PICKS_FULL;
		/* another processor was first */
		place = p->active == PICK_ENDED ? NO_ENTRY : bucket_of(w, p);
		if (place == NO_ENTRY)
			return DROP_PICK_GONE;
		track_out(w, p, !(p->flags & BOTH_FINS)); /* it has only just begun: payload is not looked for */
		w->flow.chosen.bucket = place;
		return 0;
	}
	s = seat_of(all, w->flow.chosen.seat);
	__sync_fetch_and_add(&s->flows, 1);
	if (w->flow.fresh.active == PICK_INACTIVE)
		untake(w);
	if (w->flow.fresh.state == PICK_OPENING)
		__sync_fetch_and_add(&s->syns, 1);
	if (w->flow.together)
		note_remote(w, w->flow.chosen.port);
	return 0;
}

static long pick_once(__u32 i, void *unused)
{
	struct work *w = work();

	if (!w)
		return 1;
	if (choose()) {
		w->flow.verdict = w->flow.excluded ? DROP_PICK_CLASH : DROP_PICK_NONE;
		return 1;
	}
	w->flow.verdict = remember_flow();
	if (w->flow.verdict != DROP_PICK_CLASH)
		return 1;
	w->flow.excluded |= 1U << (w->flow.chosen.seat & (PICK_SEATS - 1));
	return 0;
}

/* The flow, as the inside sees it. Returns a verdict if it cannot be told. */
static __always_inline __u32 read_flow(struct __sk_buff *skb, struct work *w)
{
	struct pick_key *key = &w->flow.key;

	if (w->kind3 != L3_IPV4 && w->kind3 != L3_IPV6)
		return DROP_NOT_THERE;
	if (read_ports(skb))
		return DROP_PICK_GONE;
	key->protocol = bpf_ntohs(w->fields.ip_proto);
	key->family = w->kind3 == L3_IPV4 ? 4 : 6;
	key->inside_port = w->flow.ports.src_port;
	key->remote_port = w->flow.ports.dst_port;
	key->zero = 0;
	__builtin_memcpy(key->inside, w->fields.ip_src, 16);
	__builtin_memcpy(key->remote, w->fields.ip_dst, 16);
	return 0;
}

/* What is done next is the last that is done: neither the entry's other instructions nor the action set. */
static __always_inline void end_here(struct work *w)
{
	w->phase = PHASE_LIST;
	w->depth = 0;
	w->list.next = w->list.end = 0;
}

/* Returns 0, or 1 when the packet has ended. */
__noinline int run_pick(struct __sk_buff *skb)
{
	struct pipeline *st = the_pipeline();
	struct group_head *head;
	struct work *w = work();
	struct group *g = NULL;
	__u64 word;
	__u32 version, flags, verdict, bucket = NO_ENTRY;
	struct bucket *b;
	struct pick *p;

	if (!w || !st)
		return 1;
	w->flow.head = w->op.arg;
	w->flow.method = w->op.at;
	__builtin_memcpy(&w->flow.together, w->op.value, 4);
	head = bpf_map_lookup_elem(&group_heads, &w->flow.head);
	if (head) {
		word = *(volatile __u64 *)head;
		version = (__u32)word;
		w->flow.id = word >> 32;
		g = bpf_map_lookup_elem(&groups, &version);
	}
	if (!g || g->kind != GROUP_SELECT)
		return stop(w, DROP_GROUP);
	account(&group_counts, w->flow.head, w);
	if (!st->picks)
		return stop(w, DROP_PICKS_FULL);
	w->flow.first = g->first;
	w->flow.count = g->count;
	w->flow.slots = g->slots;
	w->flow.slot_mask = g->slot_mask;
	verdict = read_flow(skb, w);
	if (verdict)
		return stop(w, verdict);
	flags = tcp_flags(w);
	p = bpf_map_lookup_elem(&picks, &w->flow.key);
	if (p && p->active != PICK_ENDED && !(bare_syn(flags) && over(p, w->now))) {
		bucket = bucket_of(w, p);
		if (bucket != NO_ENTRY)
			track_out(w, p, rouses(skb, p));
		else if (w->flow.key.protocol == IPPROTO_TCP && !bare_syn(flags))
			return stop(w, DROP_PICK_GONE);
	}
	if (bucket == NO_ENTRY) {
		if (p)
			forget(&w->flow.key, &w->flow.back, p, ONE_CHANGE);
		w->flow.excluded = 0;
		w->flow.verdict = DROP_PICK_CLASH;
		bpf_loop(PICK_SEATS, pick_once, NULL, 0);
		if (w->flow.verdict)
			return stop(w, w->flow.verdict);
		bucket = w->flow.chosen.bucket;
	}
	b = bpf_map_lookup_elem(&buckets, &bucket);
	if (!b)
		return stop(w, DROP_PICK_GONE);
	learn(w->flow.head, bucket, 0);
	end_here(w);
	return run_bucket(skb, w, b, bucket);
}
