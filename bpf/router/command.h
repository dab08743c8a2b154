/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space asks the kernel to do to splices, under their locks. */
#pragma once

#include "client.h"

#define UNREPORTED_MS 5000 /* a dead leg that user space has not freed: its event was lost */

struct sweep {
	__u32 changed;
};

/* More than ms have gone by since then. Another CPU may have set since to a time after now. */
static __always_inline bool past(__u32 since, __u32 ms, __u32 now)
{
	return (__s32)(now - since) > (__s32)ms;
}

/* Why the command ends the session; 0: it does not. */
static __always_inline __u32 over(const struct splice *s, const struct command *c, __u32 now)
{
	if (c->kind == COMMAND_ABANDON) {
		if (s->state != SPLICE_ACTIVE || s->surrogate != c->surrogate || s->client_requests != 1 ||
		    s->rcv_nxt != s->rcv_base)
			return 0;
		return s->flags & SPLICE_FIRST ? LEG_ABANDONED
					       : LEG_EXPIRED; /* a later request, no cookie tells again */
	}
	switch (s->state) {
	case SPLICE_ACTIVE:
		return past(s->seen, c->idle, now) ? LEG_EXPIRED : 0;
	case SPLICE_CLOSING:
		return past(s->seen, c->closing, now) ? LEG_EXPIRED : 0;
	}
	return 0;
}

static __always_inline bool unreported(const struct splice *s, __u32 now)
{
	return s->state == SPLICE_DEAD && past(s->since, UNREPORTED_MS, now);
}

static long sweep_step(__u32 i, struct sweep *sweep)
{
	struct work *w = work();
	struct config *set = config();
	struct command *c;
	struct splice *s;
	__u32 idx, end, now = clock_ms();

	if (!w)
		return 1;
	c = &w->command;
	idx = c->first + i;
	s = splice_at(idx);
	if (!s || i >= c->count)
		return 1;
	if (!over(s, c, now) && !unreported(s, now)) /* most: not worth the lock */
		return 0;
	bpf_spin_lock(&s->lock);
	end = over(s, c, now);
	if (end) {
		s->state = SPLICE_DEAD;
		s->since = now;
	} else if (unreported(s, now)) {
		s->since = now;
		bpf_spin_unlock(&s->lock);
		tell(EVENT_LEG_DOWN, LEG_EXPIRED, idx, s, now);
		return 0;
	}
	bpf_spin_unlock(&s->lock);
	if (end) {
		if (end == LEG_ABANDONED && set)
			remember_client(s, set, now);
		bury(idx, s, end, now);
		sweep->changed++;
	}
	return 0;
}

static __always_inline bool forget_flow(const struct tuple *key, __u32 now)
{
	struct flow *f = bpf_map_lookup_elem(&flows, key);

	return f && (f->side == SIDE_LINGER || f->side == SIDE_RESET) && past(f->splice, LINGER_MS, now) &&
	       !bpf_map_delete_elem(&flows, key);
}

static long ended_step(__u32 i, struct sweep *sweep)
{
	struct ended e;
	__u32 now = clock_ms();

	/* user space has one sweep at a time: what is looked at is what is taken */
	if (bpf_map_peek_elem(&lingering, &e) || !past(e.since, LINGER_MS, now) || bpf_map_pop_elem(&lingering, &e))
		return 1;
	sweep->changed++;
	forget_flow(&e.client, now); /* unless its ports have been used again */
	return 0;
}

static __always_inline bool forget_client(const struct tuple *key, __u32 handshake, __u32 now)
{
	struct client *c = bpf_map_lookup_elem(&clients, key);

	return c && past(c->since, c->state == CLIENT_SYN ? COOKIE_MS : handshake, now) && !forget_undecided(key);
}

static __always_inline bool forget_promised(const struct promise_key *key, __u32 now)
{
	struct client *c = bpf_map_lookup_elem(&promised, key);

	return c && past(c->since, COOKIE_MS, now) && !bpf_map_delete_elem(&promised, key);
}

/* User space has found them, and they may have changed since. */
static __always_inline void forget_keys(struct __sk_buff *skb, const struct command *c, struct sweep *sweep)
{
	struct promise_key key;

	for (__u32 i = 0; i < COMMAND_KEYS; i++) {
		__u32 now = clock_ms();

		if (i >= c->count || bpf_skb_load_bytes(skb, sizeof(*c) + i * sizeof(key), &key, sizeof(key)))
			break;
		switch (c->kind) {
		case COMMAND_FORGET_FLOWS:
			sweep->changed += forget_flow(&key.client, now);
			break;
		case COMMAND_FORGET_CLIENTS:
			sweep->changed += forget_client(&key.client, c->handshake, now);
			break;
		case COMMAND_FORGET_PROMISED:
			sweep->changed += forget_promised(&key, now);
			break;
		}
	}
}

static __always_inline void take_up(struct command *c)
{
	struct splice *s = splice_at(c->first);
	struct config *set = config();
	__u32 now = clock_ms(), surrogate, leg_class;

	if (!s || !set)
		return;
	bpf_spin_lock(&s->lock);
	surrogate = s->surrogate;
	leg_class = s->leg_class;
	c->result = s->state == SPLICE_ANSWERED && surrogate == c->surrogate;
	if (c->result) {
		if (now - s->since < s->late)
			s->late = now - s->since ?: 1; /* a client waits for it */
		s->state = SPLICE_IDLE;
		s->since = s->seen = s->opened = now;
		s->ts_told = later(s->ts_told, now + set->ts_offset);
	}
	bpf_spin_unlock(&s->lock);
	if (!c->result)
		return;
	tell(EVENT_LEG_UP, 0, c->first, s, now);
	leg_class &= LEG_CLASSES - 1;
	count_idle(surrogate, leg_class, BAND_NONE, 1);
	push_leg(surrogate, leg_class, BAND_NONE, c->first);
}

static __always_inline void retire(struct command *c)
{
	struct splice *s = splice_at(c->first);
	__u32 now = clock_ms();

	if (!s)
		return;
	bpf_spin_lock(&s->lock);
	c->result = s->state == SPLICE_IDLE && s->surrogate == c->surrogate;
	if (c->result) {
		s->state = SPLICE_DEAD;
		s->since = now;
	}
	bpf_spin_unlock(&s->lock);
	if (c->result)
		count_idle(s->surrogate, s->leg_class, s->band, -1);
}
