/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the router's kernel program and user space both use. The only source of the generated Go types.
 *
 * Addresses are 16 bytes in network order; IPv4 ones are IPv4-mapped (::ffff:a.b.c.d).
 */
#pragma once

#include "../wire/fields.h"

/* Bounds and constants of both sides. */
enum bound {
	MAX_VIPS = 256,
	MAX_POOLS = 256,
	MAX_TABLES = 1024, /* choice tables: one a pool, and one a zone of policy nearest */
	MAX_SURROGATES = 1024,
	LEG_CLASSES = 16, /* bit 0: timestamps, bits 1-3: index into config.mss */
	MSS_CLASSES = 8,
	LEG_BANDS = 32,     /* queues of idle legs for each class; see enum band */
	HANDSHAKES = 65536, /* power of two */
	TABLE_SLOTS = 1021, /* prime, for Maglev */
	POOL_MEMBERS = 64,  /* policy least-sessions scans these */
	HOST_BYTES = 64,
	ROUTE_BYTES = 128,     /* of the request target, as far as the kernel's routes look */
	HEAD_BYTES = 2048,     /* of a message's head, read at once; all of a request's that the kernel decides */
	CARRY_BYTES = 128,     /* of a head's line that goes on in the next packet */
	HASH_BYTES = 1024,     /* longest path that the kernel hashes; longer ones are upcalls */
	NO_SURROGATE = 0xffff, /* any of the pool */
	LINGER_MS = 3000,      /* a late copy, a repeated FIN */
	COOKIE_MS = 130000,    /* longer than the kernel accepts a cookie */
	COMMAND_KEYS = 64,     /* of a command: with them it fits into a page */
	GENERATIONS = 2,       /* of the tables that decide; one is in force */
	POOL_NAME = 128,
	SOURCES = 65536, /* power of two: counters of undecided clients; behind them, of all */
};

#define NO_SPLICE 0xffffffff

enum side {
	SIDE_CLIENT, /* the packet comes from a client */
	SIDE_SERVER, /* the packet comes from a surrogate */
	SIDE_LOCAL,  /* a socket of this host owns the session (proxy fallback) */
	SIDE_LINGER, /* the client leg was ended here; a repeated FIN is answered again */
	SIDE_RESET,  /* it was ended by a reset, which the client may have missed */
};

/*
 * A flow names the splice that translates it. The splice holds the truth: it repeats both tuples.
 * SIDE_LOCAL: splice is the ifindex that the client came in by. SIDE_LINGER, SIDE_RESET: the ms since when.
 */
struct flow {
	__u32 splice;
	__u32 side;
} __attribute__((aligned(8)));

/* A client whose flow was made SIDE_LINGER or SIDE_RESET, and when. */
struct ended {
	struct tuple client;
	__u32 since; /* ms */
};

enum client_state {
	CLIENT_SYN,    /* no upcall yet; kept for options that a cookie cannot carry */
	CLIENT_UPCALL, /* user space holds the first bytes */
	CLIENT_SPLICE, /* user space chose a surrogate */
	CLIENT_LOCAL,  /* user space wants it on an ordinary socket */
};

enum client_flag {
	CLIENT_TS = 1,
	CLIENT_SACK = 2,
	CLIENT_WSCALE = 4,
	CLIENT_BOUND = 8,    /* the decided request authenticates its connection */
	CLIENT_UPGRADE = 16, /* it asks for another protocol */
};

/* A client leg that is not spliced yet, or whose next request user space decides. */
struct client {
	__u8 state;
	__u8 flags;
	__u8 wscale;
	__u8 method; /* enum method, of a decided request */
	__u16 mss;
	__u16 surrogate;
	__u16 pool;
	__u8 chunked; /* a chunked body follows the decided request's length */
	__u8 band;    /* enum band */
	__u32 ifindex;
	__u32 since;   /* ms */
	__u32 seq;     /* where its request begins */
	__u64 request; /* length of the decided request in bytes, head and body */
};

/* Of a client that was promised what no cookie carries: whoever sends SYNs in its name without its number makes other ones. */
struct syn_key {
	struct tuple client;
	__u32 seq; /* of its first byte */
};

/* A surrogate's packets come in by the interfaces that a route to it leads over. */
struct path_key {
	__u32 surrogate;
	__u32 ifindex;
};

enum mode { MODE_HANDOFF, MODE_LOCAL };

