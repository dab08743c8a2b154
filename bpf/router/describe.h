/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Begins the access log's record of a decided request or hello: see log.h. */
#pragma once

#include "work.h"

/* Copies what user space has read. False: nothing of a head. */
static __always_inline bool recall_head(struct request_log *l, const struct tuple *client)
{
	struct log_head *h = bpf_map_lookup_elem(&log_heads, client);

	if (!h)
		return false;
	l->name_len = h->name_len;
	l->head_len = h->head_len;
	__builtin_memcpy(l->name, h->name, LOG_NAME);
	__builtin_memcpy(l->head, h->head, LOG_HEAD);
	return h->head_len;
}

/* Copies up to len bytes at off of the packet, where the name begins; user space finds the end of a Host. */
static __always_inline void read_log_name(struct __sk_buff *skb, const struct packet *p, struct request_log *l,
					  __u32 off, __u32 len)
{
	__u32 end = p->payload + p->len;

	if (off >= end)
		return;
	if (len > end - off)
		len = end - off;
	if (len > LOG_NAME)
		len = LOG_NAME;
	if (!is_within(len, 1, LOG_NAME) || bpf_skb_load_bytes(skb, off, l->name, len))
		return;
	l->name_len = len;
}

/*
 * Begins d->request for the packet, whose request is decided. One that user space has decided went there first, at
 * d->known.since.
 */
__noinline int describe(struct __sk_buff *skb, const struct packet *p, struct deciding *d)
{
	struct request_log *l;
	__u32 len;

	if (!p || !d)
		return 0;
	l = &d->request;
	l->state = LOG_NONE;
	if (!(d->routing.vip.flags & VIP_LOG))
		return 0;
	__builtin_memset(l, 0, offsetof(struct request_log, name));
	l->state = LOG_BEGUN;
	l->start = bpf_ktime_get_ns();
	l->pool = d->decision.pool;
	if (d->decision.opaque)
		l->flags = LOG_TLS;
	if (d->adopted) {
		l->start -= (clock_ms() - d->known.since) * 1000000ULL;
		if (recall_head(l, &p->key))
			return 0;
	} else if (d->decision.opaque) {
		read_log_name(skb, p, l, d->routing.name_at, d->routing.name_len);
	} else {
		const struct scan *s = &d->reading.scan;

		l->version = word_at(s, s->line - 8) >> 56;
		if (s->head.flags & HEAD_HOST)
			read_log_name(skb, p, l, p->payload + s->host, LOG_NAME);
	}
	if (d->decision.opaque)
		return 0;
	len = p->len > LOG_HEAD ? LOG_HEAD : p->len;
	if (!is_within(len, 1, LOG_HEAD) || bpf_skb_load_bytes(skb, p->payload, l->head, len))
		return 0;
	l->head_len = len;
	return 0;
}
