/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The first level of the flow cache. What the tables did with a packet of a bound flow is stored as one rewrite, which the flow's next
 * packets get without a lookup in the tables. A microflow is valid for one epoch and shared by flows with the same entries and bucket. It
 * serves only packets that change nothing in the binding but its time and byte counts; all others go through the tables.
 */
#pragma once

#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include "../wire/sum.h"
#include "bindings.h"
#include "hash.h"
#include "output.h"

#define MICROFLOW_TABLES 6
#define MICROFLOW_OPS    8
#define MICROFLOWS       1024

/* Padded so that the network header behind it is aligned to 4 bytes. */
struct link_header {
	__u16 zero;
	struct ethhdr eth;
} __attribute__((packed, aligned(8)));

struct microflow {
	__u64 id; /* a hash of its sources; 0: none */
	__u64 epoch;
	struct link_header link;
	__u8 macs[2 * ETH_ALEN]; /* the new link addresses */
	__u8 reserved[4];
	__u8 address[16]; /* the new source; for replies the destination to match. IPv4: the first 4 */
	__u32 in;         /* indices of ports */
	__u32 out;
	__u32 affinity; /* seconds */
	__u32 group;    /* counters: index in group_heads, in buckets, in entry_counts */
	__u32 bucket;
	__u32 entries;
	__u32 counts[MICROFLOW_TABLES];
};

/* Indexed by the low bits of the id. */
struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, MICROFLOWS);
	__type(key, __u32);
	__type(value, struct microflow);
} microflows SEC(".maps");

static __always_inline struct microflow *microflow_of(__u64 id)
{
	__u32 place = id & (MICROFLOWS - 1);

	return bpf_map_lookup_elem(&microflows, &place);
}

static __always_inline bool same_header(const struct link_header *a, const struct link_header *b)
{
	const __u64 *x = (const __u64 *)a, *y = (const __u64 *)b;

	return x[0] == y[0] && x[1] == y[1];
}

/* Whether the flow is open, so that a packet without SYN, FIN and RST changes only its time and byte counts. */
static __always_inline bool steady(const struct binding *p)
{
	return p->state == BINDING_OPEN && !p->flags && p->active != BINDING_ENDED;
}

/* Whether all packets of the flow have the same headers apart from SYN, FIN and RST, so that the result can be cached. */
static __always_inline bool cacheable(const struct frame *frame)
{
	return !frame->fragment && frame->l3 == ETH_HLEN && !frame->fields.vlan_vid &&
	       frame->l4 - frame->l3 == (frame->kind3 == L3_IPV4 ? 20 : 40) &&
	       (frame->kind4 == L4_TCP || frame->kind4 == L4_UDP);
}

/* Compiles ops into a microflow. */
struct microflow_builder {
	struct microflow s;
	__u32 first; /* range in ops */
	__u32 count;
	__u32 kind3;
	__u32 reply;      /* it came in by a link */
	__u32 translated; /* the source address is rewritten */
	__u32 complete;   /* all ops could be compiled */
};

/* A rewrite of one or both link addresses. Returns 1 if it is neither. */
static __always_inline long cache_link(struct microflow *s, const struct op *op)
{
	if (!op->at && op->len == 2 * ETH_ALEN)
		__builtin_memcpy(s->macs, op->value, 2 * ETH_ALEN);
	else if (!op->at && op->len == ETH_ALEN)
		__builtin_memcpy(s->macs, op->value, ETH_ALEN);
	else if (op->at == ETH_ALEN && op->len == ETH_ALEN)
		__builtin_memcpy(&s->macs[ETH_ALEN], op->value, ETH_ALEN);
	else
		return 1;
	return 0;
}

