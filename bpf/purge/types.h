/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the purge's kernel programs and user space both use. The only source of the generated Go types.
 *
 * Addresses are 16 bytes in network order; IPv4 ones are IPv4-mapped (::ffff:a.b.c.d). Sequence numbers are in host order.
 */
#pragma once

#include "../wire/fields.h"

/* Bounds for the kernel and user space. */
enum bound {
	MAX_POLICIES = 64, /* the bits of a set */
	MAX_GROUPS = 64,   /* control groups */
	QUESTIONS = 32,    /* of a command */
	NEVER = 0xffffffff,
	/*
	 * ms by which a connection would be ended too late: at 250 Hz the kernel's timers are up to 32 late for timeouts of up to two
	 * seconds, and user space takes the rest. Waits are shortened by this. A timeout is at least 200 longer than the round trip.
	 */
	LATE = 40,
};

/* When a connection is dormant. Times are ms. */
struct policy {
	__u32 id;          /* user space's, reported in marks; not 0 */
	__u32 max_retries; /* timeouts that may expire before the one that counts */
	__u32 wait;        /* for a response to its retransmission, percent of that timeout; less LATE */
	__u32 floor;       /* of the unresponsive time */
	__u32 ceiling;     /* of the unresponsive time */
};

/* An expired retransmission timeout. Times are ms. */
struct expiry {
	__u32 count;        /* timeouts in this unresponsive period, including this one */
	__u32 rto;          /* length of the timeout */
	__u32 unresponsive; /* since the period began */
};

/* Why the kernel reports a connection. */
enum mark_kind {
	MARK_EXPIRED = 1, /* a timeout has expired */
	MARK_FOUND,       /* it is older than the programs, and is retransmitting */
};

/* A connection that is dormant unless the client responds within some ms. */
struct mark {
	struct tuple tuple; /* of packets from the client */
	__u32 ifindex;      /* that the socket is bound to; 0: none */
	__u64 cookie;
	__u32 kind;
	__u32 policy; /* its id */
	__u32 within;
	__u32 state;  /* BPF_TCP_... */
	__u32 srtt;   /* microseconds */
	__u32 period; /* the connection's unresponsive period */
	struct expiry expiry;
};

enum answer_kind {
	ANSWER_UNRESPONSIVE = 1, /* no response since the mark */
	ANSWER_HEARD,
	ANSWER_GONE, /* closed, or another connection has the addresses */
};

/* The state of a marked connection. The kernel fills in all but tuple, period and cookie. */
struct question {
	struct tuple tuple;
	__u16 period; /* the mark's */
	__u16 answer; /* enum answer_kind */
	__u64 cookie;
	__u32 state;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 rcv_nxt;
};

/* A request from user space (BPF_PROG_TEST_RUN), followed by count questions, which are answered in place. */
struct inquiry {
	__u8 ethernet[14]; /* BPF_PROG_TEST_RUN wants a frame */
	__u16 count;
};

/* The result for a connection that was established or found, or for an expired timeout. */
enum verdict {
	WATCHED,       /* a connection was established under a policy: its timeouts are watched */
	UNWATCHED,     /* a connection was established, and no policy matches it */
	WATCH_FAILED,  /* a connection that could not be watched: the kernel refused */
	ELSEWHERE,     /* a connection of another network namespace */
	ARMED,         /* a connection that is older than the programs: its timeouts are watched, too */
	NO_POLICY,     /* a timeout of a connection that no policy matches any more */
	EXEMPT,        /* a timeout of an exempt client */
	SHUT,          /* a timeout while the client's window is zero: it is alive, but does not read */
	CLOSING,       /* a timeout in a state without a peer to inform: SYN_RECV, TIME_WAIT, CLOSE */
	RETRYING,      /* a timeout, too early to decide */
	MARKED,        /* a timeout that was reported to the purge */
	MARKED_BEFORE, /* a timeout that was reported already since the client last answered */
	MARK_LOST, /* a timeout that was not reported: the purge does not keep up, and the next timeout tries again */
	NO_MEMORY, /* no memory for the connection's state */
	VERDICTS,
};
