/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Commands of user space. */
#pragma once

#include "early.h"

struct settling {
	struct __sk_buff *skb;
	__u32 settled;
};

static long settle_step(__u32 i, struct settling *settling)
{
	struct syn *known;
	struct syn_key key;

	if (bpf_skb_load_bytes(settling->skb, sizeof(struct syn_command) + i * sizeof(key), &key, sizeof(key)))
		return 1;
	known = bpf_map_lookup_elem(&syns, &key.tuple);
	if (known && known->isn == key.isn)
		settling->settled += settle(&key.tuple);
	return 0;
}

struct syn_sweep {
	__u32 now;
	__u32 expire;
	__u32 settled;
};

static long sweep_step(void *map, struct tuple *key, struct syn *s, struct syn_sweep *sweep)
{
	struct tuple t = *key;

	if (past(s->since, sweep->expire, sweep->now))
		sweep->settled += settle(&t);
	return 0;
}

/* Releases or refuses a held SYN and sends it in again. */
static __always_inline int replay(struct __sk_buff *skb, const struct packet *p, __u32 kind)
{
	struct syn *known = bpf_map_lookup_elem(&syns, &p->key);
	struct refused refused = { .isn = p->seq };
	__u32 ifindex;

	if (!known || known->isn != p->seq || known->state != SYN_STATE_HELD)
		return REPLAY_GONE;
	ifindex = known->ifindex;
	switch (kind) {
	case REPLAY_RELEASE:
		known->state = SYN_STATE_RELEASED;
		break;
	case REPLAY_REFUSE:
		refused.since = clock_ms();
		if (bpf_map_update_elem(&refusals, &p->key, &refused, BPF_ANY))
			return REPLAY_FAILED;
		settle(&p->key);
		break;
	default:
		return REPLAY_GONE;
	}
	return bpf_clone_redirect(skb, ifindex, BPF_F_INGRESS) ? REPLAY_FAILED : REPLAY_DONE;
}
