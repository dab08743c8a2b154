/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types shared by the router's kernel program and user space; the generated Go types come from here.
 *
 * Addresses are 16 bytes in network order; IPv4 ones are IPv4-mapped (::ffff:a.b.c.d).
 */
#pragma once

#include "../wire/fields.h"

/* Limits and constants shared with user space. */
enum bound {
	MAX_VIPS = 256,
	MAX_POOLS = 256,
	MAX_TABLES = 1024, /* choice tables: one per pool, and one per zone of policy nearest */
	MAX_SURROGATES = 1024,
	LEG_CLASSES = 16, /* bit 0: timestamps, bits 1-3: index into config.mss */
	MSS_CLASSES = 8,
	LEG_BANDS = 32,     /* queues of idle legs for each class; see enum band */
	HANDSHAKES = 65536, /* power of two */
	TABLE_SLOTS = 1021, /* prime, for Maglev */
	POOL_MEMBERS = 64,  /* policy least-sessions scans these */
	HOST_BYTES = 64,
	ROUTE_BYTES = 128,       /* longest path prefix that the kernel matches */
	HEAD_BYTES = 2048,       /* of a head, parsed at once; a request head decided by the kernel is no longer */
	REQUEST_LINES = 100,     /* of fields; user space refuses more */
	CARRY_BYTES = 128,       /* of a head's line that continues in the next packet */
	HASH_BYTES = 1024,       /* longest path that the kernel hashes; longer ones need an upcall */
	NO_SURROGATE = 0xffff,   /* any of the pool */
	LINGER_MS = 3000,        /* for late duplicates and retransmitted FINs */
	COOKIE_MS = 130000,      /* longer than the kernel accepts a SYN cookie */
	COOKIE_LEAST_MS = 60000, /* as long as it accepts each */
	COMMAND_KEYS = 64,       /* per command, which must fit into a page */
	COMMAND_FRAMES = 32,     /* the same of frames, and bits of a result */
	LEG_FRAME =
		96, /* bytes of a frame of an idle leg: Ethernet, IPv6, TCP, 20 bytes of options, and a multiple of 8 */
	GENERATIONS = 2, /* of the routing tables; one is in force */
	POOL_NAME = 128,
	SOURCES = 65536,    /* power of two: counters of undecided clients by source; the next one counts all */
	LOG_PAGE = 1024,    /* splices whose records of the access log are in one map */
	LOG_HEAD = 512,     /* of a request, in its record */
	LOG_NAME = 128,     /* of a host or server name, in a record */
	MAX_EDITS = 256,    /* of all pools and routes */
	EDIT_TEXT = 128,    /* of each part of an edit */
	EDIT_PADDING = 256, /* most that an edit may take away, and blanks stand for */
	WATCHES = 4,        /* names of fields that clients of a VIP must not send */
	AUTHORITY = 150,    /* of a server name, in a header: Apache takes no header of more than 232 bytes */
};

#define NO_SPLICE 0xffffffff

enum side {
	SIDE_CLIENT, /* the packet comes from a client */
	SIDE_SERVER, /* the packet comes from a surrogate */
	SIDE_LOCAL,  /* a socket of this host owns the session (proxy fallback) */
	SIDE_LINGER, /* the client leg was closed here; a retransmitted FIN is acknowledged again */
	SIDE_RESET,  /* it was reset here; the RST may have been lost */
};

/* What becomes of a tuple's packets. side says which member of the union is valid. */
struct flow {
	union {
		__u32 splice;   /* SIDE_CLIENT, SIDE_SERVER. The splice is authoritative: it repeats both tuples */
		__u32 ifindex;  /* SIDE_LOCAL: where the client's packets come in */
		__u32 ended_ms; /* SIDE_LINGER, SIDE_RESET */
	};
	__u32 side;
	__u32 seq; /* SIDE_LINGER, SIDE_RESET: the client's next sequence number when its session ended */
} __attribute__((aligned(8)));

/* A client whose flow became SIDE_LINGER or SIDE_RESET, and when. */
struct ended {
	struct tuple client;
	__u32 since; /* ms */
};

