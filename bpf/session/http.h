/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the HTTP parsers report to the session: a decided request, a final response head, the result of a walk over a
 * packet.
 */
#pragma once

#include <linux/types.h>

enum head_flag {
	HEAD_CHUNKED = 1,
	HEAD_CODED = 2, /* any transfer coding */
	HEAD_CLOSE = 4,
	HEAD_KEEP = 8,
	HEAD_UPGRADE = 16, /* or an unknown connection option */
	HEAD_HOST = 32,
	HEAD_LENGTH = 64,
	HEAD_OLD = 128,     /* HTTP/1.0 */
	HEAD_WATCHED = 512, /* a request that has a field which the router sets itself */
	HEAD_BOUND = 256,   /* connection-based authentication: NTLM, Negotiate (RFC 4559, 6) */
};

/* A parsed message head. */
struct head {
	__u32 flags;  /* enum head_flag */
	__u32 status; /* of a response */
	__u64 length; /* Content-Length, NO_LENGTH when absent */
};

#define NO_LENGTH 0xffffffffffffffffULL

/* A routed request, or the hello of an encrypted session. */
struct decision {
	__u64 request; /* bytes; if chunked, up to the body */
	__u32 method;  /* enum method */
	__u16 pool;
	__u16 surrogate; /* NO_SURROGATE: any of the pool */
	__u16 chunked;   /* a chunked body follows */
	__u8 bound;      /* it authenticates its connection */
	__u8 upgrade;    /* it carries Upgrade */
	__u8 opaque;     /* the start of a session that is not HTTP: all of it goes to the surrogate */
	__u8 pad;
	__u16 header; /* enum header: what of the router's own goes with it; HEADER_NONE: as its pool says */
};

/* A walk over the bytes of a packet: the state of their message before and after. */
struct walk {
	__u64 left;
	__u32 at;   /* sequence number that the walk starts from */
	__u32 skip; /* payload bytes already seen */
	__u8 from;  /* enum framing before the packet */
	__u8 framing;
	__u8 chunk;
	__u8 done;
	__u8 bad;
	__u8 hidden; /* unknown because of a gap */
	__u16 pad;
	__u32 behind;     /* bytes after the end of the message */
	__u32 body;       /* bytes after a response head */
	struct head head; /* of a response whose head ends in this packet */
};

#define CHUNKS_LONG 2 /* walk.bad: too many steps for one packet; dropped, retransmitted as smaller ones */
