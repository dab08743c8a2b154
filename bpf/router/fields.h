/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Fields in the head of each request that tell a surrogate its client: which requests can have them, and how they get
 * into the packet. docs/handoff.md, "Insertion".
 */
#pragma once

#include "decide.h"
#include "hold.h"
#include "legs.h"
#include "work.h"

#define LAST_LINE 2 /* bytes: the end of a head's last, empty line, which the fields go in front of */

/*
 * Whether fields fit into the head that s has read: it is in one segment, which the client repeats whole, and nothing in
 * it could make a surrogate believe the client's own words or see another request.
 */
static __always_inline bool takes_fields(struct __sk_buff *skb, const struct packet *p, const struct scan *s)
{
	return s->end == SCAN_OK && !(s->head.flags & (HEAD_WATCHED | HEAD_CODED | HEAD_UPGRADE)) &&
	       s->size > LAST_LINE && s->size <= p->len && (!skb->gso_size || s->size <= skb->gso_size);
}

static __always_inline __u64 length_of(const struct scan *s)
{
	return s->size + (s->head.flags & HEAD_LENGTH ? s->head.length : 0);
}

/*
 * Notes how the decided request's surrogate learns its client, and the head for fields. adopted: by user space, so its
 * head has not been read here. False: the pool wants fields and the request cannot have them: the proxy sends it.
 */
__noinline int plan_header(struct __sk_buff *skb, bool adopted)
{
	struct work *w = work();
	struct scan *s;

	if (!w)
		return false;
	s = &w->reading.scan;
	w->introduction.kind = header_of(w->routing.generation, w->decision.pool);
	w->introduction.head = 0;
	if (w->introduction.kind < HEADER_FIELDS)
		return true;
	if (adopted) {
		watch_names(s, &w->routing.vip);
		scan_head(skb, &w->packet, s);
	}
	if (!takes_fields(skb, &w->packet, s) || w->decision.chunked || w->decision.upgrade || w->decision.opaque ||
	    w->decision.request != length_of(s))
		return false;
	w->introduction.head = s->size;
	return true;
}

/* Reads a head that the client repeats, before the session is locked. */
__noinline int read_again(struct __sk_buff *skb, struct packet *p, struct scan *s, struct routing *q)
{
	if (!p || !s || !q || !to_vip(p, q))
		return false;
	watch_names(s, &q->vip);
	scan_head(skb, p, s);
	return takes_fields(skb, p, s);
}

struct fields_walk {
	struct payload *to;
	const struct fields *from;
	const struct introduction *of;
};

static __always_inline void put_hex(struct payload *h, __u32 value)
{
	for (int shift = 28; shift >= 0; shift -= 4) {
		__u32 digit = value >> shift & 15;

		put_byte(h, digit < 10 ? '0' + digit : 'a' + digit - 10);
	}
}

/* 32 digits: the client's address, ports and number, which no other request has while the clock of its TCP is sane. */
__noinline int put_request_id(struct payload *h, const struct introduction *i)
{
	__u32 low, ports;

	if (!h || !i)
		return 0;
	__builtin_memcpy(&low, &i->client.src[12], 4);
	__builtin_memcpy(&ports, &i->client.sport, 4);
	put_hex(h, i->seq);
	put_hex(h, i->ack);
	put_hex(h, bpf_ntohl(ports));
	put_hex(h, bpf_ntohl(low));
	return 0;
}

/* An address of Forwarded (RFC 7239, 6). */
static __always_inline void put_node(struct payload *h, const struct introduction *i, bool v6)
{
	if (v6) {
		put_byte(h, '"');
		put_byte(h, '[');
	}
	put_address(h, i, false, v6);
	if (v6) {
		put_byte(h, ']');
		put_byte(h, '"');
	}
}

static long fields_step(__u32 i, struct fields_walk *c)
{
	__u32 at = c->from->first + i;
	bool v6 = !is_mapped(c->of->client.src);
	__u8 b;

	hide(at);
	if (at >= c->from->len || at >= FIELDS_TEXT)
		return 1;
	b = c->from->text[at];
	switch (b) {
	case MARK_ADDRESS:
		put_address(c->to, c->of, false, v6);
		break;
	case MARK_NODE:
		put_node(c->to, c->of, v6);
		break;
	case MARK_REQUEST_ID:
		put_request_id(c->to, c->of);
		break;
	default:
		put_byte(c->to, b);
	}
	return 0;
}

/* Writes the fields into h. */
__noinline int make_fields(struct payload *h, const struct introduction *i)
{
	struct fields_walk c = { .to = h, .of = i };
	__u32 number;

	if (!h || !i)
		return 0;
	__builtin_memset(h, 0, sizeof(*h));
	number = i->kind - HEADER_FIELDS;
	c.from = bpf_map_lookup_elem(&field_texts, &number);
	if (!c.from)
		return 0;
	__builtin_memcpy(h->bytes, c.from->text, FIELDS_TEXT);
	h->len = c.from->first;
	bpf_loop(FIELDS_TEXT, fields_step, &c, 0);
	return 0;
}

