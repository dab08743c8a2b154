/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The clocks of both legs (RFC 7323), and what round trips say about whom a leg may serve next. */
#pragma once

#include "../wire/packet.h"
#include "splice.h"

/* Half of what a timestamp may lie ahead without being taken for one of the past (RFC 7323, 5.2): 12 days of our clock. */
#define TS_AHEAD (1U << 30)

/*
 * The surrogate gets the client's timestamp, but may discard the packet. What it gets of its next client begins
 * behind all that it may have taken, and behind our clock: so none of it may be further from our clock, or from what the surrogate
 * has echoed, than it would take for one of the future.
 */
static __always_inline void note_sent_ts(struct splice *s, const struct packet *p, __u32 clock)
{
	__u32 tsval = p->tsval + s->ts_to_server;

	if (!has_ts(p) || !(s->flags & SPLICE_TS))
		return;
	s->ts_sent = later(s->ts_sent, tsval);
	if (s->ts_sent - s->ts_echoed > TS_AHEAD || tsval - clock + TS_AHEAD > 2 * TS_AHEAD)
		s->flags |= SPLICE_SPOILT;
}

/* The first packet of the surrogate behind a handoff sets the difference of its clock to the one that the client has seen before. */
static __always_inline void anchor(struct splice *s, const struct packet *p, __u32 clock)
{
	if (!(s->flags & SPLICE_ANCHOR) || !has_ts(p))
		return;
	s->ts_to_client = later(clock, s->ts_client) - p->tsval;
	s->flags &= ~SPLICE_ANCHOR;
}

/* The shortest round trip of a band, in ms. */
static __always_inline __u32 shortest_of(__u32 band)
{
	if (band >= BAND_64MS)
		return 64 + (band - BAND_64MS) * 8;
	if (band >= BAND_4MS)
		return 4 + (band - BAND_4MS) * 4;
	return 0;
}

/* What our clock and the surrogate's may be off by, in ms, beside each other. */
#define CLOCK_ERROR 8

/*
 * An ACK of the client. Its handshake may have taken longer than its path is long: then the leg's surrogate has
 * measured less than the leg's band says.
 */
static __always_inline void doubt_band(struct splice *s, const struct packet *p, __u32 clock)
{
	if (s->band >= BAND_4MS && s->flags & SPLICE_TS && !(s->flags & SPLICE_ANCHOR) && has_ts(p) &&
	    before(clock - p->tsecr + CLOCK_ERROR, shortest_of(s->band)))
		s->band = BAND_FAR;
}

/* Of a response to a client that is not near: more, and the surrogate's congestion window is that client's. */
#define LITTLE_BYTES 65536

/*
 * Whether the leg has served enough, or what its surrogate has learnt of the path of this client would be
 * wrong for the next. A near one is soon put right: that takes some round trips.
 */
static __always_inline bool is_worn(const struct splice *s, __u32 limit)
{
	return s->requests >= limit || s->band >= BAND_FAR ||
	       (s->band >= BAND_4MS && s->bytes_to_client > LITTLE_BYTES);
}
