/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Edits the head of each request on its way to the surrogate: fields that tell it its client, another host, another
 * beginning of the path. docs/handoff.md, "Insertion". What is edited is decided in plan.h.
 */
#pragma once

#include "../wire/verify.h"
#include "header.h"
#include "maps.h"
#include "scan.h"

struct fields_walk {
	struct payload *to;
	const struct edit *from;
	const struct introduction *of;
};

static __always_inline void put_hex(struct payload *h, __u32 value)
{
	for (int shift = 28; shift >= 0; shift -= 4) {
		__u32 digit = value >> shift & 15;

		put_byte(h, digit < 10 ? '0' + digit : 'a' + digit - 10);
	}
}

/* 32 digits: numbers, ports and address of the client, which no other request has while its TCP is sane. */
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
	__u32 at = c->from->first_mark + i;
	bool v6 = !is_mapped(c->of->client.src);
	__u8 b;

	hide(at);
	if (at >= c->from->len || at >= EDIT_TEXT)
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

/* Writes the edit's fields into h, whose rest is zeros. */
static __always_inline void make_fields(struct payload *h, const struct edit *e, const struct introduction *i)
{
	struct fields_walk c = { .to = h, .from = e, .of = i };

	__builtin_memset(h, 0, sizeof(*h));
	__builtin_memcpy(h->bytes, e->text, EDIT_TEXT);
	h->len = e->first_mark;
	bpf_loop(EDIT_TEXT, fields_step, &c, 0);
}

/* Copies the packet's payload from..to to the end of the edited head. False: unreadable, or no room. */
static __always_inline bool keep(struct __sk_buff *skb, const struct packet *p, struct edited *h, __u32 from, __u32 to)
{
	__u32 at = h->len, len = to - from;

	if (from == to)
		return true;
	hide(at);
	if (at > EDITED_BYTES || !is_within(len, 1, HEAD_BYTES) ||
	    bpf_skb_load_bytes(skb, p->payload + from, &h->bytes[at], len))
		return false;
	h->len = at + len;
	return true;
}

/* Appends len of the bytes of an edit's part. */
static __always_inline void put_part(struct edited *h, const __u8 *part, __u32 len)
{
	__u32 at = h->len;

	hide(at);
	if (at > EDITED_BYTES)
		return;
	__builtin_memcpy(&h->bytes[at], part, EDIT_TEXT);
	h->len = at + len;
}

/* Appends blanks, which are no part of the last field's value, until the head is longer than the client's. */
static __always_inline void pad_head(struct edited *h, __u32 longer)
{
	__u32 at = h->len;

	hide(at);
	if (at > EDITED_BYTES || at >= longer)
		return;
	__builtin_memset(&h->bytes[at], ' ', EDIT_PADDING); /* enough: see takes_edit */
	h->len = longer;
}

/* Appends the fields, and what ends the head. */
static __always_inline bool end_head(struct __sk_buff *skb, const struct packet *p, struct edited *h,
				     const struct payload *fields, __u32 head)
{
	__u32 at;

	if (!keep(skb, p, h, head - 2 * LAST_LINE, head - LAST_LINE))
		return false;
	at = h->len;
	hide(at);
	if (at > EDITED_BYTES)
		return false;
	__builtin_memcpy(&h->bytes[at], fields->bytes, PAYLOAD_BYTES);
	h->len = at + fields->len;
	return keep(skb, p, h, head - LAST_LINE, head);
}

/*
 * Writes the edited head of the client's, which is in the packet, into h. fields is for those of the edit. False: it is
 * unreadable.
 */
__noinline int edit_head(struct __sk_buff *skb, const struct packet *p, const struct introduction *i,
			 struct payload *fields, struct edited *h)
{
	__u32 from = 0, head;
	struct edit *e;

	if (!p || !i || !fields || !h)
		return false;
	e = edit_of(i->kind);
	if (!e)
		return false;
	h->len = 0;
	head = h->head;
	make_fields(fields, e, i);
	if (e->prefix_len || e->strip) {
		if (!keep(skb, p, h, 0, h->path))
			return false;
		put_part(h, e->prefix, e->prefix_len);
		from = h->path + e->strip;
	}
	if (e->host_len) {
		if (!keep(skb, p, h, from, h->host))
			return false;
		put_part(h, e->host, e->host_len);
		from = h->host_end;
	}
	if (!keep(skb, p, h, from, head - 2 * LAST_LINE))
		return false;
	pad_head(h, head - 2 * LAST_LINE + !fields->len);
	return end_head(skb, p, h, fields, head) && h->len > head && h->len - head <= PAYLOAD_BYTES;
}

/* Whether the packet can grow by what the edited head is longer. */
static __always_inline bool has_room(struct __sk_buff *skb, const struct packet *p, const struct edited *h, __u32 mss)
{
	return !skb->gso_size && p->len - h->head <= HEAD_BYTES && p->len - h->head + h->len + p->options <= mss;
}

/* Puts the edited head into the packet, which grows. False: no memory. */
__noinline int put_head(struct __sk_buff *skb, struct packet *p, struct edited *h, struct sum_bytes *buffer)
{
	__u32 body, len;
	bool partial;

	if (!p || !h || !buffer)
		return false;
	len = h->len;
	body = p->len - h->head;
	if (!is_within(len, 1, EDITED_BYTES))
		return false;
	if (body &&
	    (!is_within(body, 1, HEAD_BYTES) || bpf_skb_load_bytes(skb, p->payload + h->head, &h->bytes[len], body)))
		return false;
	len += body;
	partial = partial_checksum(skb, p->l4);
	if (!is_within(len, 1, EDITED_BYTES + HEAD_BYTES) || bpf_skb_change_tail(skb, p->payload + len, 0) ||
	    bpf_skb_store_bytes(skb, p->payload, h->bytes, len, 0))
		return false;
	p->len = len;
	return !write_lengths(skb, p) && seal(skb, p, buffer, partial);
}

struct front_walk {
	struct payload *to;
	const struct edited *from;
	__u32 len;
};

static long front_step(__u32 i, struct front_walk *c)
{
	hide(i);
	if (i >= c->len || i >= PAYLOAD_BYTES)
		return 1;
	put_byte(c->to, c->from->bytes[i]);
	return 0;
}

/*
 * Puts the edited head into a packet that cannot grow: its last bytes take the place of the client's head, and its first
 * go into front, for a segment of their own. False: no memory.
 */
__noinline int lay_over(struct __sk_buff *skb, const struct packet *p, const struct edited *h, struct payload *front,
			struct sum_bytes *buffer)
{
	struct front_walk c = { .to = front, .from = h };
	__u32 head, at;
	bool partial;

	if (!p || !h || !front || !buffer)
		return false;
	head = h->head;
	at = h->len - head;
	c.len = at;
	__builtin_memset(front, 0, sizeof(*front));
	bpf_loop(PAYLOAD_BYTES, front_step, &c, 0);
	partial = partial_checksum(skb, p->l4);
	hide(at);
	if (at > PAYLOAD_BYTES || !is_within(head, 1, HEAD_BYTES) ||
	    bpf_skb_store_bytes(skb, p->payload, &h->bytes[at], head, BPF_F_RECOMPUTE_CSUM))
		return false;
	return partial || seal(skb, p, buffer, false);
}
