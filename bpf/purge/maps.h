/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The purge's maps. The ring's size and the constants are set by user space before loading. */
#pragma once

#include <stdbool.h>
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "../kernel/counters.h"
#include "../kernel/selectors.h"
#include "types.h"

#define AF_INET  2
#define AF_INET6 10

const volatile __u64 own_netns = 0; /* cookie of the network namespace whose connections are watched */
const volatile __u32 hertz = 250;   /* jiffies per second */
const volatile bool orphans = true; /* whether to watch connections that the application may have closed */

/* By the server's address: the policies that match it. Written by user space. */
SETS_BY_PREFIX(addresses);

/* By the client's address: the policies that exempt it. Written by user space. */
SETS_BY_PREFIX(exempt);

/* Index: generation * MAX_POLICIES + bit. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 2 * MAX_POLICIES);
	__type(key, __u32);
	__type(value, struct policy);
} policies SEC(".maps");

/* The control groups that the programs are attached to, by id. Written by user space. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, MAX_GROUPS);
	__type(key, __u64);
	__type(value, __u8);
} groups SEC(".maps");

/* A period in which a client does not respond although it has something to acknowledge. */
struct unresponsive {
	__u64 cookie; /* of the socket */
	__u32 heard;  /* jiffies: when the last acknowledgement arrived */
	__u32 una;    /* snd_una then */
	__u32 rcv;    /* rcv_nxt then: data that arrives in order is no acknowledgement */
	__u32 began;  /* ms: when the first timeout to expire was set, or when the client was heard of since */
	__u32 count;  /* expired timeouts */
	__u32 marked; /* id of the policy that was reported to user space; 0: none */
	__u16 period; /* counts this connection's unresponsive periods */
};

/* Per connection with an expired timeout. Freed with the socket. */
struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct unresponsive);
} unresponsive SEC(".maps");

/* struct mark. When full, the connection is marked at its next timeout. */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} marks SEC(".maps");

COUNTERS(verdicts, VERDICTS);

static __always_inline void count(__u32 verdict)
{
	count_up(&verdicts, verdict);
}

/* Milliseconds since an arbitrary start, exact. */
static __always_inline __u32 exact_ms(void)
{
	return bpf_ktime_get_ns() / 1000000;
}

static __always_inline __u32 jiffies_ms(__u32 jiffies)
{
	return (__u64)jiffies * 1000 / hertz;
}
