/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Whether a packet's numbers are within its session's windows (RFC 9293, 3.10.7.4; RFC 5961), which an off-path
 * attacker cannot guess. All numbers are the leg's, as before the packet.
 */
#pragma once

#include "../wire/packet.h"
#include "splice.h"

#define LEAST_SPAN \
	65536 /* bytes: delayed packets are at most a window behind, and windows may have been larger than advertised */
#define SYN_WINDOW   65535 /* in our SYNs, unscaled */
#define CHALLENGE_MS 500   /* rate limit of challenge ACKs (RFC 5961, 7) */

static __always_inline __u32 client_window(const struct splice *s, const struct packet *p)
{
	return unscaled(p->window, s->flags & SPLICE_CLIENT_WSCALE ? s->client_shift : 0);
}

static __always_inline __u32 server_window(const struct splice *s, const struct packet *p)
{
	return unscaled(p->window, s->flags & SPLICE_SERVER_WSCALE ? s->server_shift : 0);
}

/* From one window before the acknowledged bytes (delayed, keepalive) to the right edge. */
static __always_inline bool seq_fits(__u32 seq, __u32 end, __u32 acked, __u32 edge, __u32 span)
{
	return !before(edge, seq) && !before(end, acked - span);
}

/* Acknowledges nothing that was never sent, and nothing older than a window. */
static __always_inline bool ack_fits(__u32 ack, __u32 acked, __u32 sent, __u32 span)
{
	return !before(sent, ack) && !before(ack, acked - span);
}

/*
 * The packet is of an earlier connection between the same ports. The client's packets acknowledge no less than the one
 * that it was joined with; only what it sent to a leg before may have been on its way since.
 */
static __always_inline bool is_of_earlier(const struct splice *s, __u32 seq, __u32 len, __u32 ack)
{
	return before(ack, s->rcv_base) && (s->flags & SPLICE_FIRST || (len && !before(seq, s->snd_base)));
}

static __always_inline bool client_fits(const struct splice *s, const struct packet *p, __u32 seq, __u32 ack)
{
	if (p->flags & RST)
		return !before(seq, s->snd_una) && !before(s->snd_edge, seq);
	return seq_fits(seq, seq + p->len, s->snd_una, s->snd_edge, s->snd_span) &&
	       ack_fits(ack, s->rcv_acked, s->rcv_nxt, s->rcv_span) && !is_of_earlier(s, seq, p->len, ack);
}

/* A small window is rounded up to one unit for the surrogate (rescale), which may use all of it. */
static __always_inline bool server_fits(const struct splice *s, const struct packet *p)
{
	if (!seq_fits(p->seq, p->seq + p->len, s->rcv_acked, s->rcv_edge + (1 << OUR_WSCALE), s->rcv_span))
		return false;
	return p->flags & RST || ack_fits(p->ack, s->snd_una, s->snd_nxt, s->snd_span);
}

/*
 * An RST ends the session only if it has exactly the number that its receiver expects, which is between what that has
 * acknowledged and what was sent to it. Any other draws a challenge ACK (RFC 5961, 3.2).
 */
static __always_inline bool client_resets(const struct splice *s, __u32 seq)
{
	return seq == s->snd_nxt || seq == s->snd_una;
}

/* After its own FIN, Linux sends RST with the FIN's number. */
static __always_inline bool server_resets(const struct splice *s, __u32 seq)
{
	return seq == s->rcv_nxt || seq == s->rcv_acked || (s->flags & SPLICE_SERVER_FIN && seq + 1 == s->rcv_nxt);
}

/* Records the client's advertised window. */
static __always_inline void note_client_window(struct splice *s, const struct packet *p, __u32 ack)
{
	__u32 window = client_window(s, p);

	s->rcv_edge = later(s->rcv_edge, ack + window);
	if (window > s->rcv_span)
		s->rcv_span = window;
}

/* Records the surrogate's window, and the newest timestamp it has accepted, which it echoes. */
static __always_inline void note_server(struct splice *s, const struct packet *p)
{
	__u32 window = server_window(s, p);

	if (!(p->flags & ACK) || !ack_fits(p->ack, s->snd_una, s->snd_nxt, s->snd_span)) /* in an RST */
		return;
	s->snd_edge = later(s->snd_edge, p->ack + window);
	if (window > s->snd_span)
		s->snd_span = window;
	if (before(s->snd_una, p->ack))
		s->snd_una = p->ack;
	close_insertion(s);
	if (has_ts(p) && before(s->ts_echoed, p->tsecr) && !before(s->ts_sent, p->tsecr))
		s->ts_echoed = p->tsecr;
}

/* Whether the rate limit allows another challenge ACK. */
static __always_inline bool may_challenge(struct splice *s, __u32 now)
{
	if (s->challenged && (__s32)(now - s->challenged) < CHALLENGE_MS)
		return false;
	s->challenged = now | 1; /* never 0 */
	return true;
}
