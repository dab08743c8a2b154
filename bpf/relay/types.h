/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types shared by the relay's kernel programs and user space; the Go types are generated from them.
 *
 * Addresses are 16 bytes in network order; IPv4 ones are IPv4-mapped (::ffff:a.b.c.d).
 */
#pragma once

#include "../wire/fields.h"

/* Limits of both sides. */
enum bound {
	MAX_ENTRIES = 64,  /* the bits of a set */
	FRAME_BYTES = 256, /* of a held SYN: headers with all options take 114 */
	MAX_TRUNKS = 1024, /* records of settings and counts */
	COMMAND_KEYS = 64,
	NAME_BYTES = 16,   /* of a congestion control's name, with its NUL */
	REFUSED_MS = 5000, /* for which retransmissions of a refused SYN are reset */
};

enum early_kind { EARLY_OFF, EARLY_OPTIMISTIC, EARLY_CONNECT_FIRST };

/* An entry: where flows come in. */
struct entry {
	__u8 listen[16]; /* the address of its listeners */
	__be16 port;
	__u8 early;     /* enum early_kind */
	__u8 intercept; /* packets to other hosts go to the listeners */
	__u32 id;       /* assigned by user space, reported in events */
};

/* Where a listener is. */
struct listen_key {
	__u8 addr[16];
	__be16 port;
	__u16 zero;
};

enum syn_state {
	SYN_STATE_REPORTED, /* passed to the listener */
	SYN_STATE_HELD,     /* until user space releases or refuses it */
	SYN_STATE_RELEASED, /* was held */
};

/* A SYN that was reported to user space and is not settled. */
struct syn {
	__u32 isn;
	__u32 hash;  /* selects the listener within the reuseport group */
	__u32 since; /* ms */
	__u32 entry; /* id */
	__u32 ifindex;
	__u32 state; /* enum syn_state */
};

/* A refused SYN: its retransmissions are reset. */
struct refused {
	__u32 isn;
	__u32 since; /* ms */
};

enum event_kind { EVENT_SYN = 1, EVENT_CANCELLED };

struct syn_event {
	__u8 kind;
	__u8 held;
	__u16 length; /* of the frame that follows a held SYN */
	struct tuple tuple;
	__u32 isn;
	__u32 hash;
	__u32 entry;
	__u32 ifindex;
};

struct held_event {
	struct syn_event event;
	__u8 frame[FRAME_BYTES];
};

/* Identifies a SYN. */
struct syn_key {
	struct tuple tuple;
	__u32 isn;
};

enum command_kind {
	COMMAND_SETTLE = 1, /* the SYNs of the count keys that follow: their clients were accepted or gave up */
	COMMAND_SWEEP,      /* SYNs reported more than expire ms ago */
};

/* Run by user space with BPF_PROG_TEST_RUN; the result is written into the same bytes. */
struct syn_command {
	__u8 ethernet[14]; /* BPF_PROG_TEST_RUN requires a frame */
	__u16 kind;
	__u32 count;
	__u32 expire;
	__u32 result; /* SYNs settled by this command */
};

/* The action of relay_replay on a held SYN, in skb->cb[0]. */
enum replay_kind { REPLAY_RELEASE = 1, REPLAY_REFUSE };

/* The result of relay_replay. */
enum replay_result {
	REPLAY_DONE,
	REPLAY_GONE,   /* the SYN is not held */
	REPLAY_FAILED, /* it could not be sent in again: its interface is gone, or no memory */
};

enum trunk_kind {
	TRUNK_TO = 1, /* connected to this address and port */
	TRUNK_AT,     /* accepted at this port, and this address unless it is unspecified */
	TRUNK_FROM,   /* of those, from this address (port 0) */
};

struct trunk_key {
	__u8 addr[16];
	__be16 port;
	__u16 kind;
};

/* Initial settings of trunks. Written by user space at any time. 0: not set. */
struct trunk {
	__u32 generation; /* changes when the record is reused for another key */
	__u32 window;     /* initial congestion window, segments */
	__u32 clamp;      /* largest congestion window, segments */
	__u32 pace;       /* bytes per second at most */
	__u32 receive;    /* initial receive window, segments */
	__u8 congestion[NAME_BYTES];
};

/* Statistics of a record's trunks. Written by the kernel. */
struct trunk_counts {
	__u64 established;
	__u64 flights;       /* completed first flights: acknowledged, or the connection ended */
	__u64 sent;          /* their segments */
	__u64 retransmitted; /* segments of first flights, completed or not */
	__u64 refused;       /* settings that the kernel rejected */
};

/* The verdict on a packet. From SYN_HELD on, it was dropped. */
enum verdict {
	PASS,            /* not for the relay */
	PASS_UNKNOWN,    /* intercepted, but of a connection that is older than the entry */
	NO_LISTENER,     /* a SYN without a listener: passed */
	STEERED,         /* steered to its connection */
	STEERED_SYN,     /* a SYN, steered to the listener without early SYN */
	STEERED_COOKIE,  /* ends a handshake that is kept as a SYN cookie: steered to the listener */
	RETURNED,        /* from a server, to a connection with a client's address */
	SYN_REPORTED,    /* a SYN that starts a flow */
	SYN_AGAIN,       /* the same SYN, retransmitted */
	SYN_RELEASED,    /* a held SYN whose server is connected: to the listener */
	SYN_SUSPENDED,   /* a SYN without an early flow: the listener's queues are nearly full */
	SYN_FULL,        /* a SYN without an early flow: limits.early is reached */
	SYN_SOURCE_FULL, /* a SYN without an early flow: limits.per_source is reached */
	SYN_TOO_LONG,    /* a SYN that does not fit into an event: reported, but not held */
	EVENT_LOST,      /* a SYN without an early flow: the process does not keep up */
	CANCELLED,       /* a reset of a client that gives up its SYN */
	STEER_FAILED,    /* could not be steered: passed */
	SYN_HELD,        /* a SYN of connect-first, held until the server is connected */
	SYN_HELD_AGAIN,  /* a held SYN, retransmitted */
	SYN_REFUSED,     /* a held SYN whose server refused: answered by a reset */
	CANCELLED_HELD,  /* a reset of a client that gives up its held SYN */
	DROP_NOMEM,      /* the kernel had no memory to turn it into a reset */
	VERDICTS,
};