enum client_state {
	CLIENT_SYN,    /* no upcall yet; kept for options that a cookie cannot carry */
	CLIENT_UPCALL, /* user space holds the first bytes */
	CLIENT_SPLICE, /* user space chose a surrogate */
	CLIENT_LOCAL,  /* user space assigned an ordinary socket */
};

enum client_flag {
	CLIENT_TS = 1,
	CLIENT_SACK = 2,
	CLIENT_WSCALE = 4,
	CLIENT_BOUND = 8,    /* the decided request authenticates its connection */
	CLIENT_UPGRADE = 16, /* it carries Upgrade */
	CLIENT_OPAQUE = 32,  /* the session is not HTTP */
	CLIENT_PROXY = 64,   /* its pool wants fields in the request that cannot be inserted: the proxy sends it */
	CLIENT_FIRST = 128,  /* nothing on its connection has been answered: each packet of it acknowledges .ack */
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
	__u16 header; /* enum header, of a decided request; HEADER_NONE: the pool's */
	__u32 ifindex;
	__u32 since;   /* ms */
	__u32 seq;     /* start of its request */
	__u32 ack;     /* what the request's first packet acknowledges */
	__u32 leg;     /* 1 + the splice of the leg that was opened for it; 0: any of the surrogate's */
	__u32 decided; /* ms, when it was */
	__u64 request; /* length of the decided request, head and body (bytes) */
};

/*
 * Key of the options that a SYN cookie cannot carry. A spoofed SYN has another sequence number, and so another entry.
 */
struct syn_options_key {
	struct tuple client;
	__u32 seq; /* of its first byte */
};

/* An interface that a route to the surrogate uses: its packets are accepted only there. */
struct path_key {
	__u32 surrogate;
	__u32 ifindex;
};

enum mode { MODE_HANDOFF, MODE_LOCAL };

enum vip_flag {
	VIP_ONE_POOL = 1, /* all requests go to .pool */
	VIP_NO_HOSTS = 2, /* no route names a host */
	VIP_NO_TS = 4,    /* a surrogate refuses timestamps: do not offer them to clients */
	VIP_CLOSED = 8,   /* no new sessions */
	VIP_TLS = 32,     /* sessions are routed by their hello */
	VIP_HOLD = 16,    /* each request is routed separately: it waits until the previous response is complete */
	VIP_LOG = 64,     /* what is spliced leaves a record */
	VIP_WATCH = 128,  /* clients must not send some fields: see struct watches */
};

/*
 * There are two generations of the routing tables; config.generation is the one in force. It is part of the keys; a
 * pool or choice table n of generation g is at g * MAX_POOLS + n or g * MAX_TABLES + n.
 */
struct vip_key {
	__u8 addr[16];
	__be16 port; /* 0: some port of this address is a VIP */
	__u16 generation;
};

struct vip {
	__u16 id; /* per generation; also used in the keys of hosts and routes */
	__u8 mode;
	__u8 flags;
	__u16 mss; /* offered to clients */
	__u16 pool;
};

struct host_key {
	__u16 vip;
	__u16 pad[3];
	__u8 name[HOST_BYTES]; /* every byte | 0x20, zero-padded; with VIP_TLS also "*." and the rest of a name */
};

/* Routes match by longest prefix; prefixlen counts bits from vip on. */
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
	__u16 header; /* enum header; HEADER_NONE: the pool's */
};

enum policy { POLICY_ROUND_ROBIN, POLICY_HASH, POLICY_NEAREST, POLICY_LEAST, POLICY_UPCALL };

/* Which requests may reuse a leg that has served another client. */
enum reuse {
	REUSE_ALWAYS, /* any */
	REUSE_SAFE,   /* all but a client's first request */
	REUSE_NEVER,  /* none: a leg is closed with its client */
};

struct pool {
	__u32 next; /* next slot of policy round-robin */
	__u16 policy;
	__u16 reuse; /* enum reuse */
	__u16 members;
	__u16 header;               /* enum header */
	__u16 member[POOL_MEMBERS]; /* surrogates that are available */
};

/* What stands for a value in the text of an edit. */
enum field_mark {
	MARK_ADDRESS = 1, /* of the client */
	MARK_NODE,        /* the same as in Forwarded (RFC 7239, 6) */
	MARK_REQUEST_ID,
};