static long cache_op(__u32 i, struct microflow_builder *l)
{
	__u32 place = l->first + i;
	struct op *op = bpf_map_lookup_elem(&ops, &place);

	if (!op)
		return 1;
	switch (op->kind) {
	case OP_PATCH:
		if (op->mask)
			return 1;
		if (op->base == BASE_FRAME)
			return cache_link(&l->s, op);
		if (l->reply || (l->kind3 == L3_IPV4 ? op->base != BASE_IPV4 || op->at != 12 || op->len != 4
						     : op->base != BASE_IPV6 || op->at != 8 || op->len != 16))
			return 1;
		__builtin_memcpy(l->s.address, op->value, 16);
		l->translated = 1;
		return 0;
	case OP_CLAMP_MSS: /* affects SYNs only */
		return 0;
	case OP_OUTPUT:
		l->s.out = op->arg;
		l->complete = i + 1 == l->count;
	}
	return 1;
}

/* Whether nothing but the last op has changed the packet on its way through the tables; records the entries. */
static __always_inline bool cache_entries(const struct traversal *t, struct microflow *s)
{
	__u32 n = t->trail.at;

	if (!n || n > MICROFLOW_TABLES || t->phase != PHASE_ENTRY || t->depth ||
	    t->trail.megaflow.entry[n - 1] != t->entry)
		return false;
	for (__u32 i = 0; i < MICROFLOW_TABLES && i < n; i++) {
		__u32 place = t->trail.megaflow.entry[i];
		struct flow_entry *e = bpf_map_lookup_elem(&entries, &place);

		if (!e || e->meter || (i + 1 < n ? e->apply : e->ops != t->list.next - 1))
			return false;
		s->counts[i] = e->counts;
		s->id = mix(s->id, place);
	}
	s->entries = n;
	return true;
}

/*
 * Caches this packet's result, which goes to a bucket of a group, for the flow's next packets. The packet has not been changed yet. reply:
 * it came in by a link.
 */
__noinline int cache_microflow(struct traversal *t, __u32 group, __u32 bucket, __u32 reply)
{
	struct bucket *b = bpf_map_lookup_elem(&buckets, &bucket);
	struct pipeline *st = the_pipeline();
	struct microflow_builder l = {};
	struct microflow *s;
	struct port *out;
	struct binding *p;

	if (!t || !st || !b || b->count > MICROFLOW_OPS || !t->outcome.in || !cacheable(&t->frame))
		return 0;
	/* fields that may differ within a flow */
	if (st->used.tcp_flags || st->used.ip_dscp || st->used.ip_ecn || st->used.flow_label)
		return 0;
	l.s.epoch = t->trail.megaflow.epoch;
	l.s.id = mix(mix(mix(l.s.epoch, (__u64)t->outcome.in << 32 | t->frame.kind3 << 1 | !!reply), group), bucket);
	if (!cache_entries(t, &l.s) || !l.s.id)
		return 0;
	__builtin_memcpy(l.s.link.eth.h_dest, t->frame.fields.eth_dst, 2 * ETH_ALEN);
	l.s.link.eth.h_proto = t->frame.fields.eth_type;
	s = microflow_of(l.s.id);
	p = bpf_map_lookup_elem(&bindings, &t->flow.key);
	if (!s || !p)
		return 0;
	if (s->id != l.s.id || !same_header(&s->link, &l.s.link) ||
	    (reply && !same_addr(s->address, t->frame.fields.ip_dst))) {
		l.s.in = t->outcome.in;
		l.s.group = group;
		l.s.bucket = bucket;
		l.s.affinity = reply ? 0 : t->selection.affinity;
		__builtin_memcpy(l.s.macs, t->frame.fields.eth_dst, 2 * ETH_ALEN);
		__builtin_memcpy(l.s.address, t->frame.fields.ip_dst, 16);
		l.first = b->ops;
		l.count = b->count;
		l.kind3 = t->frame.kind3;
		l.reply = reply;
		bpf_loop(l.count, cache_op, &l, 0);
		out = l.complete ? usable(l.s.out) : NULL;
		if (!out || l.s.out == t->outcome.in || (!reply && !l.translated))
			return 0;
		*s = l.s;
	}
	*(reply ? &p->microflow_in : &p->microflow_out) = l.s.id;
	return 0;
}

