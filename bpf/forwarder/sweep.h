/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The sweep of the binding table, run by user space once a second: removes expired flows, and marks idle ones inactive. */
#pragma once

#include "bindings.h"

struct bpf_map;

struct sweeping {
	__u64 now;
	__u32 ended;
	__u32 reserved;
};

static long sweep_one(struct bpf_map *map, struct binding_key *key, struct binding *p, struct sweeping *sweep)
{
	struct binder *all = the_binder();
	struct binding_reply_key reply;
	struct binding_key copy;
	struct bind_seat *s;
	__s64 silent;

	if (!all)
		return 1;
	silent = sweep->now - p->used; /* negative if another processor has seen a packet since */
	if (silent > (__s64)idle_timeout(key->protocol, p)) {
		copy = *key;
		if (remove_binding(&copy, &reply, p, 0))
			sweep->ended++;
		return 0;
	}
	if (silent > (__s64)ACTIVE_NS)
		set_inactive(p, 0);
	s = seat_of(all, p->seat);
	report_bytes(p, s);
	if (p->active == BINDING_ACTIVE)
		s->tally++;
	return 0;
}

/* Not attached: user space runs it. Packets may interrupt it, so it does not use struct traversal. Returns the number of flows removed. */
SEC("syscall")
int forwarder_sweep(void *unused)
{
	struct sweeping sweep = { .now = bpf_ktime_get_ns() };
	struct binder *all = the_binder();
	struct bind_seat *s;
	__u64 is;

	if (!all)
		return 0;
	for (int i = 0; i < BIND_SEATS; i++) {
		all->seat[i].was = all->seat[i].active;
		all->seat[i].tally = 0;
	}
	bpf_for_each_map_elem(&bindings, sweep_one, &sweep, 0);
	for (int i = 0; i < BIND_SEATS; i++) {
		s = &all->seat[i];
		is = s->active;
		/* the sweep alone changed the count since: correct it */
		if (is >> 32 == s->was >> 32 && (__u32)is != (__u32)s->tally)
			__sync_val_compare_and_swap(&s->active, is, (is >> 32 << 32) | (__u32)s->tally);
		/* retry in time a port that was avoided because it was slow */
		if (sweep.now - s->measured > NS)
			s->peak -= s->peak / 8;
	}
	return sweep.ended;
}
