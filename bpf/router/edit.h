/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Edits the head of each request on its way to the surrogate: fields that tell it its client, another host, another
 * beginning of the path. docs/handoff.md, "Insertion".
 */
#pragma once

#include "decide.h"
#include "hold.h"
#include "legs.h"
#include "work.h"

#define LAST_LINE 2 /* bytes: a head's last, empty line, which the fields go in front of */

static __always_inline struct edit *edit_of(__u32 header)
{
	__u32 number = header - HEADER_EDIT;

	return bpf_map_lookup_elem(&edits, &number);
}

/*
 * Whether the head that s has read can be edited: it is in one segment, which the client repeats whole, and nothing in it
 * could make a surrogate believe the client's own words or see another request.
 */
static __always_inline bool takes_edit(struct __sk_buff *skb, const struct packet *p, const struct scan *s,
				       const struct edit *e)
{
	if (s->end != SCAN_OK || s->head.flags & (HEAD_WATCHED | HEAD_CODED | HEAD_UPGRADE) || s->size > p->len ||
	    (skb->gso_size && s->size > skb->gso_size))
		return false;
	if (e->host_len && !(s->head.flags & HEAD_HOST))
		return false;
	if (!e->prefix_len && !e->strip)
		return true;
	return s->path && s->line > s->path + e->strip && s->line + 2 * LAST_LINE < s->size; /* it has a field to pad */
}

static __always_inline __u64 length_of(const struct scan *s)
{
	return s->size + (s->head.flags & HEAD_LENGTH ? s->head.length : 0);
}

struct digest_walk {
	const struct scan *of;
	__u64 key;
	__u64 sum;
};

/* A key for each word, by splitmix64. */
static __always_inline __u64 key_at(__u64 key, __u32 i)
{
	__u64 z = key + (i + 1) * 0x9e3779b97f4a7c15ULL;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ULL;
	z = (z ^ z >> 27) * 0x94d049bb133111ebULL;
	return z ^ z >> 31;
}

static long digest_step(__u32 i, struct digest_walk *c)
{
	__u32 off = i * 8, left = c->of->size - off;
	__u64 x = word_at(c->of, off), k = key_at(c->key, i);

	if (off >= c->of->size)
		return 1;
	if (left < 8)
		x = FIRST(left, x);
	c->sum += (__u64)(__u32)(x + k) * (__u32)((x >> 32) + (k >> 32));
	return 0;
}

/* A sum of the head's bytes (NH of UMAC, RFC 4418, 5.2.2): without the key nobody can tell another head that has it. */
static __always_inline __u64 digest(const struct scan *s, __u32 salt)
{
	struct digest_walk c = { .of = s, .key = salt };

	bpf_loop((HEAD_BYTES + 7) / 8, digest_step, &c, 0);
	return c.sum;
}

/* Keeps what the edit needs of the scan, whose memory others use too. */
static __always_inline void note_places(struct places *at, const struct scan *s)
{
	at->path = s->path;
	at->host = s->host;
	at->host_end = s->host_end;
}

/* Reads the head at the packet's start, as decide does. */
static __always_inline void read_head(struct __sk_buff *skb, const struct packet *p, struct scan *s,
				      const struct vip *vip)
{
	watch_names(s, vip);
	if (scan_head(skb, p, s) == SCAN_OK)
		method_of(word_at(s, 0), &s->path);
}

/*
 * Notes what of our own goes with the decided request, and its head if that is edited. adopted: by user space, so its head
 * has not been read here. False: its head has to be edited and cannot: the proxy sends it.
 */
__noinline int plan_header(struct __sk_buff *skb, bool adopted, __u32 salt)
{
	struct work *w = work();
	struct edit *e;
	struct scan *s;

	if (!w)
		return false;
	s = &w->reading.scan;
	w->introduction.kind = w->decision.header ?: header_of(w->routing.generation, w->decision.pool);
	w->introduction.head = 0;
	if (w->introduction.kind < HEADER_EDIT)
		return true;
	if (adopted)
		read_head(skb, &w->packet, s, &w->routing.vip);
	e = edit_of(w->introduction.kind);
	if (!e || !takes_edit(skb, &w->packet, s, e) || w->decision.chunked || w->decision.upgrade ||
	    w->decision.opaque || w->decision.request != length_of(s))
		return false;
	w->introduction.head = s->size;
	w->introduction.sum = digest(s, salt);
	note_places(&w->places, s);
	return true;
}

