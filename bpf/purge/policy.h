/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Which policy applies to a connection, and when the connection is dormant under it. */
#pragma once

#include "maps.h"

/* The first policy that matches the connection's server. spared: this policy exempts the client. */
static __always_inline struct policy *policy_of(const struct tuple *t, bool *spared)
{
	__u32 now = generation & 1, place;
	__u64 matches = set_by_port(now, t->dport);

	if (matches)
		matches &= set_by_prefix(&addresses, now, t->dst);
	if (!matches)
		return NULL;
	matches &= -matches;
	*spared = set_by_prefix(&exempt, now, t->src) & matches;
	place = now * MAX_POLICIES;
	for (__u32 bit = 32; bit; bit >>= 1)
		if (matches >> bit) {
			matches >>= bit;
			place += bit;
		}
	return bpf_map_lookup_elem(&policies, &place);
}

static __always_inline __u32 left(__u32 until, __u32 now)
{
	return until > now ? until - now : 0;
}

/*
 * In how many ms the connection is dormant unless the client responds; NEVER: not before the next timeout, which is twice as long
 * (RFC 6298, 5.5).
 */
static __always_inline __u32 dormant_in(const struct policy *p, const struct expiry *e)
{
	__u32 in = left((__u64)e->rto * p->wait / 100, LATE);

	if (e->count <= p->max_retries) {
		if (e->unresponsive + 2 * e->rto < p->ceiling)
			return NEVER;
		in = NEVER; /* the ceiling is reached first */
	}
	if (in < left(p->floor, e->unresponsive))
		in = left(p->floor, e->unresponsive);
	if (in > left(p->ceiling, e->unresponsive))
		in = left(p->ceiling, e->unresponsive);
	return in;
}
