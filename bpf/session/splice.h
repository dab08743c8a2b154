/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The record of a session, which user space reads too. What becomes of it is the business of the other headers of this folder: pure
 * functions, without maps, helpers or packets at hand, so that the same code runs in the kernel, under the record's lock, and in the
 * exploration of splice/model.
 *
 * Numbers are in the server leg's sequence space unless said otherwise, in host byte order, modulo 2^32.
 */
#pragma once

#include <linux/bpf.h>
#include "../wire/fields.h"

enum session_bound {
	OUR_WSCALE = 10,    /* window shift advertised on both legs: windows up to 64 MiB, in steps of 1 KiB */
	IDLE_WINDOW = 4096, /* bytes: least window advertised to the surrogate of an idle leg */
};

enum splice_state {
	SPLICE_FREE,     /* owned by user space */
	SPLICE_OPENING,  /* SYN sent to the surrogate */
	SPLICE_ANSWERED, /* its SYN-ACK is here, and user space acknowledges that later */
	SPLICE_IDLE,     /* established server leg, in its leg pool */
	SPLICE_ACTIVE,   /* joined to a client leg */
	SPLICE_CLOSING,  /* at least one FIN was passed on */
	SPLICE_DEAD,     /* over; user space frees it */
};

/* Where each direction of a session stands in its HTTP messages. */
enum framing {
	FRAMING_QUIET,   /* nothing outstanding: the next client byte starts a request */
	FRAMING_HEAD,    /* a message head is due; that many bytes of it, of a request */
	FRAMING_PART,    /* a response head has begun, and goes on in the next packet */
	FRAMING_BODY,    /* that many bytes are left */
	FRAMING_CHUNKED, /* see enum chunk; the bytes left are those of the chunk */
	FRAMING_DONE,    /* message complete */
	FRAMING_CLOSE,   /* the message ends with the connection */
	FRAMING_OPAQUE,  /* not followed: the session stays where it is and its leg is not used again */
};

enum chunk {
	CHUNK_SIZE_FIRST, /* at least one digit is due */
	CHUNK_SIZE,
	CHUNK_SIZE_BLANK, /* behind a size: more blanks, an extension or the line's end */
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_LAST_CR, /* after the last chunk, or a trailer */
	CHUNK_LAST_LF,
	CHUNK_TRAILER,
	CHUNK_TRAILER_LF,
};

enum splice_flag {
	SPLICE_TS = 1,          /* both legs use timestamps */
	SPLICE_CLIENT_SACK = 2, /* the client permits SACK */
	SPLICE_SERVER_SACK = 4,
	SPLICE_ANCHOR = 8, /* the next packet of the surrogate sets ts_to_client */
	SPLICE_CLIENT_FIN = 16,
	SPLICE_SERVER_FIN = 32,
	SPLICE_NO_REUSE = 64,     /* the surrogate announced that it will close */
	SPLICE_UPCALL = 128,      /* the request in front is with user space */
	SPLICE_WIDE = 256,        /* idle: the surrogate may still hold the window of an earlier client */
	SPLICE_HEAD_METHOD = 512, /* the request was HEAD: the response has no body */
	SPLICE_MOVING = 1024,     /* its client is being given to another leg */
	SPLICE_CLIENT_WSCALE = 2048,
	SPLICE_SERVER_WSCALE = 4096,
	SPLICE_SPOILT = 8192,    /* what happened on the leg may affect the next client: not used again */
	SPLICE_FIRST = 16384,    /* the first leg of its client: snd_base is where the client began */
	SPLICE_ROUTED = 32768,   /* its VIP has several pools: where requests begin must stay known */
	SPLICE_HOLD = 65536,     /* its VIP routes each request: no byte passes that is not of one */
	SPLICE_UPGRADE = 131072, /* the request in front asks for another protocol */
};

enum method { METHOD_NONE, METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_PUT, METHOD_DELETE };

/*
 * How far away clients are, in round-trip times. What a surrogate's TCP has measured on a leg (its shortest round trip, and what
 * follows from that) holds for the next client only if that one is as far away: so a leg that has served one is of its band.
 */