/* Whether the fields fit into the packet itself. */
static __always_inline bool has_room(struct __sk_buff *skb, const struct work *w)
{
	const struct packet *p = &w->packet;

	return !skb->gso_size && p->len - w->introduction.head <= HEAD_BYTES &&
	       p->len + w->payload.len + p->options <= w->routing.vip.mss;
}

/* Puts the fields into the packet, which grows. False: no memory. */
__noinline int insert_fields(struct __sk_buff *skb)
{
	struct work *w = work();
	__u32 at, moved, add;
	struct packet *p;
	bool partial;

	if (!w)
		return false;
	p = &w->packet;
	add = w->payload.len;
	at = p->payload + w->introduction.head - LAST_LINE;
	moved = p->len - w->introduction.head + LAST_LINE;
	hide(moved);
	if (moved < 1 || moved > HEAD_BYTES + LAST_LINE || bpf_skb_load_bytes(skb, at, w->reading.scan.bytes, moved))
		return false;
	hide(add);
	partial = partial_checksum(skb, p->l4);
	if (add < 1 || add > PAYLOAD_BYTES || bpf_skb_change_tail(skb, p->payload + p->len + add, 0) ||
	    bpf_skb_store_bytes(skb, at, w->payload.bytes, add, 0) ||
	    bpf_skb_store_bytes(skb, at + add, w->reading.scan.bytes, moved, 0))
		return false;
	p->len += add;
	return !write_lengths(skb, p) && seal(skb, p, &w->sum, partial);
}

struct join_walk {
	struct payload *to;
	const struct payload *from;
	__u32 len;
};

static long join_step(__u32 i, struct join_walk *c)
{
	hide(i);
	if (i >= c->len || i >= PAYLOAD_BYTES)
		return 1;
	put_byte(c->to, c->from->bytes[i]);
	return 0;
}

/* Reads the first len bytes of the packet's payload into w->front. */
static __always_inline bool read_front(struct __sk_buff *skb, struct work *w, __u32 len)
{
	__builtin_memset(&w->front, 0, sizeof(w->front));
	hide(len);
	if (len < 1 || len > PAYLOAD_BYTES || bpf_skb_load_bytes(skb, w->packet.payload, w->front.bytes, len))
		return false;
	w->front.len = len;
	return true;
}

/* See lay_over, for a head that is no longer than the fields. */
static __always_inline bool lay_over_short(struct __sk_buff *skb, struct work *w, __u32 before_fields, __u32 add)
{
	struct join_walk c = { .to = &w->front, .from = &w->payload, .len = add - before_fields };
	__u32 from = add - before_fields, len = before_fields;

	if (!read_front(skb, w, before_fields))
		return false;
	bpf_loop(PAYLOAD_BYTES, join_step, &c, 0);
	hide(from);
	hide(len);
	return from < PAYLOAD_BYTES && len >= 1 && len <= PAYLOAD_BYTES && from + len <= PAYLOAD_BYTES &&
	       !bpf_skb_store_bytes(skb, w->packet.payload, &w->payload.bytes[from], len, BPF_F_RECOMPUTE_CSUM);
}

/* See lay_over, for a head that is longer than the fields. */
static __always_inline bool lay_over_long(struct __sk_buff *skb, struct work *w, __u32 before_fields, __u32 add)
{
	__u32 rest = before_fields - add, at = w->packet.payload;
	__u8 *bytes = w->reading.scan.bytes;

	hide(rest);
	if (!read_front(skb, w, add) || rest > HEAD_BYTES)
		return false;
	hide(add);
	if (rest && (bpf_skb_load_bytes(skb, at + add, bytes, rest) ||
		     bpf_skb_store_bytes(skb, at, bytes, rest, BPF_F_RECOMPUTE_CSUM)))
		return false;
	return add >= 1 && add <= PAYLOAD_BYTES &&
	       !bpf_skb_store_bytes(skb, at + rest, w->payload.bytes, add, BPF_F_RECOMPUTE_CSUM);
}

/*
 * Puts the fields into a packet that cannot grow: the last bytes of the head with them take the place of the client's,
 * and w->front has the first, for a segment of their own. False: no memory.
 */
__noinline int lay_over(struct __sk_buff *skb)
{
	struct work *w = work();
	__u32 before_fields, add;
	bool partial, done;

	if (!w)
		return false;
	add = w->payload.len;
	before_fields = w->introduction.head - LAST_LINE;
	partial = partial_checksum(skb, w->packet.l4);
	done = before_fields < add ? lay_over_short(skb, w, before_fields, add)
				   : lay_over_long(skb, w, before_fields, add);
	return done && (partial || seal(skb, &w->packet, &w->sum, false));
}
