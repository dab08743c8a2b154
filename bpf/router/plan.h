/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What of the router's own goes with a request, and whether its head can be edited: docs/handoff.md, "Insertion". */
#pragma once

#include "decide.h"
#include "legs.h"
#include "work.h"

/*
 * Whether the head that s has read can be edited: it is in one segment, which the client repeats whole, and nothing in it
 * could make a surrogate believe the client's own words or see another request.
 */
static __always_inline bool takes_edit(struct __sk_buff *skb, const struct packet *p, const struct scan *s,
				       const struct edit *e)
{
	__u32 gone = e->strip;

	if (s->end != SCAN_OK || s->head.flags & (HEAD_WATCHED | HEAD_CODED | HEAD_UPGRADE) || s->size > p->len ||
	    (skb->gso_size && s->size > skb->gso_size))
		return false;
	if (e->host_len) {
		if (!(s->head.flags & HEAD_HOST))
			return false;
		gone += s->host_end - s->host;
	}
	if (gone > EDIT_PADDING)
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

/* Keeps what the edit needs of the scan: places in the client's head. */
static __always_inline void note_places(struct edited *at, const struct scan *s)
{
	at->head = s->size;
	at->path = s->path;
	at->host = s->host;
	at->host_end = s->host_end;
}

/* Reads the head at the packet's start, as decide does. */
static __always_inline void read_head(struct __sk_buff *skb, const struct packet *p, struct scan *s,
				      const struct vip *vip)
{
	watch_names(s, vip);
	scan_head(skb, p, s);
}

/*
 * Notes what of our own goes with the decided request, and its head if that is edited. False: its head has to be edited
 * and cannot: the proxy sends it.
 */
__noinline int plan_header(struct __sk_buff *skb, const struct packet *p, struct deciding *d, struct own_bytes *own,
			   __u32 salt)
{
	struct introduction *i;
	struct edit *e;
	struct scan *s;

	if (!p || !d || !own)
		return false;
	s = &d->reading.scan;
	i = &own->introduction;
	i->kind = d->decision.header ?: header_of(d->routing.generation, d->decision.pool);
	i->head = 0;
	if (i->kind < HEADER_EDIT)
		return true;
	if (d->adopted)
		read_head(skb, p, s, &d->routing.vip);
	e = edit_of(i->kind);
	if (!e || !takes_edit(skb, p, s, e) || d->decision.chunked || d->decision.upgrade || d->decision.opaque ||
	    d->decision.request != length_of(s))
		return false;
	i->head = s->size;
	i->sum = digest(s, salt);
	note_places(&own->edited, s);
	return true;
}

/*
 * Reads a head that the client repeats, before the session is locked, and notes its places in at. False: it would not
 * be edited as the header says.
 */
__noinline int read_again(struct __sk_buff *skb, const struct packet *p, struct deciding *d, struct edited *at,
			  __u32 header)
{
	struct edit *e = edit_of(header);
	struct scan *s;

	if (!p || !d || !at || !e || !to_vip(p, &d->routing))
		return false;
	s = &d->reading.scan;
	read_head(skb, p, s, &d->routing.vip);
	note_places(at, s);
	return takes_edit(skb, p, s, e);
}