enum band {
	BAND_NONE,      /* of a client: not known. Of a leg: it has served nobody yet */
	BAND_NEAREST,   /* below 250 us; each of the next is twice as far */
	BAND_4MS = 6,   /* from here to 64 ms each is 4 ms wide */
	BAND_64MS = 21, /* from here to 128 ms, 8 ms */
	BAND_FAR = 29,  /* beyond, and legs that are not to be used again */
};

struct next_hop {
	__u32 ifindex; /* 0: not known */
	__u32 checked; /* ms; resolved again after NEXT_HOP_MS */
	__u8 dmac[6];
	__u8 smac[6];
};
#define NEXT_HOP_MS 1000

/*
 * A server leg and, while it serves one, the client leg joined to it. All under the lock.
 * snd: bytes towards the surrogate. rcv: bytes from it.
 */
struct splice {
	struct bpf_spin_lock lock;
	__u8 state; /* enum splice_state */
	__u8 leg_class;
	__u8 server_shift;   /* window shift that the surrogate advertised */
	__u8 client_shift;   /* window shift that the client advertised */
	struct tuple server; /* packets from the surrogate */
	struct tuple client; /* packets from the client */
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 snd_ahead; /* the furthest number that a packet of the client began with */
	__u32 snd_edge;  /* right edge of the surrogate's window, the furthest advertised */
	__u32 snd_span;  /* its largest window, in bytes */
	__u32 rcv_nxt;
	__u32 rcv_acked;
	__u32 rcv_edge; /* the same of the clients' windows: what the surrogate may send */
	__u32 rcv_span;
	__u32 rcv_base;      /* rcv_nxt when the client came: older bytes are not its */
	__u32 snd_base;      /* snd_nxt when the client came */
	__u32 to_server_seq; /* + to a client's seq (paper eq. 1); - to a surrogate's ack (eq. 2) */
	__u32 to_server_ack; /* + to a client's ack (eq. 4); - to a surrogate's seq (eq. 3) */
	__u32 ts_to_server;  /* + to a client's TSval, - to a surrogate's TSecr */
	__u32 ts_to_client;  /* + to a surrogate's TSval, - to a client's TSecr */
	__u32 ts_server;     /* newest TSval seen from the surrogate */
	__u32 ts_sent;       /* newest TSval sent to the surrogate */
	__u32 ts_echoed;     /* newest of those that it has echoed */
	__u32 ts_client;     /* newest TSval sent to the client */
	__u32 late; /* ms that the SYN-ACK waits for our ACK, or did, which user space sends then; 0: at once */
	__u64 request_left;
	__u64 response_left;
	__u8 request;  /* enum framing */
	__u8 response; /* enum framing */
	__u8 chunk;    /* enum chunk, of the response */
	__u8 request_chunk;
	__u32 flags; /* enum splice_flag */
	__u16 surrogate;
	__u16 pool;
	__u16 window_sent; /* to the surrogate, as it was sent */
	__u16 server_mss;  /* advertised by the surrogate */
	__u8 band;         /* enum band: of the clients that the leg has served */
	__u8 client_band;
	__u32 requests; /* on this server leg */
	__u32 client_requests;
	__u32 seen;       /* ms */
	__u32 since;      /* ms: state entered */
	__u32 opened;     /* ms: leg established */
	__u32 challenged; /* ms: the client was last */
	__u64 bytes_to_server;
	__u64 bytes_to_client;
	struct next_hop to_server;
	struct next_hop to_client;
};

/* What a packet becomes. In host byte order but for addresses and ports. */
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
	__u16 window; /* as it is sent */
	__u8 keep_ts;
	__u8 keep_sack;
	struct next_hop hop;
};

/* Whether the bytes of a request in this state are read. */
static __always_inline bool walked(__u8 framing)
{
	return framing == FRAMING_HEAD || framing == FRAMING_CHUNKED;
}

/* The same of a response. */
static __always_inline bool read_on(__u8 framing)
{
	return framing == FRAMING_HEAD || framing == FRAMING_PART || framing == FRAMING_CHUNKED;
}

/* Between two messages. */
static __always_inline bool quiet(const struct splice *s)
{
	return s->request == FRAMING_QUIET && s->response == FRAMING_QUIET;
}