/* How a request's head changes on its way to the surrogate. An edit keeps its number while a session may need it. */
struct edit {
	__u16 len;        /* of text, which goes to the end of the head: lines of fields, with marks */
	__u16 first_mark; /* offset in text; len if there is none */
	__u16 strip;      /* bytes at the beginning of the target that prefix takes the place of */
	__u16 prefix_len;
	__u16 host_len; /* 0: the client's stays */
	__u8 text[EDIT_TEXT];
	__u8 prefix[EDIT_TEXT];
	__u8 host[EDIT_TEXT];
};

/* The first bytes of a field's name, with its colon if it is so short, every byte | 0x20; '-' and '_' are the same. */
struct watch {
	__u64 name[2];
	__u64 mask[2];
};

/* By number of a VIP. Unused ones match nothing. */
struct watches {
	struct watch of[WATCHES];
};

/* A choice table: surrogate numbers by slot. Zones of policy nearest have one each. */
struct choices {
	__u32 slots;
	__u16 surrogate[TABLE_SLOTS];
	__u16 pad;
};

struct zone_key {
	__u32 prefixlen;
	__u32 pool; /* index into pools */
	__u8 addr[16];
};

/* Counters, written by the kernel; nobody resets them. */
struct surrogate {
	__u32 active;                    /* current spliced sessions */
	__s32 idle[LEG_CLASSES];         /* current idle legs */
	__s32 fresh[LEG_CLASSES];        /* of those, legs that have served nobody */
	__u64 popped[LEG_CLASSES];       /* legs taken from the queues */
	__u64 popped_fresh[LEG_CLASSES]; /* of those, legs that had served nobody */
	__u64 missed[LEG_CLASSES];       /* requests that found no leg */
	__u64 recycled;
	__u64 handoffs;
	__u64 failed; /* handoffs that ended in RST or FIN before the first response byte */
	__u64 bytes_in;
	__u64 bytes_out;
};

/* Written by user space. */
struct limit {
	__u32 requests; /* most requests on a leg */
};

struct config {
	__u32 tap;              /* ifindex of the tap to user space */
	__u32 ts_offset;        /* added to the clock (ms) for timestamps */
	__u16 mss[MSS_CLASSES]; /* ascending; 0: unused */
	__u16 reqsk;            /* bpf_sk_assign_tcp_reqsk is available */
	__u16 closed;           /* no new sessions at all */
	__u32 generation;       /* of the tables in force; read once per packet */
	__u32 pending;          /* capacity for undecided clients */
	__u32 salt;             /* for hashing sources */
	__u32 mtu;              /* of the narrowest interface towards clients; 0: unknown */
};

/*
 * The pool that has or had this number; empty: unused. Sessions carry the numbers, which therefore outlive the process.
 */
struct pool_name {
	__u8 name[POOL_NAME];
};

enum event_kind { EVENT_LEG_UP = 1, EVENT_LEG_DOWN, EVENT_LEG_ANSWERED, EVENT_LEG_STALE, EVENT_TOO_BIG };

/* A packet of a session that was dropped, for user space to tell its sender. */
struct too_big_event {
	__u32 kind; /* EVENT_TOO_BIG */
	__u32 mtu;  /* of the interface by which it would have left */
	__u32 seq;
	struct tuple key;
};

enum leg_end {
	LEG_REFUSED = 1, /* RST in answer to our SYN */
	LEG_CLOSED_IDLE, /* the surrogate closed an idle leg */
	LEG_RESET_IDLE,
	LEG_CLIENT_RESET,
	LEG_SERVER_RESET,
	LEG_CLOSED, /* both ends have sent FIN */
	LEG_EXPIRED,
	LEG_RETIRED,   /* by user space */
	LEG_REPLACED,  /* the client reused its port */
	LEG_FAILED,    /* reset or closed before the first response byte */
	LEG_ABANDONED, /* the surrogate went down before it acknowledged a byte */
	LEG_CUT,       /* ended here: the stream is ambiguous, or the response belongs to no request */
	LEG_MALFORMED, /* ended here: malformed request, answered with 400 */
};

struct leg_event {
	__u8 kind;
	__u8 end; /* enum leg_end */
	__u8 leg_class;
	__u8 announced; /* the surrogate had announced that it would close */
	__u16 surrogate;
	__u16 band; /* enum band */
	__u32 splice;
	__u32 requests; /* served on the leg */
	__u32 age;      /* ms since the leg was established */
	__u32 idle;     /* ms since it was last used */
	__u32 at;       /* ms: the time of the event */
};

