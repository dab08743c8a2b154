/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Where in its message a packet begins, and how many of its bytes must not pass. */
#pragma once

#include "../wire/packet.h"
#include "http.h"
#include "splice.h"

/*
 * Starts a walk over the packet's new bytes of the current request. False: nothing to walk. The packet is not validated
 * yet, and the record may change before it is: track_request checks that the walk still applies.
 */
static __always_inline bool begin_walk(const struct splice *s, const struct packet *p, struct walk *k)
{
	__u32 seq = p->seq + s->to_server_seq, gap;

	k->at = s->snd_nxt;
	k->from = k->framing = s->request;
	k->left = s->request_left;
	k->chunk = s->request_chunk;
	k->skip = k->hidden = 0;
	k->behind = 0;
	if (!walked(k->framing) || !before(k->at, seq + p->len))
		return false;
	if (before(k->at, seq)) {
		gap = seq - k->at;
		k->hidden = k->left < gap || (k->framing == FRAMING_CHUNKED && k->chunk != CHUNK_DATA);
		k->left -= gap;
		return !k->hidden;
	}
	k->skip = k->at - seq;
	return true;
}

/* Bytes of the client's packet after the current request; its whole length if all of them are. */
static __always_inline __u32 behind_request(const struct splice *s, const struct packet *p, const struct walk *k)
{
	__u32 end = p->seq + s->to_server_seq + p->len, limit = s->snd_nxt, over;

	switch (s->request) {
	case FRAMING_QUIET:
	case FRAMING_DONE:
		break;
	case FRAMING_BODY:
		if (!before(limit, end) || s->request_left >= end - limit)
			return 0;
		limit += s->request_left;
		break;
	case FRAMING_HEAD:
	case FRAMING_CHUNKED:
		return k->hidden ? 0 : k->behind;
	default:
		return 0;
	}
	if (!before(limit, end))
		return 0;
	over = end - limit;
	return over < p->len ? over : p->len;
}

/* Bytes to trim off the client's packet where requests are held. A packet wholly after the request is handled later. */
static __always_inline __u32 cut_of_more(const struct splice *s, const struct packet *p, const struct walk *k)
{
	__u32 over;

	if (p->flags & (SYN | RST) || (quiet(s) && p->seq + s->to_server_seq == s->snd_nxt))
		return 0;
	over = behind_request(s, p, k);
	return over < p->len ? over : 0;
}

/* The same for the first packet of a decided request, of len bytes. */
static __always_inline __u32 cut_of_first(const struct decision *d, const struct walk *k, __u32 len)
{
	if (d->chunked)
		return k->behind;
	return d->request < len ? len - d->request : 0;
}

/*
 * Starts a walk over the packet's new bytes of the response. False: nothing to walk. The packet is not validated yet,
 * and the record may change before it is: track_response checks that the walk still applies.
 */
static __always_inline bool begin_response_walk(const struct splice *s, const struct packet *p, struct walk *k)
{
	__u32 gap;

	k->at = s->rcv_nxt;
	k->from = k->framing = s->response;
	k->left = s->response_left;
	k->chunk = s->chunk;
	k->hidden = 0;
	k->skip = 0;
	gap = p->seq - k->at;
	if (before(k->at, p->seq)) {
		k->hidden = k->from != FRAMING_CHUNKED || k->chunk != CHUNK_DATA || k->left < gap;
		k->left -= gap;
	} else if (before(k->at, p->seq + p->len)) {
		k->skip = k->at - p->seq;
	} else {
		return false; /* retransmission */
	}
	return !k->hidden;
}