enum vip_flag {
	VIP_ONE_POOL = 1, /* every request goes to .pool */
	VIP_NO_HOSTS = 2, /* no route names a host */
	VIP_NO_TS = 4,    /* a surrogate refuses timestamps: not offered to clients */
	VIP_CLOSED = 8,   /* no new sessions */
	VIP_HOLD = 16,    /* a request waits until the one before it has its response: each is routed */
};

/*
 * The tables that decide are there twice, and config.generation says which are in force. Keys have the generation in them; a pool or
 * a choice table of generation g is at g * MAX_POOLS or g * MAX_TABLES and its number.
 */
struct vip_key {
	__u8 addr[16];
	__be16 port; /* 0: some port of this address is a VIP */
	__u16 generation;
};

struct vip {
	__u16 id; /* of this generation: the hosts and routes that it keys are, too */
	__u8 mode;
	__u8 flags;
	__u16 mss; /* offered to clients */
	__u16 pool;
};

struct host_key {
	__u16 vip;
	__u16 pad[3];
	__u8 name[HOST_BYTES]; /* every byte | 0x20, zero-padded */
};

/* Longest prefix of this answers a request; prefixlen counts bits from vip on. */
struct route_key {
	__u32 prefixlen;
	__u16 vip;
	__u16 host;
	__u8 method;
	__u8 target[ROUTE_BYTES];
	__u8 pad[3];
};

struct route {
	__u16 pool;
	__u16 upcall; /* user space decides */
};

enum policy { POLICY_ROUND_ROBIN, POLICY_HASH, POLICY_NEAREST, POLICY_LEAST, POLICY_UPCALL };

/* Which of a pool's legs a request may take that have served another client. */
enum reuse {
	REUSE_ALWAYS, /* any */
	REUSE_SAFE,   /* not the first request of a client */
	REUSE_NEVER,  /* none: a leg ends with its client */
};

struct pool {
	__u32 next; /* slot of policy round-robin */
	__u16 policy;
	__u16 reuse; /* enum reuse */
	__u16 members;
	__u16 pad;
	__u16 member[POOL_MEMBERS]; /* surrogates that may be chosen */
};

/* A choice table: surrogate numbers by slot. Of policy nearest, table = zone. */
struct choices {
	__u32 slots;
	__u16 surrogate[TABLE_SLOTS];
	__u16 pad;
};

struct zone_key {
	__u32 prefixlen;
	__u32 pool; /* place in the table of pools */
	__u8 addr[16];
};

/* Written by the kernel, read by user space; reset by neither. */
struct surrogate {
	__u32 active;                    /* spliced sessions now */
	__s32 idle[LEG_CLASSES];         /* legs ready now */
	__s32 fresh[LEG_CLASSES];        /* those of them that have served nobody */
	__u64 popped[LEG_CLASSES];       /* legs popped */
	__u64 popped_fresh[LEG_CLASSES]; /* those of them that had served nobody */
	__u64 missed[LEG_CLASSES];       /* requests that found no leg */
	__u64 recycled;
	__u64 handoffs;
	__u64 failed; /* handoffs that met a reset or a close before a response byte */
	__u64 bytes_in;
	__u64 bytes_out;
};

/* Written by user space. */
struct limit {
	__u32 requests; /* a leg that served these is not used again */
};

struct config {
	__u32 tap;              /* ifindex of the tap, which leads to user space */
	__u32 ts_offset;        /* added to the clock in ms that timestamps are taken from */
	__u16 mss[MSS_CLASSES]; /* ascending; 0: unused */
	__u16 reqsk;            /* bpf_sk_assign_tcp_reqsk is there */
	__u16 closed;           /* no new sessions at all */
	__u32 generation;       /* of the tables in force; read once a packet */
	__u32 pending;          /* undecided clients that there is room for */
	__u32 salt;             /* of the counters of sources */
};

/* Whose number that is, or was; empty: nobody's. Written and read by user space: numbers outlive the process in sessions. */
struct pool_name {
	__u8 name[POOL_NAME];
};

enum event_kind { EVENT_LEG_UP = 1, EVENT_LEG_DOWN, EVENT_LEG_ANSWERED };

enum leg_end {
	LEG_REFUSED = 1, /* RST in answer to our SYN */
	LEG_CLOSED_IDLE, /* the surrogate closed an idle leg */
	LEG_RESET_IDLE,
	LEG_CLIENT_RESET,
	LEG_SERVER_RESET,
	LEG_CLOSED, /* both said FIN */
	LEG_EXPIRED,
	LEG_RETIRED,   /* by user space */
	LEG_REPLACED,  /* the client came back on the same port */
	LEG_FAILED,    /* reset or closed before a response byte */
	LEG_ABANDONED, /* the surrogate went down before a response byte */
	LEG_CUT,       /* ended here: what came is ambiguous, or is not the client's */
	LEG_MALFORMED, /* ended here: the client's request is malformed, and is answered so */
};

