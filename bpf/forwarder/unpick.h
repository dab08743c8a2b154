/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OP_UNPICK: a reply to a flow that was picked goes back to where the flow comes from (docs/openflow-pick.md). */
#pragma once

#include "errors.h"
#include "pick.h"

/* A handshake has taken as long. */
static __always_inline void measured(struct traversal *t, struct pick *p)
{
	struct picking *all = the_picking();
	struct pick_seat *s;
	__u64 sample;

	if (!all || p->flags & PICK_SYN_REPEATED) /* which one was answered cannot be told (RFC 6298, 3) */
		return;
	s = seat_of(all, p->seat);
	sample = t->now - p->began;
	s->measured = t->now;
	s->rtt = s->rtt ? s->rtt - s->rtt / 8 + sample / 8 : sample;
	s->peak = sample > s->peak ? sample : s->peak - s->peak / 8 + sample / 8;
}

/* A packet of a known flow has come in. rousing: it may make the flow active. */
static __always_inline void track_in(struct traversal *t, struct pick *p, bool rousing)
{
	__u32 flags = tcp_flags(t);

	p->used = t->now;
	__sync_fetch_and_add(&p->received, t->bytes);
	if (flags & FLAG_RST) {
		if (p->state != PICK_CLOSING) {
			__sync_fetch_and_or(&p->flags, PICK_RST_RECEIVED);
			p->state = PICK_CLOSING;
		}
		rest(p, ONE_CHANGE);
		return;
	}
	if (p->state == PICK_OPENING && flags & FLAG_ACK &&
	    __sync_val_compare_and_swap(&p->state, PICK_OPENING, PICK_OPEN) == PICK_OPENING && flags & FLAG_SYN)
		measured(t, p);
	if (rousing)
		wake(p);
	if (flags & FLAG_FIN)
		finned(p, PICK_FIN_RECEIVED);
}

/* Has the packet be for the address in t->fresh. */
static __always_inline int restore_destination(struct __sk_buff *skb, struct traversal *t)
{
	__u32 difference;

	__builtin_memcpy(t->old, t->fields.ip_dst, 16);
	difference = (__u32)bpf_csum_diff((__be32 *)t->old, 16, (__be32 *)t->fresh, 16, 0);
	if (t->kind3 == L3_IPV4 && bpf_l3_csum_replace(skb, t->l3 + 10, 0, difference, 0))
		return DROP_CHANGE;
	if (t->kind4 != L4_SCTP && mend_l4(skb, t, difference, true))
		return DROP_CHANGE;
	__builtin_memcpy(t->fields.ip_dst, t->fresh, 16);
	if (t->kind3 == L3_IPV4)
		return bpf_skb_store_bytes(skb, t->l3 + 16, t->fresh, 4, 0) ? DROP_CHANGE : 0;
	return bpf_skb_store_bytes(skb, t->l3 + 24, t->fresh, 16, BPF_F_RECOMPUTE_CSUM) ? DROP_CHANGE : 0;
}

/* Has the next packets of the flow go to a group's bucket at once, if that has nothing to choose. */
static __always_inline void learn_group(__u32 place)
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
		learn(place, bucket, 1);
}

/* Returns 0, also for the group's actions or, when it is no reply, for the next one; or 1 when the packet has ended. */
__noinline int run_unpick(struct __sk_buff *skb)
{
	struct pick_back_key *back;
	struct traversal *t = traversal();
	struct pick_back *owner;
	struct pick_key *key;
	struct pick *p;
	__u32 group;
	bool error;
	int verdict;

	if (!t)
		return 1;
	if (t->kind3 != L3_IPV4 && t->kind3 != L3_IPV6)
		return 0;
	back = &t->flow.back;
	key = &t->flow.key;
	error = !t->later && is_error(t);
	if (error) {
		if (read_quote(skb))
			return 0;
	} else {
		if (read_ports(skb))
			return 0;
		back->protocol = bpf_ntohs(t->fields.ip_proto);
		back->family = t->kind3 == L3_IPV4 ? 4 : 6;
		back->inside_port = t->flow.ports.dst_port;
		back->remote_port = t->flow.ports.src_port;
		back->zero = 0;
		back->port = t->fields.in_port;
		__builtin_memcpy(back->remote, t->fields.ip_src, 16);
	}
	owner = bpf_map_lookup_elem(&pick_backs, back);
	if (!owner)
		return 0;
	__builtin_memcpy(key, back, 8);
	__builtin_memcpy(key->inside, owner->inside, 16);
	__builtin_memcpy(key->remote, back->remote, 16);
	p = bpf_map_lookup_elem(&picks, key);
	if (!p || p->port != back->port || p->active == PICK_ENDED)
		return 0;
	group = t->op.arg;
	if (t->out)
		flush(skb);
	__builtin_memcpy(t->fresh, key->inside, 16);
	if (!error) {
		track_in(t, p, rouses(skb, p));
		learn_group(group);
	}
	verdict = error ? restore_quote(skb) : 0;
	if (!verdict)
		verdict = restore_destination(skb, t);
	if (verdict)
		return stop(t, verdict);
	end_here(t);
	return run_group(skb, group);
}
