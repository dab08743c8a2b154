/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Ends sessions: what the kernel remembers of their clients, and what becomes of their legs. */
#pragma once

#include "../session/state.h"
#include "legs.h"
#include "log.h"
#include "sources.h"

/*
 * Remembers a closed session for a while: a late duplicate of its first segment still matches the cookie, and would
 * start a new session. seq: the client's next sequence number. exist: BPF_EXIST unless there is no flow yet.
 */
__noinline int linger(const struct tuple *client, __u32 side, __u32 seq, __u32 exist, __u32 now)
{
	struct flow f = { .ended_ms = now, .side = side, .seq = seq };
	struct ended e;
	__u32 key = 0;
	__u64 *lost;

	if (!client || bpf_map_update_elem(&flows, client, &f, exist))
		return 0;
	e.client = *client;
	e.since = now;
	if (!bpf_map_push_elem(&lingering, &e, BPF_ANY))
		return 0;
	lost = bpf_map_lookup_elem(&lingering_lost, &key);
	if (lost)
		__sync_fetch_and_add(lost, 1);
	return 0;
}

/* After the lock: the splice is dead. Drops the client's state and reports the end to user space. */
static __always_inline void end_session(__u32 idx, struct splice *s, __u32 end, __u32 now)
{
	struct flow *f = bpf_map_lookup_elem(&flows, &s->client);
	struct surrogate *counters = surrogate_at(s->surrogate);

	end_log(idx, end);
	if (s->header == HEADER_PROXY_V2)
		bpf_map_delete_elem(&authorities, &idx);
	/* a decision on its next request would apply to the port's next session */
	if (s->flags & SPLICE_UPCALL)
		forget_undecided(&s->client);
	if (f && f->side == SIDE_CLIENT && f->splice == idx) {
		/* the client's retransmitted request is routed again */
		if (end == LEG_FAILED || end == LEG_ABANDONED || end == LEG_REPLACED)
			bpf_map_delete_elem(&flows, &s->client);
		else
			linger(&s->client,
			       end == LEG_SERVER_RESET || end == LEG_EXPIRED || end == LEG_CUT ? SIDE_RESET
											       : SIDE_LINGER,
			       s->snd_nxt - s->to_server_seq, BPF_EXIST, now);
	}
	if (counters) {
		__sync_fetch_and_add(&counters->active, -1);
		__sync_fetch_and_add(&counters->bytes_in, s->bytes_to_server);
		__sync_fetch_and_add(&counters->bytes_out, s->bytes_to_client);
		if (end == LEG_FAILED)
			__sync_fetch_and_add(&counters->failed, 1);
	}
	report(EVENT_LEG_DOWN, end, idx, s, now);
}

/* The options of a spliced client that the choice of a leg depends on. */
static __always_inline void client_of(const struct splice *s, const struct config *set, struct client *c)
{
	c->flags = (s->flags & SPLICE_TS ? CLIENT_TS : 0) | (s->flags & SPLICE_CLIENT_SACK ? CLIENT_SACK : 0) |
		   (s->flags & SPLICE_CLIENT_WSCALE ? CLIENT_WSCALE : 0);
	c->wscale = s->client_shift;
	c->band = s->client_band;
	c->leg = 0;
	c->mss = set->mss[s->leg_class >> 1 & (MSS_CLASSES - 1)];
}

/*
 * After the lock: the client of a dead splice will retransmit its first request. Keeps its options, which may not be in
 * the cookie.
 */
static __always_inline void remember_client(struct splice *s, const struct config *set, __u32 now)
{
	struct client c = { .state = CLIENT_SYN, .since = now };

	client_of(s, set, &c);
	c.ifindex = s->to_client.ifindex;
	c.seq = s->snd_base - s->to_server_seq;
	c.ack = s->rcv_base - s->to_server_ack;
	bpf_map_update_elem(&clients, &s->client, &c, BPF_ANY);
}

/* After the lock: returns the leg of a client that has left to its pool, or reports it dead. */
static __always_inline void recycle(const struct released_leg *leg, __u32 idx, struct splice *s, __u32 now)
{
	struct surrogate *counters = surrogate_at(leg->surrogate);

	if (leg->worn) {
		report(EVENT_LEG_DOWN, LEG_RETIRED, idx, s, now);
	} else {
		count_idle(leg->surrogate, leg->leg_class, leg->band, 1);
		push_leg(leg->surrogate, leg->leg_class, leg->band, idx);
	}
	if (!counters)
		return;
	__sync_fetch_and_add(&counters->active, -1);
	__sync_fetch_and_add(&counters->recycled, 1);
	__sync_fetch_and_add(&counters->bytes_in, leg->to_server);
	__sync_fetch_and_add(&counters->bytes_out, leg->to_client);
}
