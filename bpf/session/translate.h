/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Translates the numbers of a packet from one leg to the other (paper, equations 1 to 4). */
#pragma once

#include "../wire/packet.h"
#include "splice.h"

/*
 * The scaled window advertised on an idle leg. It is as small as possible, so that the first request carries a larger
 * one: a receiver accepts a smaller window only with a new acknowledgement or a later sequence number (Linux,
 * tcp_may_update_window), and a request has neither. But Linux limits segments to half the largest window seen
 * (tcp_bound_to_half_wnd), and BBR takes its initial pacing rate from the first segment.
 */
static __always_inline __u16 idle_window(const struct splice *s)
{
	__u32 window = s->server_mss > IDLE_WINDOW / 2 ? 2 * s->server_mss : IDLE_WINDOW;

	if (s->flags & SPLICE_SERVER_WSCALE)
		return (window + (1 << OUR_WSCALE) - 1) >> OUR_WSCALE;
	return window > 65535 ? 65535 : window;
}

/*
 * The leg's number of a client's packet that does not repeat the insertion. For all that the surrogate has acknowledged of that,
 * the client has one number: its RST gets the one that the surrogate expects.
 */
static __always_inline __u32 client_seq(const struct splice *s, const struct packet *p, __u32 behind)
{
	if (p->flags & RST && behind == heard(s, s->snd_una))
		return s->snd_una;
	return client_start(s, behind);
}

/* Translates a client's packet for the surrogate. */
static __always_inline void fill_to_server(struct splice *s, const struct packet *p, struct translation *t)
{
	copy_addr(t->src, s->server.dst);
	copy_addr(t->dst, s->server.src);
	t->sport = s->server.dport;
	t->dport = s->server.sport;
	t->seq = client_seq(s, p, p->seq + s->to_server_seq);
	t->ack_shift = s->to_server_ack;
	t->ack = p->flags & ACK ? p->ack + s->to_server_ack : p->ack;
	t->keep_ts = !!(s->flags & SPLICE_TS);
	t->keep_sack =
		(s->flags & (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK)) == (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK);
	t->tsval = p->tsval + s->ts_to_server;
	t->tsecr = s->flags & SPLICE_ANCHOR ? s->ts_server : p->tsecr - s->ts_to_client;
	if (!(p->flags & ACK))
		t->tsecr = p->tsecr;
	t->window = rescale(p->window, s->flags & SPLICE_CLIENT_WSCALE ? s->client_shift : 0,
			    s->flags & SPLICE_SERVER_WSCALE ? OUR_WSCALE : 0);
	s->window_sent = t->window;
	t->insert = 0;
	t->hop = s->to_server;
}

/* The leg's window is that of an idle one, at most. */
static __always_inline void narrow(struct splice *s, struct translation *t)
{
	__u16 most = idle_window(s);

	if (t->window > most)
		t->window = most;
	s->window_sent = t->window;
}

/* The surrogate's window as the client must see it: its right edge stays. */
static __always_inline __u16 heard_window(const struct splice *s, const struct packet *p)
{
	__u32 shift = s->flags & SPLICE_SERVER_WSCALE ? s->server_shift : 0;
	__u32 ours = s->flags & SPLICE_CLIENT_WSCALE ? OUR_WSCALE : 0;
	__u32 edge = p->ack + unscaled(p->window, shift);

	if (!s->ins_len)
		return rescale(p->window, shift, ours);
	return rescale(heard(s, edge) - heard(s, p->ack), 0, ours);
}

static __always_inline void fill_to_client(struct splice *s, const struct packet *p, struct translation *t)
{
	copy_addr(t->src, s->client.dst);
	copy_addr(t->dst, s->client.src);
	t->sport = s->client.dport;
	t->dport = s->client.sport;
	t->seq = p->seq - s->to_server_ack;
	t->ack_shift = -s->to_server_seq;
	t->ack = p->flags & ACK ? heard(s, p->ack) - s->to_server_seq : p->ack;
	t->keep_ts = !!(s->flags & SPLICE_TS);
	/* over a hole of ours the client would have nothing to repeat */
	t->keep_sack =
		(s->flags & (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK)) == (SPLICE_CLIENT_SACK | SPLICE_SERVER_SACK) &&
		!(s->ins_len && before(p->ack, insertion_end(s)));
	t->tsval = p->tsval + s->ts_to_client;
	t->tsecr = p->flags & ACK ? p->tsecr - s->ts_to_server : p->tsecr;
	t->window = heard_window(s, p);
	t->hop = s->to_client;
	if (has_ts(p) && s->flags & SPLICE_TS) {
		s->ts_client = later(s->ts_client, t->tsval);
		s->ts_server = later(s->ts_server, p->tsval);
	}
}
