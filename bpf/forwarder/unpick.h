/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* OP_UNPICK: a reply to a flow that was picked goes back to where the flow comes from (docs/openflow-pick.md). */
#pragma once

#include "errors.h"
#include "pick.h"

/* A handshake has taken as long. */
static __always_inline void measured(struct work *w, struct pick *p)
{
	struct picking *all = the_picking();
	struct pick_seat *s;
	__u64 sample;

	if (!all || p->flags & PICK_SYN_REPEATED) /* which one was answered cannot be told (RFC 6298, 3) */
		return;
	s = seat_of(all, p->seat);
	sample = w->now - p->began;
	s->measured = w->now;
	s->rtt = s->rtt ? s->rtt - s->rtt / 8 + sample / 8 : sample;
	s->peak = sample > s->peak ? sample : s->peak - s->peak / 8 + sample / 8;
}

/* A packet of a known flow has come in. rousing: it may make the flow active. */
static __always_inline void track_in(struct work *w, struct pick *p, bool rousing)
{
	__u32 flags = tcp_flags(w);

	p->used = w->now;
	__sync_fetch_and_add(&p->received, w->bytes);
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
		measured(w, p);
	if (rousing)
		wake(p);
	if (flags & FLAG_FIN)
		finned(p, PICK_FIN_RECEIVED);
}

/* Has the packet be for the address in w->fresh. */
static __always_inline int restore_destination(struct __sk_buff *skb, struct work *w)
{
	__u32 difference;

	__builtin_memcpy(w->old, w->fields.ip_dst, 16);
	difference = (__u32)bpf_csum_diff((__be32 *)w->old, 16, (__be32 *)w->fresh, 16, 0);
	if (w->kind3 == L3_IPV4 && bpf_l3_csum_replace(skb, w->l3 + 10, 0, difference, 0))
		return DROP_CHANGE;
	if (w->kind4 != L4_SCTP && mend_l4(skb, w, difference, true))
		return DROP_CHANGE;
	__builtin_memcpy(w->fields.ip_dst, w->fresh, 16);
	if (w->kind3 == L3_IPV4)
		return bpf_skb_store_bytes(skb, w->l3 + 16, w->fresh, 4, 0) ? DROP_CHANGE : 0;
	return bpf_skb_store_bytes(skb, w->l3 + 24, w->fresh, 16, BPF_F_RECOMPUTE_CSUM) ? DROP_CHANGE : 0;
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
	struct work *w = work();
	struct pick_back *owner;
	struct pick_key *key;
	struct pick *p;
	__u32 group;
	bool error;
	int verdict;

	if (!w)
		return 1;
	if (w->kind3 != L3_IPV4 && w->kind3 != L3_IPV6)
		return 0;
	back = &w->flow.back;
	key = &w->flow.key;
	error = !w->later && is_error(w);
	if (error) {
		if (read_quote(skb))
			return 0;
	} else {
		if (read_ports(skb))
			return 0;
		back->protocol = bpf_ntohs(w->fields.ip_proto);
		back->family = w->kind3 == L3_IPV4 ? 4 : 6;
		back->inside_port = w->flow.ports.dst_port;
		back->remote_port = w->flow.ports.src_port;
		back->zero = 0;
		back->port = w->fields.in_port;
		__builtin_memcpy(back->remote, w->fields.ip_src, 16);
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
	group = w->op.arg;
	if (w->out)
		flush(skb);
	__builtin_memcpy(w->fresh, key->inside, 16);
	if (!error) {
		track_in(w, p, rouses(skb, p));
		learn_group(group);
	}
	verdict = error ? restore_quote(skb) : 0;
	if (!verdict)
		verdict = restore_destination(skb, w);
	if (verdict)
		return stop(w, verdict);
	end_here(w);
	return run_group(skb, group);
}
