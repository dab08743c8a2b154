/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which policy a connection is under, and what that says of it. */
#pragma once

#include "maps.h"

/* The first policy that wants the connection's server. spared: this policy spares the client. */
static __always_inline struct policy *policy_of(const struct tuple *t, bool *spared)
{
	__u32 now = generation & 1, place;
	__u64 wanted = set_by_port(now, t->dport);

	if (wanted)
		wanted &= set_by_prefix(&addresses, now, t->dst);
	if (!wanted)
		return NULL;
	wanted &= -wanted;
	*spared = set_by_prefix(&exempt, now, t->src) & wanted;
	place = now * MAX_POLICIES;
	for (__u32 bit = 32; bit; bit >>= 1)
		if (wanted >> bit) {
			wanted >>= bit;
			place += bit;
		}
	return bpf_map_lookup_elem(&policies, &place);
}

static __always_inline __u32 left(__u32 until, __u32 now)
{
	return until > now ? until - now : 0;
}

/*
 * In how many ms the connection is dormant unless it is heard of; NEVER: not before its next timeout, which is twice as long
 * (RFC 6298, 5.5).
 */
static __always_inline __u32 dormant_in(const struct policy *p, const struct expiry *e)
{
	__u32 in = left((__u64)e->rto * p->wait / 100, LATE);

	if (e->count <= p->max_retries) {
		if (e->silent + 2 * e->rto < p->ceiling)
			return NEVER;
		in = NEVER; /* the ceiling is reached first */
	}
	if (in < left(p->floor, e->silent))
		in = left(p->floor, e->silent);
	if (in > left(p->ceiling, e->silent))
		in = left(p->ceiling, e->silent);
	return in;
}
