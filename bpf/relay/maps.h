/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The relay's maps. Sizes that depend on the configuration, and the constants, are set by user space before loading. */
#pragma once

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "../kernel/counters.h"
#include "../kernel/selectors.h"
#include "types.h"

#define AF_INET 2

const volatile __u32 steer_mark = 0;  /* of packets for our sockets; 0: nothing is steered */
const volatile __u32 per_source = 64; /* limit of unsettled SYNs per client */
const volatile __u32 readers = 1;     /* event rings */
const volatile __u64 own_netns = 0;   /* cookie of the network namespace in which sockets may be trunks */

/* Prefix to set of entries. Written by user space. */
SETS_BY_PREFIX(destinations);

/* Index: generation * MAX_ENTRIES + bit. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_ENTRIES);
	__type(key, __u32);
	__type(value, struct entry);
} entries SEC(".maps");

/*
 * SYNs reported to user space, until it settles them or they are swept. The size limits the onward connections opened for
 * clients that may not exist. Full: SYNs pass unreported.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, struct tuple);
	__type(value, struct syn);
} syns SEC(".maps");

/*
 * Reported SYNs per client (IPv6: per /64). Clients without any are removed, so there are never more entries than SYNs.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__type(key, __u8[16]);
	__type(value, __u32);
} sources SEC(".maps");

/* Full: the oldest is evicted, and its next retransmission counts as a new SYN. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, struct tuple);
	__type(value, struct refused);
} refusals SEC(".maps");

/*
 * A ring per reader, of struct syn_event or struct held_event. The packet's hash modulo the number of readers selects the ring.
 * Full: the SYN passes unreported.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(
		values, struct {
			__uint(type, BPF_MAP_TYPE_RINGBUF);
			__uint(max_entries, 1 << 20);
		});
} events SEC(".maps");

COUNTERS(verdicts, VERDICTS);

/* Which sockets are trunks: the index of their record. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_TRUNKS);
	__type(key, struct trunk_key);
	__type(value, __u32);
} trunk_places SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TRUNKS);
	__type(key, __u32);
	__type(value, struct trunk);
} trunks SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_TRUNKS);
	__type(key, __u32);
	__type(value, struct trunk_counts);
} counts SEC(".maps");

static __always_inline void count(__u32 verdict)
{
	count_up(&verdicts, verdict);
}
