/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The request router's data path for QUIC, attached to the ingress of the interfaces towards clients and surrogates. A datagram
 * of a flow is translated and sent on; one to a VIP without a flow is an upcall if a surrogate can be found for it.
 */
#include "icmp.h"
#include "upcall.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* The session of a flow, if it is still the one of the tuple. */
static __always_inline struct quic_session *session_of(const struct quic_flow *f, const struct tuple *key)
{
	struct quic_session *s = session_at(f->session);

	if (!s || s->state != SESSION_OPEN || !same_tuple(f->side == SIDE_CLIENT ? &s->client : &s->server, key))
		return NULL;
	return s;
}

/* Whether datagrams of the session's surrogate may arrive on an interface: on others, anybody may send in its name. */
static __always_inline bool leads_to(const struct quic_session *s, __u32 ifindex)
{
	struct quic_path path = { .ifindex = ifindex };

	copy_addr(path.surrogate, s->server.src);
	return ifindex == s->to_server.ifindex || bpf_map_lookup_elem(&paths, &path);
}

static __always_inline int from_client(struct __sk_buff *skb, const struct datagram *d, struct quic_session *s,
				       __u32 number, bool decided, int *action)
{
	bool begins = !decided && may_begin(skb, d);
	__u32 now = clock_ms();
	struct quic_server *server;
	struct readdressed t;
	struct quic_vip *vip;
	int err;

	if (begins || !(s->flags & (SESSION_CONFIRMED | SESSION_MOVED))) {
		vip = vip_at(d->key.dst, d->key.dport);
		server = vip ? server_of(skb, d, vip->lengths, true) : NULL;
		if (server && proves_receipt(server, s, number))
			s->flags |= SESSION_CONFIRMED;
		if (begins && vip && !server)
			return to_user_space(skb, d, UPCALL_AGAIN, action);
	}
	if (s->from_server)
		learn_short(skb, d, s, number);
	keep_id(s, now);
	reversed(&t, &s->server);
	refresh(skb, &s->to_server, &t, d->v6, now);
	err = rewrite_datagram(skb, d, &t, &s->to_server);
	if (err)
		return -err;
	s->from_client = now | 1;
	__sync_fetch_and_add(&s->bytes_to_server, d->len);
	*action = leave(&s->to_server);
	return TO_SURROGATE;
}

static __always_inline int from_server(struct __sk_buff *skb, const struct datagram *d, struct quic_session *s,
				       __u32 number, int *action)
{
	struct readdressed t;
	int err;

	if (!leads_to(s, skb->ifindex))
		return DROP_INTERFACE;
	if (d->len > sizeof(struct long_start))
		learn_long(skb, d, s, number);
	reversed(&t, &s->client);
	refresh(skb, &s->to_client, &t, d->v6, clock_ms());
	err = rewrite_datagram(skb, d, &t, &s->to_client);
	if (err)
		return -err;
	s->from_server = clock_ms() | 1;
	__sync_fetch_and_add(&s->bytes_to_client, d->len);
	*action = leave(&s->to_client);
	return TO_CLIENT;
}

static __always_inline int of_flow(struct __sk_buff *skb, const struct datagram *d, const struct quic_flow *f,
				   bool decided, int *action)
{
	struct quic_session *s = session_of(f, &d->key);

	if (!s)
		return DROP_STALE;
	if (f->side == SIDE_CLIENT)
		return from_client(skb, d, s, f->session, decided, action);
	return from_server(skb, d, s, f->session, action);
}

static __always_inline int icmp_message(struct __sk_buff *skb, struct datagram *d, int *action)
{
	struct quoted_datagram q = {};
	struct quic_session *s;
	struct readdressed t;
	struct quic_hop *hop;
	struct quic_flow *f;
	int err;

	if (!read_quoted_datagram(skb, d, &q))
		return PASS;
	f = bpf_map_lookup_elem(&flows, &d->key);
	s = f ? session_of(f, &d->key) : NULL;
	if (!s)
		return PASS;
	if (f->side == SIDE_SERVER && !leads_to(s, skb->ifindex))
		return DROP_INTERFACE;
	if (f->side == SIDE_CLIENT) {
		reversed(&t, &s->server);
		hop = &s->to_server;
	} else {
		reversed(&t, &s->client);
		hop = &s->to_client;
	}
	refresh(skb, hop, &t, d->v6, clock_ms());
	err = rewrite_message(skb, d, &q, &t, hop);
	if (err)
		return -err;
	*action = leave(hop);
	return ICMP_TRANSLATED;
}

static __always_inline int unreadable(int kind)
{
	switch (kind) {
	case DATAGRAM_FRAGMENT:
		return DROP_FRAGMENT;
	case DATAGRAM_OPTIONS:
		return DROP_IP_OPTIONS;
	case DATAGRAM_EXTENSION:
		return DROP_IPV6_EXTENSION;
	}
	return DROP_TRUNCATED;
}

static __always_inline int udp(struct __sk_buff *skb, const struct datagram *d, int *action)
{
	struct quic_flow *f = bpf_map_lookup_elem(&flows, &d->key);
	struct quic_vip *vip;

	if (f)
		return of_flow(skb, d, f, false, action);
	vip = vip_at(d->key.dst, d->key.dport);
	return vip ? unknown_client(skb, d, vip, action) : PASS;
}

SEC("tc")
int quic_ingress(struct __sk_buff *skb)
{
	int verdict = PASS, action = TC_ACT_SHOT, kind;
	struct datagram d = {};

	kind = parse_datagram(skb, &d);
	switch (kind) {
	case DATAGRAM_OTHER:
		return TC_ACT_UNSPEC;
	case DATAGRAM_UDP:
		verdict = udp(skb, &d, &action);
		break;
	case DATAGRAM_ICMP:
		verdict = icmp_message(skb, &d, &action);
		break;
	default:
		if (vip_at(d.key.dst, 0))
			verdict = unreadable(kind);
	}
	count(verdict);
	return verdict == PASS ? TC_ACT_UNSPEC : action;
}

/* Attached to the ingress of the tap: user space replays a datagram after its decision. */
SEC("tc")
int quic_replay(struct __sk_buff *skb)
{
	int verdict = DROP_UNDECIDED, action = TC_ACT_SHOT;
	struct datagram d = {};
	struct quic_flow *f;

	if (parse_datagram(skb, &d) != DATAGRAM_UDP)
		return TC_ACT_SHOT;
	f = bpf_map_lookup_elem(&flows, &d.key);
	if (f && f->side == SIDE_CLIENT)
		verdict = of_flow(skb, &d, f, true, &action);
	count(verdict);
	return action;
}

/* Keeps types for the Go bindings in the object. */
const enum bound *bound_type __attribute__((unused));
const enum verdict *verdict_type __attribute__((unused));
const enum side *side_type __attribute__((unused));
const enum session_state *session_state_type __attribute__((unused));
const enum session_flag *session_flag_type __attribute__((unused));
const enum server_flag *server_flag_type __attribute__((unused));
