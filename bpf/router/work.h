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
#include "maps.h"

#define OPTION_BYTES 40

/* TCP header flags, in the header's own order. */
#define FIN     0x01
#define SYN     0x02
#define RST     0x04
#define PSH     0x08
#define ACK     0x10
#define URG     0x20
#define CWR_ECE 0xc0

struct packet {
	struct tuple key;
	__u32 seq; /* host order, as are ack and window */
	__u32 ack;
	__u32 len; /* payload bytes; of all segments when GSO */
	__u32 tsval;
	__u32 tsecr;
	__u16 l4; /* offset of the TCP header */
	__u16 payload;
	__u16 window;
	__u16 mss;   /* options of a SYN: 0 when absent */
	__u8 wscale; /* 0xff when absent */
	__u8 sack_ok;
	__u8 flags;
	__u8 options; /* bytes */
	__u8 ts_at;   /* offset of the timestamps option in the options, 0xff when absent */
	__u8 sack_at;
	__u8 sack_len;
	__u8 v6;
	__u8 ttl;
	__u8 plain;  /* options are none, or exactly NOP NOP timestamps */
	__u8 urgent; /* URG or a pointer */
	__u8 dmac[6];
	__u8 smac[6];
};

struct translation {
	__u8 src[16];
	__u8 dst[16];
	__be16 sport;
	__be16 dport;
	__u32 seq; /* new values, not differences */
	__u32 ack;
	__u32 ack_shift; /* what was added to ack: SACK edges move with it */
	__u32 tsval;
	__u32 tsecr;
	__u16 window;
	__u8 keep_ts;
	__u8 keep_sack;
	struct next_hop hop;
};

/* A segment that we send ourselves in place of the packet at hand. */
struct segment {
	__u8 src[16];
	__u8 dst[16];
	__be16 sport;
	__be16 dport;
	__u32 seq;
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u16 window;
	__u16 mss; /* of a SYN-ACK */
	__u8 flags;
	__u8 with_ts;
	__u8 with_sack; /* permitted, of a SYN-ACK */
	__u8 with_wscale;
	__u8 dmac[6];
	__u8 smac[6];
};

enum scan_end { SCAN_MORE, SCAN_OK, SCAN_SHORT, SCAN_BAD };

enum scan_flag {
	HEAD_CHUNKED = 1,
	HEAD_CODED = 2, /* some transfer coding */
	HEAD_CLOSE = 4,
	HEAD_KEEP = 8,
	HEAD_UPGRADE = 16, /* or a connection option that we do not know */
	HEAD_HOST = 32,
	HEAD_LENGTH = 64,
	HEAD_OLD = 128,   /* HTTP/1.0 */
	HEAD_BOUND = 256, /* who it is from holds for the connection: NTLM, Negotiate (RFC 4559, 6) */
};

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

struct decision {
	__u64 request; /* bytes of the request */
	__u32 method;
	__u16 pool;
	__u16 surrogate; /* NO_SURROGATE: any of the pool */
	__u16 chunked;   /* a chunked body follows */
	__u8 bound;      /* it authenticates its connection */
	__u8 upgrade;    /* it asks for another protocol */
};

/* Where the bytes of a packet leave the message that they belong to. */
struct walk {
	__u64 left;
	__u32 at;   /* in sequence: what the walk began with */
	__u32 skip; /* payload bytes that were there before */
	__u8 from;  /* enum framing, before */
	__u8 framing;
	__u8 chunk;
	__u8 done;
	__u8 bad;
	__u8 hidden; /* a gap hides where it is */
	__u16 pad;
	__u32 behind; /* bytes behind the message's end */
	__u32 body;   /* bytes behind a response's head */
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
	__u64 to_server; /* bytes of the session that ends */
	__u64 to_client;
	__u32 leg_band; /* of the leg that was taken, before its client */
	__u32 begins;   /* enum splice_flag, of the session that begins */
	__u32 widen;    /* the surrogate is to be told the client's window once more */
	__u32 action;   /* TCX_* */
	__u32 flow;     /* splice of the packet's flow, NO_SPLICE */
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

/* a before b, modulo 2^32. */
static __always_inline bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline __u32 later(__u32 a, __u32 b)
{
	return before(a, b) ? b : a;
}

static __always_inline void copy_addr(void *to, const void *from)
{
	((__u32 *)to)[0] = ((const __u32 *)from)[0];
	((__u32 *)to)[1] = ((const __u32 *)from)[1];
	((__u32 *)to)[2] = ((const __u32 *)from)[2];
	((__u32 *)to)[3] = ((const __u32 *)from)[3];
}

static __always_inline bool same_tuple(const struct tuple *a, const struct tuple *b)
{
	const __u32 *x = (const __u32 *)a, *y = (const __u32 *)b;
	__u32 differ = 0;

#pragma unroll
	for (int i = 0; i < (int)(sizeof(*a) / 4); i++)
		differ |= x[i] ^ y[i];
	return !differ;
}

static __always_inline void count(__u32 verdict)
{
	__u64 *n = bpf_map_lookup_elem(&verdicts, &verdict);

	if (n)
		(*n)++;
}