enum log_state {
	LOG_NONE,
	LOG_BEGUN,
	LOG_COMPLETE, /* the response is complete, but not acknowledged by the client */
};

enum log_flag {
	LOG_TLS = 1,
	LOG_WHOLE = 2,        /* messages are not tracked: the record is of the rest of the session */
	LOG_CLIENT_FIRST = 4, /* the client sent the first FIN */
	LOG_SERVER_FIRST = 8,
	LOG_SERVER_FIN = 16,
};

/* A request, or a session whose requests are not tracked, for the access log. Times are those of CLOCK_MONOTONIC. */
struct request_log {
	__u64 start;     /* ns */
	__u64 first;     /* ns: first byte of the response; 0: none */
	__u64 end;       /* ns */
	__u64 to_server; /* bytes, without retransmissions */
	__u64 to_client;
	struct tuple client;
	struct tuple server;
	__u32 snd_from; /* snd_nxt at the start */
	__u32 rcv_from;
	__u32 seq;          /* of the client's first byte, in its own numbers */
	__u32 ack;          /* the client's, when it joined the leg */
	__u32 client_again; /* segments that the client has sent again */
	__u32 server_again;
	__u16 surrogate;
	__u16 pool;
	__u16 status;
	__u8 state;    /* enum log_state */
	__u8 flags;    /* enum log_flag */
	__u8 how;      /* enum leg_end, unless complete */
	__u8 response; /* enum framing, at the end unless complete */
	__u8 version;  /* last digit of HTTP's; 0: not known here */
	__u8 pad;
	__u16 head_len;
	__u16 name_len;
	__u8 name[LOG_NAME]; /* a server name, or the beginning of the value of Host and more */
	__u8 head[LOG_HEAD]; /* the request's first bytes; user space gets head_len of them */
};

/* What user space has read of the request or hello that it has decided, for the record. */
struct log_head {
	__u16 name_len;
	__u16 head_len;
	__u8 name[LOG_NAME];
	__u8 head[LOG_HEAD];
};

/* The server name in a hello, as the client has sent it. */
struct authority {
	__u16 len; /* 0: none, or longer */
	__u8 name[AUTHORITY];
};

/* A command runs with softirqs disabled on its CPU, so user space keeps count small. */
enum command_kind {
	COMMAND_SWEEP = 1,      /* end the splices in first..first+count that have timed out */
	COMMAND_SWEEP_ENDED,    /* forget up to count clients that have lingered; result: how many */
	COMMAND_FORGET_FLOWS,   /* forget those of count struct syn_options_key behind the command that have lingered */
	COMMAND_FORGET_CLIENTS, /* the same for undecided clients that have timed out */
	COMMAND_FORGET_SYN_OPTIONS, /* the same for expired SYN options */
	COMMAND_FORGET_UPCALLS,     /* the same for clients whose request begins at the key's number */
	COMMAND_DECIDE,             /* record struct decided, which is behind the command; result: it was waited for */
	COMMAND_RETIRE,             /* retire idle leg first */
	COMMAND_COMPLETE,           /* make the answered legs of count struct completion behind the command idle */
	COMMAND_ABANDON,      /* end the sessions in first..first+count that wait for the first byte of surrogate */
	COMMAND_COUNT_SOURCE, /* add count (signed) to the clients of source first */
	COMMAND_SEND, /* send count struct leg_frame behind the command by interface first; result: bit n, frame n was sent */
};

/* Run by user space (BPF_PROG_TEST_RUN); the result is returned in place. */
struct splice_command {
	__u8 ethernet[14]; /* BPF_PROG_TEST_RUN needs a frame */
	__u16 kind;
	__u32 surrogate;
	__u32 first; /* splice */
	__u32 count;
	__u32 handshake; /* ms, timeouts of sweep */
	__u32 idle;
	__u32 closing;
	__u32 result; /* entries that changed */
};

/* A SYN or ACK of a leg, whole but for the Ethernet addresses. */
struct leg_frame {
	__u8 bytes[LEG_FRAME];
	__u32 length;
};

