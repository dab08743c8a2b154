/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Meters [5.7], as virtual schedules: see struct band. */
#pragma once

#include "change.h"
#include "output.h"
#include "tables.h"

/* Raises the drop precedence of an assured-forwarding class (RFC 2597). Other code points are unchanged. */
static __always_inline int remark(struct __sk_buff *skb, struct traversal *t, __u32 by)
{
	__u32 dscp = t->frame.fields.ip_dscp, precedence = dscp >> 1 & 3, class = dscp >> 3;

	if (!is_ip(&t->frame) || class < 1 || class > 4 || !precedence || dscp & 1)
		return 0;
	precedence += by;
	if (precedence > 3)
		precedence = 3;
	dscp = class << 3 | precedence << 1;
	if (t->outcome.out)
		flush(skb, &t->outcome);
	leave_megaflow(&t->trail); /* later lookups depend on the rate, too */
	t->frame.fields.ip_dscp = dscp;
	return set_traffic_class(skb, &t->frame, 0xfc, dscp << 2);
}

/* Returns whether the packet exceeds the band's rate; if not, accounts for it. */
static __always_inline bool exceeds(struct band *b, __u64 now, __u64 units)
{
	__u64 cost = units * b->cost / 1000;

	for (int i = 0; i < 4; i++) {
		__u64 due = *(volatile __u64 *)&b->due, from = due > now ? due : now;

		if (from - now > b->burst)
			return true;
		if (__sync_val_compare_and_swap(&b->due, due, from + cost) == due)
			return false;
	}
	return false;
}

/* Returns 0, or the verdict. */
__noinline int run_meter(struct __sk_buff *skb, struct traversal *t, __u32 place)
{
	struct meter *m = bpf_map_lookup_elem(&meters, &place);
	struct band *worst = NULL;
	__u64 units;

	if (!m || !t)
		return 0;
	account(&meter_counts, place, &t->weight);
	units = m->by_packet ? t->weight.packets : t->weight.bytes * 8ULL;
	for (__u32 i = 0; i < MAX_BANDS; i++) {
		struct band *b = &m->band[i];

		if (i >= m->bands)
			break;
		if (exceeds(b, t->weight.now, units) && (!worst || b->rate > worst->rate))
			worst = b;
	}
	if (!worst)
		return 0;
	__sync_fetch_and_add(&worst->packets, t->weight.packets);
	__sync_fetch_and_add(&worst->bytes, t->weight.bytes);
	if (!worst->remark)
		return DROP_METER;
	return remark(skb, t, worst->remark);
}