/* A packet that a microflow may serve. */
struct fast_packet {
	struct binding_key key; /* for a reply, until reply_binding, with the link's address as the internal one */
	struct link_header link;
	struct iphdr ip; /* IPv4: a copy of the header */
	__u32 l4;
	struct weight weight;
	__u8 from[16]; /* the address to replace */
	__u8 to[16];
};

/* Returns false for packets that need the tables. */
static __always_inline bool read_fast_packet(struct __sk_buff *skb, struct fast_packet *t, bool reply)
{
	void *data = (void *)(long)skb->data, *end = (void *)(long)skb->data_end;
	struct ethhdr *eth = data;
	struct ipv6hdr *ip6;
	struct tcphdr *tcp;
	struct iphdr *ip;
	__u32 header;

	if (data + sizeof(*eth) + sizeof(*ip) + 8 > end || skb->vlan_present)
		return false;
	t->link.zero = 0;
	t->link.eth = *eth;
	t->key.zero = 0;
	if (eth->h_proto == bpf_htons(ETH_P_IP)) {
		ip = data + sizeof(*eth);
		if (*(__u8 *)ip != 0x45 || ip->frag_off & bpf_htons(FRAGMENTED))
			return false;
		t->key.family = 4;
		t->key.protocol = ip->protocol;
		__builtin_memset(t->key.internal, 0, 32);
		*(__be32 *)t->key.internal = reply ? ip->daddr : ip->saddr;
		*(__be32 *)t->key.remote = reply ? ip->saddr : ip->daddr;
		t->ip = *ip;
		t->l4 = sizeof(*eth) + sizeof(*ip);
	} else if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		ip6 = data + sizeof(*eth);
		if (data + sizeof(*eth) + sizeof(*ip6) + 8 > end || ip6->version != 6)
			return false;
		t->key.family = 6;
		t->key.protocol = ip6->nexthdr;
		__builtin_memcpy(t->key.internal, reply ? &ip6->daddr : &ip6->saddr, 16);
		__builtin_memcpy(t->key.remote, reply ? &ip6->saddr : &ip6->daddr, 16);
		t->l4 = sizeof(*eth) + sizeof(*ip6);
	} else {
		return false;
	}
	tcp = data + t->l4; /* the ports of TCP and UDP are at the same offsets */
	t->key.internal_port = reply ? tcp->dest : tcp->source;
	t->key.remote_port = reply ? tcp->source : tcp->dest;
	header = t->l4 + 8;
	if (t->key.protocol == IPPROTO_TCP) {
		if ((void *)(tcp + 1) > end || tcp->syn || tcp->fin || tcp->rst || !tcp->ack)
			return false;
		header = t->l4 + tcp->doff * 4;
	} else if (t->key.protocol != IPPROTO_UDP) {
		return false;
	}
	weigh(skb, header, &t->weight);
	return true;
}

/* Finds the flow of a reply, and completes t->key. */
static __always_inline struct binding *reply_binding(struct fast_packet *t, __be32 port)
{
	struct binding_reply_key reply;
	struct binding_reply *owner;
	struct binding *p;

	__builtin_memcpy(t->from, t->key.internal, 16);
	reply_key(&reply, &t->key, port);
	owner = bpf_map_lookup_elem(&binding_replies, &reply);
	if (!owner)
		return NULL;
	__builtin_memcpy(t->key.internal, owner->internal, 16);
	p = bpf_map_lookup_elem(&bindings, &t->key);
	return p && p->port == port ? p : NULL;
}

/* Returns the flow's microflow, if it is valid and serves the packet. */
static __always_inline struct microflow *microflow_for(struct fast_packet *t, const struct binding *p, __u32 place,
						       bool reply)
{
	__u64 id = reply ? p->microflow_in : p->microflow_out;
	struct pipeline *st = the_pipeline();
	struct microflow *s;

	if (!st || !id || !steady(p))
		return NULL;
	s = microflow_of(id);
	if (!s || s->id != id || s->epoch != *(volatile __u64 *)&st->epoch || s->in != place ||
	    !same_header(&s->link, &t->link))
		return NULL;
	if (reply ? !same_addr(s->address, t->from) : s->affinity && t->weight.now - p->refreshed > NS)
		return NULL;
	return s;
}

