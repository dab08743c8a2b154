/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Counters of what became of packets: one a verdict and CPU, so that nobody waits for another. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/fields.h"

/* A map of n counters. */
#define COUNTERS(name, n)                                \
	struct {                                         \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY); \
		__uint(max_entries, n);                  \
		__type(key, __u32);                      \
		__type(value, __u64);                    \
	} name SEC(".maps")

static __always_inline void count_up(void *counters, __u32 at)
{
	__u64 *n = bpf_map_lookup_elem(counters, &at);

	if (n)
		(*n)++;
}
