/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the relay's kernel programs and user space both use. The only source of the generated Go types.
 *
 * Addresses are 16 bytes in network order; IPv4 ones are IPv4-mapped (::ffff:a.b.c.d).
 */
#pragma once

#include "../wire/fields.h"

/* Bounds of both sides. */
enum bound {
	MAX_ENTRIES = 64,  /* the bits of a set */
	FRAME_BYTES = 256, /* of a SYN that is held: headers with all options are 114 */
	MAX_TRUNKS = 1024, /* records of settings and counts */
	COMMAND_KEYS = 64,
	NAME_BYTES = 16,   /* of a congestion control, with its end */
	REFUSED_MS = 5000, /* for which repetitions of a refused SYN are answered */
};

enum early_kind { EARLY_OFF, EARLY_OPTIMISTIC, EARLY_CONNECT_FIRST };

/* Where flows come in. */
struct entry {
	__u8 listen[16]; /* where its listeners are found */
	__be16 port;
	__u8 early;     /* enum early_kind */
	__u8 intercept; /* packets to other hosts are for the listeners */
	__u32 id;       /* user space's, reported in events */
};

enum syn_state {
	SYN_STATE_TOLD,     /* goes on to the listener */
	SYN_STATE_HELD,     /* until user space releases or refuses it */
	SYN_STATE_RELEASED, /* was held */
};

/* A SYN that was reported to user space, which has not settled it. */
struct syn {
	__u32 isn;
	__u32 hash;  /* by which the listeners' group has chosen, or will */
	__u32 since; /* ms */
	__u32 entry; /* user space's id */
	__u32 ifindex;
	__u32 state; /* enum syn_state */
};

/* A SYN whose repetitions are answered by a reset. */
struct refused {
	__u32 isn;
	__u32 since; /* ms */
};

enum event_kind { EVENT_SYN = 1, EVENT_CANCELLED };

struct syn_event {
	__u8 kind;
	__u8 held;
	__u16 length; /* of the frame behind it, if it is held */
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

/* What SYN is meant: tuple and ISN. */
struct syn_key {
	struct tuple tuple;
	__u32 isn;
};

enum command_kind {
	COMMAND_TAKEN = 1, /* of count keys behind the command: their clients were accepted, or gave up */
	COMMAND_SWEEP,     /* SYNs that were reported more than expire ms ago */
};

/* Runs in the kernel on behalf of user space (BPF_PROG_TEST_RUN); results come back in the same bytes. */
struct syn_command {
	__u8 ethernet[14]; /* BPF_PROG_TEST_RUN wants a frame */
	__u16 kind;
	__u32 count;
	__u32 expire;
	__u32 result; /* SYNs that are settled now */
};

/* What relay_replay is to do with a held SYN, in skb->cb[0]. */
enum replay_kind { REPLAY_RELEASE = 1, REPLAY_REFUSE };

/* What relay_replay returns. */
enum replay_result {
	REPLAY_DONE,
	REPLAY_GONE,   /* the SYN is not held, or not any more */
	REPLAY_FAILED, /* it could not be sent in again: its interface has gone, or there was no room */
};

enum trunk_kind {
	TRUNK_TO = 1, /* to this address and port */
	TRUNK_AT,     /* accepted at this port, and address unless that is unspecified */
	TRUNK_FROM,   /* of those, from this address (port 0): has a record of its own */
};

struct trunk_key {
	__u8 addr[16];
	__be16 port;
	__u16 kind;
};

/* How trunks begin. Written by user space at any time. 0: nothing is set. */
struct trunk {
	__u32 turn;    /* of the record's use: it had another key before */
	__u32 window;  /* first congestion window, segments */
	__u32 clamp;   /* largest congestion window, segments */
	__u32 pace;    /* bytes per second at most */
	__u32 receive; /* first receive window, segments */
	__u8 congestion[NAME_BYTES];
};

/* What has become of them. Written by the kernel. */
struct trunk_counts {
	__u64 established;
	__u64 flights;       /* first flights that were acknowledged, or given up */
	__u64 sent;          /* segments of them */
	__u64 retransmitted; /* segments of first flights, finished or not */
	__u64 refused;       /* settings that the kernel did not take */
};

/* What became of a packet. Those from SYN_HELD on were dropped. */
enum verdict {
	PASS,           /* not of an entry, or an entry of which nothing is wanted */
	PASS_UNKNOWN,   /* to be intercepted, but no connection of this host's: it was there before the relay */
	NO_LISTENER,    /* a SYN that nobody would accept: passed */
	STEERED,        /* to its connection */
	STEERED_SYN,    /* to the listener, where no early SYN is wanted */
	STEERED_COOKIE, /* the last packet of a handshake of which only a SYN cookie is kept */
	RETURNED,       /* from a server, to a connection with a client's address */
	SYN_TOLD,
	SYN_AGAIN,
	SYN_RELEASED,
	SYN_SUSPENDED,   /* the listener's queues are nearly full: not reported */
	SYN_FULL,        /* as many are reported and not settled as may be: not reported */
	SYN_SOURCE_FULL, /* of this client: not reported */
	SYN_TOO_LONG,    /* to be held, which it was not, as it does not fit into an event: reported */
	EVENT_LOST,      /* user space does not read them: not reported */
	CANCELLED,
	STEER_FAILED, /* passed */
	SYN_HELD,
	SYN_HELD_AGAIN,
	SYN_REFUSED, /* answered by a reset */
	CANCELLED_HELD,
	DROP_NO_ROOM, /* a packet that could not be changed into a reset */
	VERDICTS,
};
