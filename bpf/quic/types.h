/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Types shared by the program for QUIC and user space; the generated Go types come from here.
 *
 * Addresses are 16 bytes in network order; IPv4 ones are IPv4-mapped (::ffff:a.b.c.d).
 */
#pragma once

#include "../wire/fields.h"

enum bound {
	MAX_VIPS = 256,
	MAX_ID = 20,            /* bytes of a connection id (RFC 9000, 17.2) */
	LEAST_OWN_ID = 8,       /* of those that clients choose (RFC 9000, 7.2) */
	UPCALL_MAC = 0x0271,    /* how the source MAC of an upcall begins; the ingress interface's number follows */
	MAX_SOURCES = 16384,    /* prefixes of clients whose upcalls are counted */
	MAX_PATHS = 16384,      /* interfaces of routes to surrogates */
	TOKENS_A_PACKET = 1000, /* of a source's bucket, which gains config.rate in a ms */
};

enum side {
	SIDE_CLIENT, /* the datagram comes from a client */
	SIDE_SERVER, /* it comes from a surrogate */
};

/* Maps a tuple to the session that translates it. The session is authoritative: it repeats both tuples. */
struct quic_flow {
	__u32 session;
	__u32 side;
};

enum session_state {
	SESSION_FREE,
	SESSION_OPEN,
};

enum session_flag {
	SESSION_FOLLOWED = 1,  /* the client has sent a short header behind the surrogate's answer; forgeries can */
	SESSION_CONFIRMED = 2, /* it has sent an id that it can only have from that answer: its address is not forged */
	SESSION_MOVED = 4,     /* made by a connection id, from another address than before; written by user space */
};

/* Names a session forever: numbers are used again, but not within a ms. */
struct quic_identity {
	__u32 session;
	__u32 since; /* ms, as in the session */
};

struct quic_hop {
	__u32 ifindex;
	__u32 checked; /* ms; looked up again after HOP_MS. 0: only the interface is known */
	__u8 dmac[6];
	__u8 smac[6];
};

/*
 * A client's path to a surrogate. Tuples, state and first hops are user space's, which writes them while no flow leads
 * here; the rest is the kernel's. Processors update it without a lock: a hop changes with a route, and is then at worst
 * half an old one for a datagram.
 */
struct quic_session {
	struct tuple client; /* of datagrams from the client: to the VIP */
	struct tuple server; /* of datagrams from the surrogate: to the router, or to the client (source: keep) */
	__u32 state;
	__u32 flags;
	__u32 since;       /* ms */
	__u32 from_client; /* ms: when the last datagram came; 0: none */
	__u32 from_server;
	__u8 id_length;  /* of the ids that the surrogate chooses; 0: unknown */
	__u8 id[MAX_ID]; /* that the client sends now, zeros behind its length */
	__u8 unused[3];
	__u64 bytes_to_server; /* of payload */
	__u64 bytes_to_client;
	struct quic_hop to_server;
	struct quic_hop to_client;
	struct quic_identity origin; /* of a moved session: that of the connection's hello; zeros: unknown */
};

/*
 * A connection id that a surrogate has chosen, at a VIP. Ids are random: two surrogates may choose one. They are learnt from
 * surrogates' long headers, and from the short headers of clients, which may use others as soon as the handshake is over.
 */
struct quic_id {
	__u8 vip[16];
	__be16 port;
	__u8 length;
	__u8 unused;
	__u8 bytes[MAX_ID]; /* zeros behind the length */
};

enum server_flag {
	SERVER_AMBIGUOUS = 1, /* two surrogates have chosen the id */
	SERVER_OWN = 2, /* the client has chosen it, for its first packets to this surrogate; written by user space */
	SERVER_CLIENTS = 4, /* learnt from a client's short header: nobody can tell whether a surrogate has chosen it */
};

struct quic_server {
	__u8 addr[16];
	__be16 port;
	__u16 flags;
	struct quic_identity learner; /* the session that had it first: no other one changes or removes this */
};

struct quic_path {
	__u8 surrogate[16];
	__u32 ifindex;
};

/* Port 0: whether any VIP has the address. */
struct quic_address {
	__u8 addr[16];
	__be16 port;
	__u16 unused;
};

struct quic_vip {
	__u32 lengths; /* a bit for each length of ids that its surrogates have chosen; set by the kernel */
	__u32 layouts; /* ids that nobody has learnt may name their server: they are upcalls */
};

struct quic_config {
	__u32 tap;   /* ifindex of the tap to user space; 0: none */
	__u32 rate;  /* upcalls a second and prefix of clients */
	__u32 burst; /* upcalls */
};

/* A client's /24, or its /56 of IPv6. */
struct quic_prefix {
	__u32 addr[4];
};

struct quic_bucket {
	__u32 filled; /* ms */
	__u32 tokens;
};

/* The outcome for a datagram. */
enum verdict {
	PASS,                /* of no QUIC VIP */
	TO_SURROGATE,        /* translated and forwarded to the surrogate */
	TO_CLIENT,           /* translated and forwarded to the client */
	UPCALL,              /* to user space: of a client without a session */
	UPCALL_AGAIN,        /* to user space: a client with a session begins another connection, or seems to */
	UPCALL_MOVED,        /* to user space: of a connection, from another address */
	ICMP_TRANSLATED,     /* an ICMP error about a translated datagram */
	DROP_EMPTY,          /* has no payload */
	DROP_TTL,            /* its TTL has expired */
	DROP_NOMEM,          /* the kernel had no memory to change it */
	DROP_FRAGMENT,       /* a fragment, to a VIP */
	DROP_IP_OPTIONS,     /* has IP options, to a VIP */
	DROP_IPV6_EXTENSION, /* has an IPv6 extension header, to a VIP */
	DROP_TRUNCATED,      /* shorter than its headers say, to a VIP */
	DROP_NO_TAP,         /* needs user space, but no router runs */
	DROP_RATE,           /* its prefix has caused too many upcalls */
	DROP_UNKNOWN_ID,     /* its connection id is of no known surrogate */
	DROP_STALE,          /* of a session that has ended meanwhile */
	DROP_UNDECIDED,      /* replayed, but no session was made */
	DROP_INTERFACE,      /* from a surrogate's address, but from an interface on no route to it */
	VERDICTS,
};