struct leg_event {
	__u8 kind;
	__u8 end; /* enum leg_end */
	__u8 leg_class;
	__u8 announced; /* the surrogate had said that it would close */
	__u16 surrogate;
	__u16 band; /* enum band */
	__u32 splice;
	__u32 requests; /* served on the leg */
	__u32 age;      /* ms since the leg was established */
	__u32 idle;     /* ms since it was last used */
};

/* One runs with its CPU's softirqs off: how much it does is bounded by count, which user space keeps small. */
enum command_kind {
	COMMAND_SWEEP = 1,          /* splices first..first+count whose time is over */
	COMMAND_SWEEP_ENDED,        /* up to count of the ended clients, of those that have lingered; result: as many */
	COMMAND_FORGET_FLOWS,       /* of count struct syn_key behind the command: clients that have lingered */
	COMMAND_FORGET_CLIENTS,     /* of the same: undecided clients whose time is over */
	COMMAND_FORGET_SYN_OPTIONS, /* of the same: clients that were promised what no cookie carries, too long ago */
	COMMAND_RETIRE,             /* idle leg first */
	COMMAND_COMPLETE,           /* answered leg first, whose SYN-ACK has been acknowledged */
	COMMAND_ABANDON,            /* sessions in first..first+count that wait for the first byte of surrogate */
	COMMAND_COUNT_SOURCE,       /* count (signed) more clients of source first */
};

/* Runs in the kernel on behalf of user space (BPF_PROG_TEST_RUN); results come back in the same bytes. */
struct splice_command {
	__u8 ethernet[14]; /* BPF_PROG_TEST_RUN wants a frame */
	__u16 kind;
	__u32 surrogate;
	__u32 first; /* splice */
	__u32 count;
	__u32 handshake; /* ms, timeouts of sweep */
	__u32 idle;
	__u32 closing;
	__u32 result; /* entries that changed */
};

/* What became of a packet. The first ones are no drops. */
enum verdict {
	PASS,       /* not ours */
	PASS_LOCAL, /* to a socket of this host */
	TO_SERVER,
	TO_CLIENT,
	SYN_ANSWERED,
	SYN_COOKIE, /* answered without an entry in the table of promised options */
	HANDOFF,
	MOVED, /* request of a spliced session given to another surrogate */
	RECYCLED,
	UPCALL,   /* to user space */
	ASSIGNED, /* to an ordinary listening socket */
	FIN_ANSWERED,
	LEG_UP,
	LEG_ANSWERED, /* user space acknowledges it later */
	LEG_ACKED,    /* answered on behalf of an idle or recycled leg */
	CHALLENGED,   /* SYN on a live session */
	RESET_SENT,
	ICMP_TRANSLATED,
	HANDSHAKE_ACK, /* last packet of a handshake, nothing to do */
	CONSUMED,      /* RST or last ACK of a session that ended here */
	DROP_FRAGMENT,
	DROP_IP_OPTIONS,
	DROP_IPV6_EXTENSION,
	DROP_TRUNCATED,
	DROP_BAD_FLAGS,
	DROP_BAD_OPTIONS,
	DROP_BAD_CHECKSUM,
	DROP_TTL,
	DROP_STALE,     /* raced with the end of its session */
	DROP_OLD_BYTES, /* the surrogate repeats bytes of an earlier client */
	DROP_EARLY,     /* comes before what precedes it: the client repeats it */
	DROP_GAP,       /* comes before the bytes that say where its message ends: the surrogate repeats it */
	DROP_NO_TAP,    /* user space is away */
	DROP_PENDING_FULL,
	DROP_FLOWS_FULL,
	DROP_CLOSED,      /* no new sessions */
	DROP_NOMEM,       /* the packet could not be changed */
	DROP_RACE,        /* another CPU was first */
	DROP_MALFORMED,   /* ends its client's session: the request is ambiguous */
	DROP_WINDOW,      /* its numbers lie outside of the session's windows */
	DROP_INTERFACE,   /* in a surrogate's name, from where no route to it leads */
	DROP_SOURCE_FULL, /* its source has its share of undecided clients */
	VERDICTS,
};
