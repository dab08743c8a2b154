/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Bytes of the router's own in the stream to the surrogate, in front of the client's first byte on the leg: docs/handoff.md,
 * "Insertion". They have the numbers [ins_at, ins_at + ins_len), and are open until the surrogate has acknowledged them
 * all; to_server_seq is right for what stands behind them.
 */
#pragma once

#include "../wire/packet.h"
#include "splice.h"

static __always_inline __u32 insertion_end(const struct splice *s)
{
	return s->ins_at + s->ins_len;
}

/* The leg's number of a client's byte. behind is that number if the byte stands behind the insertion. */
static __always_inline __u32 client_start(const struct splice *s, __u32 behind)
{
	return s->ins_len && before(behind, insertion_end(s)) ? behind - s->ins_len : behind;
}

/*
 * Whether len bytes from behind stand on both sides of the insertion. No client begins before the byte that it was asked
 * for: those in front would take the place of the insertion's.
 */
static __always_inline bool straddles(const struct splice *s, __u32 behind, __u32 len)
{
	__u32 end = insertion_end(s);

	return s->ins_len && before(behind, end) && before(end, behind + len);
}

/* What a number of the surrogate means to the client: nothing within the insertion is the client's. */
static __always_inline __u32 heard(const struct splice *s, __u32 seq)
{
	__u32 end = insertion_end(s);

	if (!s->ins_len || !before(seq, end))
		return seq;
	return before(seq, s->ins_at) ? seq + s->ins_len : end;
}

/* The surrogate's window as the client must see it: its right edge stays. In the surrogate's scale. */
static __always_inline __u16 heard_window(const struct splice *s, const struct packet *p)
{
	__u32 shift = s->flags & SPLICE_SERVER_WSCALE ? s->server_shift : 0;
	__u32 edge = p->ack + unscaled(p->window, shift);

	return s->ins_len ? rescale(heard(s, edge) - heard(s, p->ack), 0, shift) : p->window;
}

/* Whether the client sends the segment again that the insertion goes in front of. */
static __always_inline bool repeats_insertion(const struct splice *s, const struct packet *p, __u32 seq)
{
	return s->ins_len && p->len && seq == insertion_end(s) && before(seq, s->snd_nxt);
}

/* Whether the surrogate's packet says nothing but that it lacks bytes of the insertion. */
static __always_inline bool lacks_insertion(const struct splice *s, const struct packet *p)
{
	return s->ins_len && !p->len && !(p->flags & (SYN | FIN | RST)) && before(p->ack, insertion_end(s));
}

/* The surrogate has acknowledged all of it: translation is as without one. */
static __always_inline void close_insertion(struct splice *s)
{
	if (s->ins_len && !before(s->snd_una, insertion_end(s)))
		s->ins_len = 0;
}

/* Prepares the insertion for the surrogate, which has sent p: it lacks it. */
static __always_inline void insert_again(struct splice *s, const struct packet *p, struct segment *reply)
{
	answer(reply, p, ACK | PSH, s->ins_at, s->rcv_acked);
	reply->window = s->window_sent;
	reply->with_ts = s->flags & SPLICE_TS && has_ts(p);
	reply->tsval = s->ts_sent;
	reply->tsecr = p->tsval;
}