/* Reads a head that the client repeats, before the session is locked. False: it would not be edited as the header says. */
__noinline int read_again(struct __sk_buff *skb, __u32 header)
{
	struct edit *e = edit_of(header);
	struct work *w = work();
	struct scan *s;

	if (!w || !e || !to_vip(&w->packet, &w->routing))
		return false;
	s = &w->reading.scan;
	read_head(skb, &w->packet, s, &w->routing.vip);
	note_places(&w->places, s);
	return takes_edit(skb, &w->packet, s, e);
}

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
	hide(len);
	if (at > EDITED_BYTES || len < 1 || len > HEAD_BYTES ||
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
	__builtin_memset(&h->bytes[at], ' ', EDIT_TEXT);
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
 * Writes the edited head into w->edited, and how much longer it is than the client's, which is in the packet, into
 * w->introduction.len. False: the packet is unreadable.
 */
__noinline int edit_head(struct __sk_buff *skb)
{
	struct work *w = work();
	struct edited *h;
	__u32 head, from = 0;
	struct edit *e;

	if (!w)
		return false;
	e = edit_of(w->introduction.kind);
	if (!e)
		return false;
	h = &w->edited;
	h->len = 0;
	head = w->introduction.head;
	make_fields(&w->payload, e, &w->introduction);
	if (e->prefix_len || e->strip) {
		if (!keep(skb, &w->packet, h, 0, w->places.path))
			return false;
		put_part(h, e->prefix, e->prefix_len);
		from = w->places.path + e->strip;
	}
	if (e->host_len) {
		if (!keep(skb, &w->packet, h, from, w->places.host))
			return false;
		put_part(h, e->host, e->host_len);
		from = w->places.host_end;
	}
	if (!keep(skb, &w->packet, h, from, head - 2 * LAST_LINE))
		return false;
	pad_head(h, head - 2 * LAST_LINE + !w->payload.len);
	if (!end_head(skb, &w->packet, h, &w->payload, head))
		return false;
	w->introduction.len = h->len - head;
	return h->len > head && h->len - head <= PAYLOAD_BYTES;
}

/* Whether the packet can grow by what the edited head is longer. */
static __always_inline bool has_room(struct __sk_buff *skb, const struct work *w)
{
	const struct packet *p = &w->packet;

	return !skb->gso_size && p->len - w->introduction.head <= HEAD_BYTES &&
	       p->len + w->introduction.len + p->options <= w->routing.vip.mss;
}

/* Puts the edited head into the packet, which grows. False: no memory. */
__noinline int put_head(struct __sk_buff *skb)
{
	struct work *w = work();
	__u32 at, body, len;
	struct packet *p;
	bool partial;

	if (!w)
		return false;
	p = &w->packet;
	at = p->payload + w->introduction.head;
	body = p->len - w->introduction.head;
	if (body) {
		hide(body);
		if (body < 1 || body > HEAD_BYTES || bpf_skb_load_bytes(skb, at, w->reading.scan.bytes, body))
			return false;
	}
	partial = partial_checksum(skb, p->l4);
	len = w->edited.len;
	hide(len);
	if (len < 1 || len > EDITED_BYTES || bpf_skb_change_tail(skb, p->payload + len + body, 0) ||
	    bpf_skb_store_bytes(skb, p->payload, w->edited.bytes, len, 0))
		return false;
	if (body) {
		hide(body);
		if (body < 1 || body > HEAD_BYTES ||
		    bpf_skb_store_bytes(skb, p->payload + len, w->reading.scan.bytes, body, 0))
			return false;
	}
	p->len = len + body;
	return !write_lengths(skb, p) && seal(skb, p, &w->sum, partial);
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
 * go into w->payload, for a segment of their own. False: no memory.
 */
__noinline int lay_over(struct __sk_buff *skb)
{
	struct work *w = work();
	struct front_walk c = {};
	__u32 head, at;
	bool partial;

	if (!w)
		return false;
	head = w->introduction.head;
	at = w->introduction.len;
	c.to = &w->payload;
	c.from = &w->edited;
	c.len = at;
	__builtin_memset(&w->payload, 0, sizeof(w->payload));
	bpf_loop(PAYLOAD_BYTES, front_step, &c, 0);
	partial = partial_checksum(skb, w->packet.l4);
	hide(at);
	hide(head);
	if (at > PAYLOAD_BYTES || head < 1 || head > HEAD_BYTES ||
	    bpf_skb_store_bytes(skb, w->packet.payload, &w->edited.bytes[at], head, BPF_F_RECOMPUTE_CSUM))
		return false;
	return partial || seal(skb, &w->packet, &w->sum, false);
}
