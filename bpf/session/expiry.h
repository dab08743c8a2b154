/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sessions that have timed out or whose surrogate is down. */
#pragma once

#include "state.h"

#define UNREPORTED_MS 5000 /* a dead leg that user space has not freed: its event was lost */

/* Idle timeout, or the closing timeout once a FIN was seen. */
static __always_inline bool has_expired(const struct splice *s, __u32 idle, __u32 closing, __u32 now)
{
	switch (s->state) {
	case SPLICE_ACTIVE:
		return past(s->seen, idle, now);
	case SPLICE_CLOSING:
		return past(s->seen, closing, now);
	}
	return false;
}

/*
 * The session waits for this surrogate, which has acknowledged none of its request: the client still has all of it. A
 * surrogate may be working on what it has acknowledged.
 */
static __always_inline bool waits_for(const struct splice *s, __u32 surrogate)
{
	return s->state == SPLICE_ACTIVE && s->surrogate == surrogate && s->client_requests == 1 &&
	       s->rcv_nxt == s->rcv_base && !before(s->snd_base, s->snd_una);
}

static __always_inline bool is_unreported(const struct splice *s, __u32 now)
{
	return s->state == SPLICE_DEAD && past(s->since, UNREPORTED_MS, now);
}