struct leg_frames {
	struct leg_frame of[COMMAND_FRAMES];
};

/* A client with user space's decision on its request. Its entry must still be of that request. */
struct decided {
	struct tuple client;
	struct client entry;
};

/* An answered leg to make idle. User space fills in splice; the rest is returned, and what the ACK of the SYN-ACK needs. */
struct completion {
	__u32 splice;
	__u32 snd_nxt;
	__u32 rcv_nxt;
	__u32 ts_server;
	__u32 flags; /* enum splice_flag */
	__u16 server_mss;
	__u8 leg_class;
	__u8 done; /* it was answered, and is idle */
};

/* The verdict on a packet. Those without DROP_ are not drops. */
enum verdict {
	PASS,           /* not for the router */
	PASS_LOCAL,     /* belongs to a socket of this host: proxied, redirected */
	TO_SERVER,      /* of a client, translated and forwarded to its surrogate */
	TO_CLIENT,      /* of a surrogate, translated and forwarded to its client */
	SYN_ANSWERED,   /* a client's SYN, answered */
	SYN_COOKIE,     /* the same, but the table of SYN options is full: its options are lost */
	HANDOFF,        /* a request, spliced to a surrogate */
	MOVED,          /* a request of a spliced session, moved to another surrogate */
	RECYCLED,       /* a client's FIN or RST: its leg is back in the pool */
	UPCALL,         /* sent to user space for a decision */
	ASSIGNED,       /* assigned to an ordinary listening socket, with its connection */
	FIN_ANSWERED,   /* a FIN, answered here */
	LEG_UP,         /* a surrogate's SYN-ACK, acknowledged at once */
	LEG_ANSWERED,   /* a surrogate's SYN-ACK that user space will acknowledge */
	LEG_ACKED,      /* to an idle or recycled leg, answered for it */
	CHALLENGED,     /* a SYN or an invalid RST on a live session, answered by a challenge ACK */
	INSERTED_AGAIN, /* shows that the surrogate lacks the PROXY header before the client's bytes, and gets it again */
	RESET_SENT,     /* of no known session, answered by a reset */
	ICMP_TRANSLATED,     /* an ICMP error about a spliced session, forwarded to the end concerned */
	HANDSHAKE_ACK,       /* ends a handshake: nothing to do */
	CONSUMED,            /* the last packet of a session that was ended here */
	DROP_FRAGMENT,       /* a fragment, to a VIP */
	DROP_IP_OPTIONS,     /* has IP options, to a VIP */
	DROP_IPV6_EXTENSION, /* has an IPv6 extension header, to a VIP */
	DROP_TRUNCATED,      /* shorter than its headers say, to a VIP */
	DROP_BAD_FLAGS,      /* has impossible TCP flags, to a VIP */
	DROP_BAD_OPTIONS,    /* has malformed TCP options, to a VIP */
	DROP_BAD_CHECKSUM,   /* has a wrong checksum, to a VIP */
	DROP_TTL,            /* its TTL has expired */
	DROP_STALE,          /* raced with the end of its session */
	DROP_OLD_BYTES,      /* a surrogate repeats bytes for an earlier client */
	DROP_EARLY,          /* out of order: the client retransmits it */
	DROP_GAP,          /* follows lost bytes that determine where its message ends: the surrogate retransmits it */
	DROP_NO_TAP,       /* needs user space, but no router runs */
	DROP_PENDING_FULL, /* limits.pending is reached */
	DROP_FLOWS_FULL,   /* limits.sessions is reached */
	DROP_CLOSED,       /* the VIP was removed */
	DROP_NOMEM,        /* the kernel had no memory to change it */
	DROP_RACE,         /* lost a race with another CPU: the sender retransmits it */
	DROP_MALFORMED,    /* has an ambiguous body, where requests are routed separately: the client gets 400 */
	DROP_WINDOW, /* outside of the session's windows, or an ICMP error about such a packet: guessed, or too late */
	DROP_INTERFACE,   /* from a surrogate's address, but from an interface on no route to it */
	DROP_TOO_BIG,     /* longer than the MTU of its way out: ICMP tells its sender */
	DROP_SOURCE_FULL, /* its source has used up its share of limits.pending: the client retransmits it */
	VERDICTS,
};
