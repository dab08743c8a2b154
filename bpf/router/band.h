/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The RTT of a client's handshake, measured without state that a SYN flood could exhaust. */
#pragma once

#include "../kernel/clock.h"
#include "maps.h"

/*
 * Linux ends slow start (HyStart) when the RTT exceeds the minimum by an eighth, at least 4 and at most 16 ms; and with
 * BBR a window computed from half the RTT still fills the path. So bands are 4 ms or an eighth wide, and nearer ones
 * double.
 */
static __always_inline __u32 band_of(__u32 us)
{
	__u32 band = BAND_NEAREST;

	if (us >= 128000)
		return BAND_FAR;
	if (us >= 64000)
		return BAND_64MS + (us - 64000) / 8000;
	if (us >= 4000)
		return BAND_4MS + (us - 4000) / 4000;
#pragma unroll
	for (int shift = 0; shift < 4; shift++)
		band += us >= 250U << shift;
	return band;
}

static __always_inline struct handshake *handshake_at(__u32 cookie)
{
	__u32 slot = (cookie * 2654435761U) >> 16 & (HANDSHAKES - 1);

	return bpf_map_lookup_elem(&handshakes, &slot);
}

static __always_inline __u32 clock_us(void)
{
	return bpf_ktime_get_ns() / 1000 & (HANDSHAKE_DONE - 1);
}

static __always_inline void note_handshake(struct handshake *at, __u32 cookie, __u32 us)
{
	*(volatile __u64 *)&at->timed = (__u64)us << 32 | cookie;
}

static __always_inline __u64 timed_at(const struct handshake *at)
{
	return *(volatile __u64 *)&at->timed;
}

/* Starts the timing of a handshake when its SYN-ACK is sent. */
static __always_inline void time_handshake(__u32 cookie)
{
	struct handshake *at = handshake_at(cookie);

	if (!at)
		return;
	at->sent = clock_ms();
	note_handshake(at, cookie, clock_us());
}

/* Ends it with the first packet that acknowledges the SYN-ACK. */
static __always_inline void end_handshake(__u32 cookie)
{
	struct handshake *at = handshake_at(cookie);
	__u64 known;

	if (!at)
		return;
	known = timed_at(at);
	if ((__u32)known == cookie && !(known >> 32 & HANDSHAKE_DONE))
		note_handshake(at, cookie,
			       HANDSHAKE_DONE | ((clock_us() - (__u32)(known >> 32)) & (HANDSHAKE_DONE - 1)));
}

/*
 * Whether this is the newest initial sequence number of its slot, and young enough for its client's first byte to be
 * accepted.
 */
static __always_inline bool was_sent(__u32 cookie)
{
	struct handshake *at = handshake_at(cookie);

	return at && (__u32)timed_at(at) == cookie && !past(at->sent, COOKIE_LEAST_MS, clock_ms());
}

/* The band of the client of the current first request. */
static __always_inline __u32 band_of_client(__u32 cookie)
{
	struct handshake *at;
	__u64 known;

	end_handshake(cookie); /* the ACK came with the request */
	at = handshake_at(cookie);
	if (!at)
		return BAND_NONE;
	known = timed_at(at);
	return (__u32)known == cookie ? band_of(known >> 32 & (HANDSHAKE_DONE - 1)) : BAND_NONE;
}
