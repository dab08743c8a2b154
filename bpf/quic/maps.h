/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The maps of the program for QUIC. Sizes by limits are set by user space before loading. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../kernel/counters.h"
#include "types.h"

/*
 * Tuple of a datagram as it comes in → session. Written by user space. Not preallocated, so that no entry is reused while it is
 * read.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tuple);
	__type(value, struct quic_flow);
} flows SEC(".maps");

/* By number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct quic_session);
} sessions SEC(".maps");

/* Learnt by the kernel, read by user space too. Full: the least recently used is lost. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 1);
	__type(key, struct quic_id);
	__type(value, struct quic_server);
} ids SEC(".maps");

/* Interfaces of the routes to surrogates, by user space. A session's own next hop may be another. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_PATHS);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct quic_path);
	__type(value, __u8);
} paths SEC(".maps");

/* Written by user space, but for the lengths. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 2 * MAX_VIPS);
	__type(key, struct quic_address);
	__type(value, struct quic_vip);
} vips SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct quic_config);
} settings SEC(".maps");

/* Full: the least recently used begins afresh. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, MAX_SOURCES);
	__type(key, struct quic_prefix);
	__type(value, struct quic_bucket);
} buckets SEC(".maps");

COUNTERS(verdicts, VERDICTS);

static __always_inline void count(__u32 verdict)
{
	count_up(&verdicts, verdict);
}

static __always_inline struct quic_session *session_at(__u32 number)
{
	return bpf_map_lookup_elem(&sessions, &number);
}

static __always_inline struct quic_vip *vip_at(const __u8 *addr, __be16 port)
{
	struct quic_address key = { .port = port };

	copy_addr(key.addr, addr);
	return bpf_map_lookup_elem(&vips, &key);
}
