/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What the readers of HTTP messages report to the session: a request that is decided, a final response head, where a packet's bytes lead. */
#pragma once

#include <linux/types.h>

enum head_flag {
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

/* What a message head says. */
struct head {
	__u32 flags;  /* enum head_flag */
	__u32 status; /* of a response */
	__u64 length; /* Content-Length, NO_LENGTH when absent */
};

#define NO_LENGTH 0xffffffffffffffffULL

/* A request whose surrogate is decided. */
struct decision {
	__u64 request; /* bytes of it; of a chunked one, up to its body */
	__u32 method;  /* enum method */
	__u16 pool;
	__u16 surrogate; /* NO_SURROGATE: any of the pool */
	__u16 chunked;   /* a chunked body follows */
	__u8 bound;      /* it authenticates its connection */
	__u8 upgrade;    /* it asks for another protocol */
};

/* Where the bytes of a packet lead in the message that they belong to. */
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
	__u32 behind;     /* bytes behind the message's end */
	__u32 body;       /* bytes behind a response's head */
	struct head head; /* of a response whose head ends in the packet */
};

#define CHUNKS_LONG 2 /* walk.bad: more steps than a packet may take; it comes again in smaller ones */
