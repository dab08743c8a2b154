/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Makes the insertion, bytes of the router's own that go with a client's, and sends it: docs/handoff.md, "Insertion".
 * What goes with a request is decided in plan.h.
 */
#pragma once

#include "edit.h"
#include "header.h"
#include "maps.h"
#include "work.h"

/* Copies the name in the current hello, if it fits, and keeps it for the session. */
static __always_inline void keep_authority(struct __sk_buff *skb, const struct packet *p, const struct deciding *d,
					   struct introduction *i, __u32 idx)
{
	struct authority *a = &i->authority, *read;
	__u32 len = d->routing.name_len;

	a->len = 0;
	if (i->kind != HEADER_PROXY_V2)
		return;
	bpf_map_delete_elem(&authorities, &idx); /* of an earlier session */
	if (!d->decision.opaque)
		return;
	if (d->client.state == CLIENT_SPLICE) {
		read = bpf_map_lookup_elem(&hello_names, &p->key);
		if (read)
			*a = *read;
	} else {
		__builtin_memset(a, 0, sizeof(*a));
		if (is_within(len, 1, AUTHORITY) && !bpf_skb_load_bytes(skb, d->routing.name_at, a->name, len))
			a->len = len;
	}
	if (a->len && bpf_map_update_elem(&authorities, &idx, a, BPF_ANY))
		a->len = 0;
}

/*
 * Makes the planned bytes of our own, which go to the surrogate of leg idx. ack: of the client, when it joined the leg.
 * False: the packet cannot be read.
 */
static __always_inline bool prepare_insertion(struct __sk_buff *skb, const struct packet *p, const struct deciding *d,
					      struct own_bytes *own, __u32 idx, __u32 ack)
{
	struct introduction *i = &own->introduction;

	i->len = 0;
	if (i->kind == HEADER_NONE)
		return true;
	i->client = p->key;
	i->seq = p->seq;
	i->ack = ack;
	if (i->head) {
		if (!edit_head(skb, p, i, &own->payload, &own->edited))
			return false;
		i->len = own->edited.len - i->head;
		return true;
	}
	keep_authority(skb, p, d, i, idx);
	make_header(&own->payload, i);
	i->len = own->payload.len;
	return true;
}

static __always_inline struct insertion insertion_of(const struct introduction *i)
{
	return (struct insertion){ i->len, i->head, i->kind, i->sum };
}

/* Whether bytes of our own go first, and then the packet, which is received again. */
static __always_inline bool insertion_goes_first(const struct introduction *i)
{
	return i->len && !i->head;
}

/*
 * Sends the client's packet, and then the payload of our own, which goes before its bytes. The order is of no matter to
 * a receiver that lacks both.
 */
static __always_inline int send_behind(struct __sk_buff *skb, struct inbound *in, struct outbound *out,
				       struct splice *s, __u32 now, int verdict)
{
	struct translation *t = &out->translation;
	int sent = send_to_server(skb, in, out, s, now, verdict);
	struct segment *r;

	if (sent != verdict || !t->hop.checked) /* else it is resolved on output, for one packet only */
		return sent;
	bpf_clone_redirect(skb, t->hop.ifindex, 0);
	r = ack_like(&out->reply, t);
	r->flags = ACK | PSH;
	r->seq = t->seq - out->own.payload.len;
	r->with_ts = t->keep_ts && has_ts(&in->packet);
	r->with_sack = 0;
	r->wscale = NO_SCALE;
	r->mss = 0;
	r->v6 = in->packet.v6;
	out->action = TC_ACT_SHOT;
	if (write_payload(skb, r, &out->own.payload))
		out->action = redirect(&t->hop);
	return verdict;
}

/* Sends a packet that begins with a request's head, with the edited head if there is one. */
static __always_inline int send_head(struct __sk_buff *skb, struct inbound *in, struct outbound *out,
				     const struct vip *vip, struct splice *s, __u32 now, int verdict)
{
	struct own_bytes *own = &out->own;

	if (!own->introduction.len)
		return send_to_server(skb, in, out, s, now, verdict);
	if (has_room(skb, &in->packet, &own->edited, vip->mss))
		return put_head(skb, &in->packet, &own->edited, &in->sum)
			       ? send_to_server(skb, in, out, s, now, verdict)
			       : DROP_NOMEM;
	if (!lay_over(skb, &in->packet, &own->edited, &own->payload, &in->sum))
		return DROP_NOMEM;
	out->translation.seq += own->introduction.len;
	return send_behind(skb, in, out, s, now, verdict);
}

/* Makes the header of leg idx, which the introduction is of, again. False: it would be another one. */
static __always_inline bool rebuild_header(struct own_bytes *own, __u32 idx)
{
	struct introduction *i = &own->introduction;
	struct authority *a = bpf_map_lookup_elem(&authorities, &idx);

	i->authority.len = 0;
	if (a)
		i->authority = *a;
	make_header(&own->payload, i);
	return own->payload.len == i->len;
}

/* Sends the insertion in place of the client's packet, which is received again to follow it. */
static __always_inline int send_inserted(struct __sk_buff *skb, const struct packet *p, struct outbound *out, __u32 now,
					 int verdict)
{
	struct translation *t = &out->translation;
	struct segment *r = ack_like(&out->reply, t);

	if (hop_is_old(&t->hop, now))
		resolve(skb, t, &out->fib, p->v6, now);
	bpf_clone_redirect(skb, skb->ifindex, BPF_F_INGRESS);
	__builtin_memcpy(r->dmac, t->hop.dmac, 6);
	__builtin_memcpy(r->smac, t->hop.smac, 6);
	r->flags = ACK | PSH;
	r->seq = out->joined.behind - out->own.payload.len;
	r->with_ts = t->keep_ts && has_ts(p);
	r->with_sack = 0;
	r->wscale = NO_SCALE;
	r->mss = 0;
	r->v6 = p->v6;
	if (!write_payload(skb, r, &out->own.payload))
		return DROP_NOMEM;
	out->action = redirect(&t->hop);
	return verdict;
}
