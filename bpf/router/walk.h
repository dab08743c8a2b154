/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Walks chunked request bodies, behind heads that user space has read. */
#pragma once

#include "../session/walk.h"
#include "chunks.h"
#include "maps.h"

/* Continues from k->framing, k->left and k->chunk over the packet's new bytes. */
static __always_inline void walk_on(struct __sk_buff *skb, const struct packet *p, struct walk *k)
{
	struct chunk_walk c = {};
	__u32 off = p->payload + k->skip, end = p->payload + p->len;

	k->done = k->bad = k->hidden = 0;
	k->behind = 0;
	if (k->framing == FRAMING_HEAD) {
		if (k->left > end - off) {
			k->left -= end - off;
			return;
		}
		off += k->left;
		k->left = 0;
		k->framing = FRAMING_CHUNKED;
		k->chunk = CHUNK_SIZE_FIRST;
	}
	c.left = k->left;
	c.chunk = k->chunk;
	walk_chunks(skb, &c, off, end);
	k->left = c.left;
	k->chunk = c.chunk;
	k->done = c.done;
	k->bad = c.bad;
	k->behind = c.behind;
}

/* The first packet of a decided request. */
__noinline int walk_first(struct __sk_buff *skb, const struct packet *p, const struct decision *d, struct walk *k)
{
	if (!p || !d || !k)
		return 0;
	k->framing = FRAMING_HEAD;
	k->left = d->request;
	k->skip = 0;
	walk_on(skb, p, k);
	return 0;
}

/* The state of a decided request of which no byte has been walked. */
static __always_inline void walk_later(const struct decision *d, struct walk *k)
{
	__builtin_memset(k, 0, sizeof(*k));
	k->framing = FRAMING_HEAD;
	k->left = d->request;
}

/*
 * Walks a client's packet while its request needs it. The lock is not held: client_event checks that the walk still
 * applies.
 */
__noinline int walk_request(struct __sk_buff *skb, const struct packet *p, __u32 idx, struct walk *k)
{
	struct splice *s = splice_at(idx);

	if (s && p && k && begin_walk(s, p, k))
		walk_on(skb, p, k);
	return 0;
}
