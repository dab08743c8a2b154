/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Output. The last output sends the packet itself, all others send copies. Which output is the last is known only at the next action, so
 * each stays pending in the outcome until then.
 */
#pragma once

#include "maps.h"
#include "traversal.h"

static __always_inline struct port *usable(__u32 place)
{
	struct port *p = bpf_map_lookup_elem(&ports, &place);

	if (!p || !(p->flags & PORT_THERE) || p->flags & (PORT_DOWN | PORT_NO_FWD))
		return NULL;
	return p;
}

/* The host receives the packet on a PORT_HOST interface, instead of the interface sending it. */
static __always_inline __u32 redirect_flags(const struct port *p)
{
	return p->flags & PORT_HOST ? BPF_F_INGRESS : 0;
}

/* Sends a copy of the packet out of the pending port. */
__noinline int flush(struct __sk_buff *skb, struct outcome *o)
{
	struct port *p;

	if (!o || !o->out)
		return 0;
	p = usable(o->out);
	o->out = 0;
	if (!p)
		return 0;
	if (bpf_clone_redirect(skb, p->ifindex, redirect_flags(p)))
		count(COPY_LOST);
	else
		o->sent++;
	return 0;
}

static __always_inline void output(struct __sk_buff *skb, struct outcome *o, __be32 in_port, __u32 place)
{
	struct port *p = usable(place);

	/* a packet leaves by its input port through IN_PORT only [7.2.5] */
	if (!p || p->number == in_port) {
		if (o->verdict == DROPPED && !p)
			o->verdict = DROP_NO_PORT;
		return;
	}
	if (o->out)
		flush(skb, o);
	o->out = place;
}

struct every {
	struct __sk_buff *skb;
	struct outcome *outcome;
	__be32 in_port;
	__u32 without; /* ports with any of these flags */
};

static long output_each(__u32 i, struct every *e)
{
	__u32 place = i + 1;
	struct port *p = bpf_map_lookup_elem(&ports, &place);

	if (!p)
		return 1;
	if (p->flags & PORT_THERE && !(p->flags & e->without) && p->number != bpf_htonl(0xfffffffe))
		output(e->skb, e->outcome, e->in_port, place);
	return 0;
}

/* ALL and FLOOD */
__noinline int output_all(struct __sk_buff *skb, struct outcome *o, __be32 in_port, __u32 without)
{
	struct pipeline *st = the_pipeline();
	struct every e = { .skb = skb, .outcome = o, .in_port = in_port, .without = without };

	if (st && o)
		bpf_loop(st->ports < MAX_PORTS ? st->ports : MAX_PORTS, output_each, &e, 0);
	return 0;
}

struct find_port {
	__be32 number;
	__u32 place;
};

static long find_one(__u32 i, struct find_port *f)
{
	__u32 place = i + 1;
	struct port *p = bpf_map_lookup_elem(&ports, &place);

	if (!p)
		return 1;
	if (p->number == f->number && p->flags & PORT_THERE) {
		f->place = place;
		return 1;
	}
	return 0;
}

/* Returns the index of the input port, 0 if it is none. */
__noinline __u32 in_place(struct outcome *o, __be32 in_port)
{
	struct pipeline *st = the_pipeline();
	struct find_port f = {};

	if (!o || !st)
		return 0;
	if (!o->in) {
		f.number = in_port;
		bpf_loop(st->ports < MAX_PORTS ? st->ports : MAX_PORTS, find_one, &f, 0);
		o->in = f.place;
	}
	return o->in;
}

/* OFPP_IN_PORT */
static __always_inline void output_back(struct __sk_buff *skb, struct outcome *o, __be32 in_port)
{
	__u32 place = in_place(o, in_port);

	if (o->out)
		flush(skb, o);
	if (usable(place))
		o->out = place;
}

