/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Memory that the steps of one packet need and the stack has no room for: one record a CPU. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/fields.h"

/* The map of one struct record a CPU, and the function of its name that returns this CPU's. */
#define SCRATCH(record)                                               \
	struct {                                                      \
		__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);              \
		__uint(max_entries, 1);                               \
		__type(key, __u32);                                   \
		__type(value, struct record);                         \
	} record##_scratch SEC(".maps");                              \
                                                                      \
	static __always_inline struct record *record(void)            \
	{                                                             \
		__u32 zero = 0;                                       \
                                                                      \
		return bpf_map_lookup_elem(&record##_scratch, &zero); \
	}                                                             \
	struct record
