/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the steps of one packet hand to each other: too large for the stack, so one record a CPU. */
#pragma once

#include <stddef.h>
#include <stdbool.h>
#include <linux/in.h>
#include <linux/ip.h>
#include <linux/ipv6.h>
#include <linux/pkt_cls.h>
#include <linux/tcp.h>
#include "../session/join.h"
#include "../session/server.h"
#include "maps.h"

enum scan_end { SCAN_MORE, SCAN_OK, SCAN_SHORT, SCAN_BAD };

/* What is known of a message head. */
struct scan {
	__u32 off;
	__u32 len;
	__u32 carried; /* bytes at the start that came with an earlier packet */
	__u32 start;   /* offset of the line being read */
	__u32 line;    /* offset of the first line's end */
	__u32 path;    /* offset of the request target */
	__u32 host;    /* offset of the Host value */
	__u32 flags;
	__u32 end;    /* enum scan_end */
	__u32 head;   /* bytes of the head */
	__u32 status; /* of a response */
	__u64 length; /* Content-Length, NO_LENGTH when absent */
};

/* A sum over the segment at hand: of the bytes before off. */
struct sum_walk {
	__u64 sum;
	__u32 off;
	__u32 end;
	__u32 bad;
};

/* A header as the cookie helpers want it. */
struct cookie_headers {
	union {
		struct iphdr ip;
		struct ipv6hdr ip6;
	};
	struct tcphdr th;
};

struct work {
	struct packet packet;
	struct translation out;
	struct segment reply;
	struct next_hop reply_hop;
	struct scan scan;
	struct decision decision;
	struct walk walk;
	struct sum_walk sum;
	struct promise_key promise;
	struct path_key path;
	struct partial partial;
	struct client client;
	struct client known; /* by know_client */
	struct cookie_headers cookie;
	struct vip vip;
	__u32 generation; /* config's, as to_vip has read it */
	struct host_key host;
	struct route_key route;
	struct bpf_fib_lookup fib;
	struct command command;
	struct ended ended;
	struct left left;
	struct joined joined;
	__u32 action; /* TCX_* */
	__u8 options[64];
	__u8 old_options[64];
	__u8 head[HEAD_BYTES + CARRY_BYTES + 64];
};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct work);
} works SEC(".maps");

static __always_inline struct work *work(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&works, &zero);
}

static __always_inline struct config *config(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

/* Milliseconds, coarse, from an arbitrary start. */
static __always_inline __u32 clock_ms(void)
{
	return bpf_ktime_get_coarse_ns() / 1000000;
}

/* Keeps the compiler from using what it knows of x, so that the verifier sees the check that follows. */
#define hide(x) asm volatile("" : "+r"(x))

static __always_inline void count(__u32 verdict)
{
	__u64 *n = bpf_map_lookup_elem(&verdicts, &verdict);

	if (n)
		(*n)++;
}
