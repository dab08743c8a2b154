/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What user space asks the kernel to do to splices, under their locks. */
#pragma once

#include "client.h"

#define LINGER_MS     3000 /* a late copy, a repeated FIN */
#define UNREPORTED_MS 5000 /* a dead leg that user space has not freed: its event was lost */

struct sweep {
	__u32 now;
	__u32 changed;
};

static __always_inline __u32 over(const struct splice *s, const struct command *c, __u32 now)
{
	switch (s->state) {
	case SPLICE_ACTIVE:
		return now - s->seen > c->idle ? LEG_EXPIRED : 0;
	case SPLICE_CLOSING:
		return now - s->seen > c->closing ? LEG_EXPIRED : 0;
	}
	return 0;
}

static long sweep_step(__u32 i, struct sweep *sweep)
{
	struct work *w = work();
	struct config *set = config();
	struct command *c;
	struct splice *s;
	__u32 idx, end, now = sweep->now;

	if (!w)
		return 1;
	c = &w->command;
	idx = c->first + i;
	s = splice_at(idx);
	if (!s || i >= c->count)
		return 1;
	if (s->state == SPLICE_FREE || s->state == SPLICE_OPENING || s->state == SPLICE_IDLE)
		return 0;
	bpf_spin_lock(&s->lock);
	if (c->kind == COMMAND_ABANDON)
		end = s->state == SPLICE_ACTIVE && s->surrogate == c->surrogate && s->client_requests == 1 &&
				      s->rcv_nxt == s->rcv_base
			      ? LEG_ABANDONED
			      : 0;
	else
		end = over(s, c, now);
	if (end) {
		s->state = SPLICE_DEAD;
		s->since = now;
	} else if (s->state == SPLICE_DEAD && now - s->since > UNREPORTED_MS) {
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

struct bpf_map;

static long sweep_flow(struct bpf_map *map, struct tuple *key, struct flow *f, struct sweep *sweep)
{
	if ((f->side == SIDE_LINGER || f->side == SIDE_RESET) && sweep->now - f->splice > LINGER_MS) {
		bpf_map_delete_elem(&flows, key);
		sweep->changed++;
	}
	return 0;
}

static long sweep_client(struct bpf_map *map, struct tuple *key, struct client *c, struct sweep *sweep)
{
	struct work *w = work();

	if (!w)
		return 1;
	if (sweep->now - c->since > (c->state == CLIENT_SYN ? COOKIE_MS : w->command.handshake)) {
		bpf_map_delete_elem(&clients, key);
		sweep->changed++;
	}
	return 0;
}

static long sweep_promise(struct bpf_map *map, struct tuple *key, struct client *c, struct sweep *sweep)
{
	if (sweep->now - c->since > COOKIE_MS) {
		bpf_map_delete_elem(&promised, key);
		sweep->changed++;
	}
	return 0;
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
		count_idle(s->surrogate, s->leg_class, -1);
}