/* Returns 0, or -1 if a helper fails. */
static __always_inline int readdress(struct __sk_buff *skb, struct fast_packet *t, struct microflow *s, bool reply)
{
	__u32 at = t->l4 + CHECKSUM_AT, difference;
	__u64 flags = BPF_F_PSEUDO_HDR;

	if (t->key.protocol == IPPROTO_UDP) {
		at = t->l4 + 6;
		flags |= BPF_F_MARK_MANGLED_0;
	}
	__builtin_memcpy(t->to, reply ? t->key.internal : s->address, 16);
	if (!reply)
		__builtin_memcpy(t->from, t->key.internal, 16);
	__builtin_memcpy(t->link.eth.h_dest, s->macs, 2 * ETH_ALEN);
	difference = (__u32)bpf_csum_diff((__be32 *)t->from, 16, (__be32 *)t->to, 16, 0);
	if (bpf_l4_csum_replace(skb, at, 0, difference, flags))
		return -1;
	if (t->key.family == 6)
		return bpf_skb_store_bytes(skb, 0, &t->link.eth, 2 * ETH_ALEN, 0) ||
				       bpf_skb_store_bytes(skb, ETH_HLEN + (reply ? 24 : 8), t->to, 16,
							   BPF_F_RECOMPUTE_CSUM)
			       ? -1
			       : 0;
	*(reply ? &t->ip.daddr : &t->ip.saddr) = *(__be32 *)t->to;
	t->ip.check = ~fold((__u64)(__u32)~t->ip.check + difference); /* RFC 1624 */
	return bpf_skb_store_bytes(skb, 0, &t->link.eth, ETH_HLEN + sizeof(t->ip), 0) ? -1 : 0;
}

static __always_inline void account_microflow(const struct microflow *s, const struct weight *w)
{
	for (__u32 i = 0; i < MICROFLOW_TABLES && i < s->entries; i++)
		account(&entry_counts, s->counts[i], w);
	account(&group_counts, s->group, w);
	account(&bucket_counts, s->bucket, w);
}

/*
 * Forwards a packet that came in by the port at an index, if a microflow serves it. Returns the action for the kernel, or -1: the packet
 * needs the tables.
 */
__noinline int forward_microflow(struct __sk_buff *skb, __u32 place)
{
	struct port *in = bpf_map_lookup_elem(&ports, &place), *out;
	struct fast_packet t;
	struct microflow *s;
	struct binding *p;
	__u32 ifindex;
	__u64 flags;
	bool reply;

	if (!in)
		return -1;
	reply = in->seat; /* flows are bound to it, so it is a link */
	if (!read_fast_packet(skb, &t, reply))
		return -1;
	p = reply ? reply_binding(&t, in->number) : bpf_map_lookup_elem(&bindings, &t.key);
	if (!p)
		return -1;
	t.weight.now = bpf_ktime_get_coarse_ns();
	s = microflow_for(&t, p, place, reply);
	out = s ? usable(s->out) : NULL;
	if (!out || (!reply && !(out->flags & PORT_LIVE)))
		return -1;
	ifindex = out->ifindex;
	flags = redirect_flags(out);
	if (readdress(skb, &t, s, reply)) {
		count(DROP_CHANGE);
		return TC_ACT_SHOT;
	}
	p->used = t.weight.now;
	__sync_fetch_and_add(reply ? &p->received : &p->sent, t.weight.bytes);
	set_active(p);
	account_microflow(s, &t.weight);
	count(MICROFLOWS_HIT);
	count(FORWARDED);
	return bpf_redirect(ifindex, flags);
}
