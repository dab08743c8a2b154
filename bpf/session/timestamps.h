/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The timestamp clocks of both legs (RFC 7323), and which clients' RTTs a leg fits. */
#pragma once

#include "../wire/packet.h"
#include "splice.h"

/* Half of the range within which a timestamp counts as newer (RFC 7323, 5.2): 12 days of our clock. */
#define TS_AHEAD (1U << 30)

/*
 * Records the timestamp sent to the surrogate, which may drop the packet. The next client's timestamps start after all
 * that the surrogate may have accepted, and after our clock. So a timestamp must not be further from our clock, or from
 * what the surrogate has echoed, than PAWS still takes as newer.
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

/*
 * The first packet from the surrogate after a handoff sets the offset between its clock and the one the client has
 * seen.
 */
static __always_inline void anchor(struct splice *s, const struct packet *p, __u32 clock)
{
	if (!(s->flags & SPLICE_ANCHOR) || !has_ts(p))
		return;
	s->ts_to_client = later(clock, s->ts_client) - p->tsval;
	s->flags &= ~SPLICE_ANCHOR;
}

/* The shortest RTT of a band, in ms. */
static __always_inline __u32 shortest_of(__u32 band)
{
	if (band >= BAND_64MS)
		return 64 + (band - BAND_64MS) * 8;
	if (band >= BAND_4MS)
		return 4 + (band - BAND_4MS) * 4;
	return 0;
}

/* Drift allowed between our clock and the surrogate's, in ms. */
#define CLOCK_ERROR 8

/*
 * An ACK from the client. Its handshake may have taken longer than the path's RTT; then the surrogate has measured less
 * than the leg's band says.
 */
static __always_inline void doubt_band(struct splice *s, const struct packet *p, __u32 clock)
{
	if (s->band >= BAND_4MS && s->flags & SPLICE_TS && !(s->flags & SPLICE_ANCHOR) && has_ts(p) &&
	    before(clock - p->tsecr + CLOCK_ERROR, shortest_of(s->band)))
		s->band = BAND_FAR;
}

/* Bytes of a response to a distant client beyond which the congestion window is adapted to that client. */
#define LITTLE_BYTES 65536

/*
 * Whether the leg has reached its request limit, or its surrogate's view of this client's path would be wrong for the
 * next one. Estimates of a near path are corrected within a few round trips.
 */
static __always_inline bool is_worn(const struct splice *s, __u32 limit)
{
	return s->requests >= limit || s->band >= BAND_FAR ||
	       (s->band >= BAND_4MS && s->bytes_to_client > LITTLE_BYTES);
}