/* OFPP_NORMAL: a learning bridge, or the host's stack. */
__noinline int output_normal(struct __sk_buff *skb, struct outcome *o, const struct fields *f)
{
	struct pipeline *st = the_pipeline();
	struct station from = {}, to = {};
	__u32 *place, in;

	if (!o || !f || !st)
		return 0;
	if (st->stack) {
		o->stack = 1;
		return 0;
	}
	__builtin_memcpy(from.mac, f->eth_src, 6);
	__builtin_memcpy(to.mac, f->eth_dst, 6);
	from.vlan = to.vlan = f->vlan_vid;
	in = in_place(o, f->in_port);
	if (in && !(from.mac[0] & 1)) {
		place = bpf_map_lookup_elem(&stations, &from);
		if (!place || *place != in)
			bpf_map_update_elem(&stations, &from, &in, BPF_ANY);
	}
	/* reserved addresses, which bridges do not forward (IEEE 802.1Q, 8.6.3) */
	if (to.mac[0] == 0x01 && to.mac[1] == 0x80 && to.mac[2] == 0xc2 && !to.mac[3] && !to.mac[4] && to.mac[5] < 16)
		return 0;
	place = to.mac[0] & 1 ? NULL : bpf_map_lookup_elem(&stations, &to);
	if (place && usable(*place)) {
		output(skb, o, f->in_port, *place);
		return 0;
	}
	return output_all(skb, o, f->in_port, PORT_NO_FLOOD);
}

/* Passes the packet in its present form to user space. */
__noinline int send_upcall(struct __sk_buff *skb, struct traversal *t, __u32 max_len, __u32 reason)
{
	__u32 cpu = bpf_get_smp_processor_id(), place, len;
	struct upcall_buffer *room = bpf_map_lookup_elem(&upcall_buffers, &cpu);
	struct port *in;

	if (!t || !room)
		return 0;
	place = in_place(&t->outcome, t->frame.fields.in_port);
	in = bpf_map_lookup_elem(&ports, &place);
	if (in && in->flags & PORT_NO_PACKET_IN)
		return 0;
	room->head.metadata = t->frame.fields.metadata;
	room->head.tunnel_id = t->frame.fields.tunnel_id;
	room->head.cookie = t->cookie;
	room->head.in_port = t->frame.fields.in_port;
	room->head.length = len = skb->len;
	room->head.max_len = max_len;
	room->head.segment = skb->gso_size;
	room->head.tag = skb->vlan_tci;
	room->head.tag_type = skb->vlan_present ? bpf_ntohs(skb->vlan_proto) : 0;
	room->head.reason = reason;
	room->head.table = t->table;
	if (len > MAX_FRAME)
		len = MAX_FRAME;
	if (!is_within(len, 1, MAX_FRAME) || bpf_skb_load_bytes(skb, 0, room->frame, len) ||
	    bpf_ringbuf_output(&upcalls, room, sizeof(room->head) + len, 0)) {
		count(UPCALL_LOST);
		return 0;
	}
	if (!t->outcome.sent && t->outcome.verdict == DROPPED)
		t->outcome.verdict = UPCALL;
	return 0;
}

/* Sends a copy of the packet through the loop device to a bucket, or to the tables if that is NO_ENTRY. */
__noinline int copy_to(struct __sk_buff *skb, struct traversal *t, __u32 bucket)
{
	struct pipeline *st = the_pipeline();
	__u32 zero = 0, *last, seq, place, mark = skb->mark;
	struct copy *c;

	last = bpf_map_lookup_elem(&copy_seqs, &zero);
	if (!t || !st || !last)
		return 0;
	seq = __sync_fetch_and_add(last, 1) | 1U << 31; /* never 0 */
	place = seq & (COPIES - 1);
	c = bpf_map_lookup_elem(&copies, &place);
	if (!c)
		return 0;
	c->seq = seq;
	c->bucket = bucket;
	c->in_port = t->frame.fields.in_port;
	c->table = t->table;
	c->metadata = t->frame.fields.metadata;
	c->tunnel_id = t->frame.fields.tunnel_id;
	c->cookie = t->cookie;
	skb->mark = seq;
	if (bpf_clone_redirect(skb, st->loop, BPF_F_INGRESS))
		count(COPY_LOST);
	else
		t->outcome.sent++;
	skb->mark = mark;
	return 0;
}
