/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Options of the handshake with a client. Our initial sequence number is always a SYN cookie, so no state is needed
 * before the first request byte. Window scale and SACK are encoded in the low bits of our TSval, as Linux does. A
 * client whose options do not fit there (no timestamps, or an MSS that needs another leg class than the usual one) gets
 * an entry in syn_options, if there is space.
 */
#pragma once

#include "../kernel/clock.h"
#include "../wire/packet.h"
#include "maps.h"

#define TS_OPTION_BITS 6
#define TS_OPTION_MASK ((1 << TS_OPTION_BITS) - 1)
#define TS_NO_WSCALE   15
#define TS_SACK        16
#define TS_OTHER_MSS   32 /* see syn_options; without an entry: below the usual MSS */
#define MSS_USUAL_V4   1460
#define MSS_USUAL_V6   1440

/* Our timestamp clock, in ms. */
static __always_inline __u32 ts_clock(const struct config *set)
{
	return clock_ms() + set->ts_offset;
}

/* The timestamp of a SYN-ACK: never later than now, so that timestamps do not go back (RFC 7323, 5). */
static __always_inline __u32 ts_with_options(__u32 now, __u32 bits)
{
	__u32 ts = (now & ~TS_OPTION_MASK) | bits;

	return before(now, ts) ? ts - (1 << TS_OPTION_BITS) : ts;
}

static __always_inline __u16 usual_mss(bool v6)
{
	return v6 ? MSS_USUAL_V6 : MSS_USUAL_V4;
}

/* The largest MSS class that is at most mss. */
static __always_inline __u32 mss_class(const struct config *set, __u16 mss)
{
	__u32 best = 0;

#pragma unroll
	for (int i = 1; i < MSS_CLASSES; i++)
		if (set->mss[i] && set->mss[i] <= mss)
			best = i;
	return best;
}

/* The leg class that fits a client: its timestamps and MSS. */
static __always_inline __u32 class_for(const struct config *set, const struct client *c)
{
	return mss_class(set, c->mss) << 1 | !!(c->flags & CLIENT_TS);
}

/* The key of the packet's client, whose first byte has number seq. Returns key. */
static __always_inline struct syn_options_key *syn_key_of(struct syn_options_key *key, const struct packet *p,
							  __u32 seq)
{
	key->client = p->key;
	key->seq = seq;
	return key;
}

/* Whether the current client may have an entry in syn_options. */
static __always_inline bool may_be_kept(const struct packet *p)
{
	return !has_ts(p) || p->tsecr & TS_OTHER_MSS;
}

enum known { NOT_KNOWN, KNOWN, KNOWN_CHANGING };

/*
 * Copies a client's entry. User space changes it concurrently, and the map may reuse its memory at once for another
 * client: the copy is valid only if the entry is still in place.
 */
static __always_inline int lookup_client(const struct tuple *key, struct client *known)
{
	struct client *c = bpf_map_lookup_elem(&clients, key);

	if (!c)
		return NOT_KNOWN;
	*known = *c;
	barrier();
	return bpf_map_lookup_elem(&clients, key) == c ? KNOWN : KNOWN_CHANGING;
}

/*
 * The options of the packet's client, whose first byte has the key's number: from syn_options, or from the echoed
 * timestamp.
 */
static __always_inline void recall_options(const struct packet *p, const struct syn_options_key *key, struct client *c)
{
	__u32 bits = p->tsecr & TS_OPTION_MASK;
	struct client *kept = NULL;

	if (may_be_kept(p))
		kept = bpf_map_lookup_elem(&syn_options, key);
	if (kept) {
		*c = *kept;
		return;
	}
	__builtin_memset(c, 0, sizeof(*c));
	c->mss = MSS_DEFAULT_V4;
	if (!has_ts(p))
		return;
	if (!(bits & TS_OTHER_MSS))
		c->mss = usual_mss(p->v6);
	c->flags = CLIENT_TS;
	if (bits & TS_SACK)
		c->flags |= CLIENT_SACK;
	if ((bits & 15) != TS_NO_WSCALE) {
		c->flags |= CLIENT_WSCALE;
		c->wscale = bits & 15;
	}
}

/* The same; the MSS is what also fits the way from here to the client. */
static __always_inline void recall_client(const struct packet *p, const struct config *set,
					  const struct syn_options_key *key, struct client *c)
{
	__u32 headers = ip_bytes(p->v6) + TCP_BYTES;

	recall_options(p, key, c);
	if (set->mtu > headers && set->mtu - headers < c->mss)
		c->mss = set->mtu - headers;
}
