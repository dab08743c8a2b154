/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the purge's kernel programs and user space both use. The only source of the generated Go types.
 *
 * Addresses are 16 bytes in network order; IPv4 ones are IPv4-mapped (::ffff:a.b.c.d). Sequence numbers are in host order.
 */
#pragma once

#include "../wire/fields.h"

/* Bounds of both sides. */
enum bound {
	MAX_POLICIES = 64, /* the bits of a set */
	MAX_GROUPS = 64,   /* control groups */
	QUESTIONS = 32,    /* of a command */
	NEVER = 0xffffffff,
	/*
	 * ms by which a connection would be ended too late: of a timeout of up to two seconds the kernel's timers are up to 32 late at
	 * 250 Hz, and user space takes the rest. Waits are shorter by that. A timeout is 200 longer than the round trip at least.
	 */
	LATE = 40,
};

/* When a connection is dormant. Times are ms. */
struct policy {
	__u32 id;          /* user space's, reported in marks; not 0 */
	__u32 max_retries; /* timeouts that may run out before the one that counts */
	__u32 wait;        /* for an answer to what that one has sent again, percent of its own length; less LATE */
	__u32 floor;       /* of silence */
	__u32 ceiling;     /* of silence */
};

/* A retransmission timeout that has run out. Times are ms. */
struct expiry {
	__u32 count;  /* of those in this silence, this one included */
	__u32 rto;    /* the timeout's length */
	__u32 silent; /* since the silence began */
};

/* Why the kernel reports a connection. */
enum mark_kind {
	MARK_EXPIRED = 1, /* a timeout has run out */
	MARK_FOUND,       /* it was there before the programs, and is retransmitting */
};

/* A connection that is dormant unless it is heard of within so many ms. */
struct mark {
	struct tuple tuple; /* of packets from the client */
	__u32 ifindex;      /* that the socket is bound to; 0: none */
	__u64 cookie;
	__u32 kind;
	__u32 policy; /* its id */
	__u32 within;
	__u32 state; /* BPF_TCP_... */
	__u32 srtt;  /* microseconds */
	__u32 turn;  /* of the connection's silences */
	struct expiry expiry;
};

enum answer_kind {
	ANSWER_SILENT = 1, /* nothing was heard since the mark */
	ANSWER_HEARD,
	ANSWER_GONE, /* closed, or the addresses are another connection's */
};

/* What has become of a marked connection: filled in by the kernel, but for tuple, turn and cookie. */
struct question {
	struct tuple tuple;
	__u16 turn;   /* the mark's */
	__u16 answer; /* enum answer_kind */
	__u64 cookie;
	__u32 state;
	__u32 snd_una;
	__u32 snd_nxt;
	__u32 rcv_nxt;
};

/* Runs in the kernel on behalf of user space (BPF_PROG_TEST_RUN); count questions behind it are answered in the same bytes. */
struct inquiry {
	__u8 ethernet[14]; /* BPF_PROG_TEST_RUN wants a frame */
	__u16 count;
};

/* What became of a connection that was established or found, or of a timeout that ran out. */
enum verdict {
	WATCHED,      /* established under a policy: its timeouts are seen */
	UNWATCHED,    /* no policy wants it */
	WATCH_FAILED, /* the kernel did not take the flag */
	ELSEWHERE,    /* of another network namespace */
	ARMED,        /* was there before the programs: its timeouts are seen from now on */
	NO_POLICY,    /* a timeout of one that is wanted no more */
	EXEMPT,
	SHUT,     /* the client's window is zero: it is there, and does not read */
	CLOSING,  /* nobody is to be informed: SYN_RECV, TIME_WAIT, CLOSE */
	RETRYING, /* too early to say */
	MARKED,
	MARKED_BEFORE, /* in the same silence */
	MARK_LOST,     /* user space does not read them: the next timeout tries again */
	NO_MEMORY,     /* for what is remembered of a silence */
	VERDICTS,
};
