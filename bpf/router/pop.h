/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Takes an idle leg for a request. */
#pragma once

#include "decide.h"
#include "legs.h"
#include "syn_options.h"
#include "work.h"

/* Dead legs to skip before a request gives up on the pool. */
#define STALE_LEGS 8

/* A leg popped from its queue. */
struct popped_leg {
	__u32 idx;
	__u32 surrogate;
	__u32 leg_class;
	__u32 band; /* of the queue */
	__u32 reuse;
};

/* Bounded again, as the verifier has lost track. */
static __always_inline __u32 class_of(const struct popped_leg *t)
{
	__u32 leg_class = t->leg_class;

	hide(leg_class);
	return leg_class & (LEG_CLASSES - 1);
}

static __always_inline void return_leg(const struct popped_leg *t)
{
	push_leg(t->surrogate, t->leg_class, t->band, t->idx);
}

static __always_inline bool is_idle_of(const struct splice *s, const struct popped_leg *t)
{
	return s && s->state == SPLICE_IDLE && s->surrogate == t->surrogate && s->leg_class == t->leg_class;
}

/* Pops an idle leg of t's surrogate for the decided request. NULL: none. */
static __always_inline struct splice *pop_leg(struct work *w, const struct config *set, bool first,
					      struct popped_leg *t)
{
	void *queue;

	t->leg_class = class_for(set, &w->client) & (LEG_CLASSES - 1);
	t->band = w->client.band & (LEG_BANDS - 1);
	t->reuse = reuse_of(w->routing.generation, w->decision.pool);
	if (t->band >= BAND_FAR || t->reuse == REUSE_NEVER || (t->reuse == REUSE_SAFE && first))
		t->band = BAND_NONE; /* legs that have served nobody */
	if (w->client.leg) {
		struct splice *kept = splice_at(w->client.leg - 1);

		t->idx = w->client.leg - 1;
		return is_idle_of(kept, t) && may_serve(kept, &w->packet.key) ? kept : NULL;
	}
	queue = queue_of(t->surrogate, t->leg_class, t->band);
	for (int i = 0; i < STALE_LEGS; i++) {
		struct splice *s;

		if (!queue || bpf_map_pop_elem(queue, &t->idx)) {
			if (t->band == BAND_NONE)
				break;
			t->band = BAND_NONE;
			queue = queue_of(t->surrogate, t->leg_class, t->band);
			continue;
		}
		s = splice_at(t->idx);
		if (is_idle_of(s, t))
			return s; /* others have died in the queue */
	}
	return NULL;
}

/* Flags of a new session. */
static __always_inline __u32 first_flags(const struct work *w, bool first, __u32 reuse)
{
	__u32 flags = first ? SPLICE_FIRST : 0;

	if (w->client.flags & CLIENT_SACK)
		flags |= SPLICE_CLIENT_SACK;
	if (w->client.flags & CLIENT_WSCALE)
		flags |= SPLICE_CLIENT_WSCALE;
	if (!(w->routing.vip.flags & VIP_ONE_POOL))
		flags |= SPLICE_ROUTED;
	if (w->routing.vip.flags & VIP_HOLD)
		flags |= SPLICE_HOLD | SPLICE_ROUTED;
	if (reuse == REUSE_NEVER)
		flags |= SPLICE_SPOILT;
	return flags;
}
