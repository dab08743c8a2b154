/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What a client was promised in its handshake. Our initial sequence number is always a SYN cookie, so no state is needed until the
 * first request byte. Window shift and SACK ride in the low bits of the timestamp that we send (as in Linux); a client whose
 * options they cannot carry (no timestamps, or an MSS that asks for legs of another class than the usual one does) gets
 * an entry in the table of promised options, while there is room.
 */
#pragma once

#include "../kernel/clock.h"
#include "../wire/packet.h"
#include "maps.h"

#define TS_OPTION_BITS 6
#define TS_OPTION_MASK ((1 << TS_OPTION_BITS) - 1)
#define TS_NO_WSCALE   15
#define TS_SACK        16
#define TS_OTHER_MSS   32 /* promised; if there was no room to remember it, below the usual one */
#define MSS_USUAL_V4   1460
#define MSS_USUAL_V6   1440

/* Our clock for timestamps, in ms. */
static __always_inline __u32 ts_clock(const struct config *set)
{
	return clock_ms() + set->ts_offset;
}

/* The timestamp of a SYN-ACK: not after now, so that later ones never go back (RFC 7323, 5). */
static __always_inline __u32 ts_with_options(__u32 now, __u32 bits)
{
	__u32 ts = (now & ~TS_OPTION_MASK) | bits;

	return before(now, ts) ? ts - (1 << TS_OPTION_BITS) : ts;
}

static __always_inline __u16 usual_mss(bool v6)
{
	return v6 ? MSS_USUAL_V6 : MSS_USUAL_V4;
}

/* The largest MSS class that is not above mss. */
static __always_inline __u32 mss_class(const struct config *set, __u16 mss)
{
	__u32 best = 0;

#pragma unroll
	for (int i = 1; i < MSS_CLASSES; i++)
		if (set->mss[i] && set->mss[i] <= mss)
			best = i;
	return best;
}

/* The class of legs that fits a client: its timestamps, and its MSS. */
static __always_inline __u32 class_for(const struct config *set, const struct client *c)
{
	return mss_class(set, c->mss) << 1 | !!(c->flags & CLIENT_TS);
}

/* Of the packet's client, whose first byte has this number. Returns key. */
static __always_inline struct syn_key *syn_key_of(struct syn_key *key, const struct packet *p, __u32 seq)
{
	key->client = p->key;
	key->seq = seq;
	return key;
}

/* Whether the options of the client at hand may be among those promised. */
static __always_inline bool may_be_kept(const struct packet *p)
{
	return !has_ts(p) || p->tsecr & TS_OTHER_MSS;
}

enum known { NOT_KNOWN, KNOWN, KNOWN_CHANGING };

/*
 * Copies what is known of a client. User space changes it meanwhile, and memory that the map gives up is at once another client's: only
 * a copy of what is still in its place is whole.
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

/* The options of the packet's client, whose first byte has the key's number: as promised, or as it echoes them. */
static __always_inline void recall_client(const struct packet *p, const struct syn_key *key, struct client *c)
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
