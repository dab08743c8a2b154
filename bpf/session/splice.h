/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The record of a session, which user space reads too. The other headers of this directory change it: pure functions,
 * without maps, helpers or access to a packet, so that the same code runs in the kernel, under the record's lock, and
 * in the model checker of splice/model.
 *
 * Numbers are in the server leg's sequence space unless noted otherwise, in host byte order, modulo 2^32.
 */
#pragma once

#include <linux/bpf.h>
#include "../wire/fields.h"

enum session_bound {
	OUR_WSCALE = 10,    /* window shift that we advertise on both legs: windows up to 64 MiB, in steps of 1 KiB */
	IDLE_WINDOW = 4096, /* bytes: smallest window advertised on an idle leg */
};

enum splice_state {
	SPLICE_FREE,     /* owned by user space */
	SPLICE_OPENING,  /* SYN sent to the surrogate */
	SPLICE_ANSWERED, /* SYN-ACK received; user space acknowledges it later */
	SPLICE_IDLE,     /* established server leg, in its leg pool */
	SPLICE_ACTIVE,   /* joined to a client leg */
	SPLICE_CLOSING,  /* at least one FIN forwarded */
	SPLICE_DEAD,     /* over; user space frees it */
};

/* Where each direction of a session is in its HTTP messages. */
enum framing {
	FRAMING_QUIET,   /* between messages: the next client byte starts a request */
	FRAMING_HEAD,    /* a head is due; for a request: so many bytes of it */
	FRAMING_PART,    /* a response head continues in the next packet */
	FRAMING_BODY,    /* so many bytes are left */
	FRAMING_CHUNKED, /* see enum chunk; bytes left are those of the chunk */
	FRAMING_DONE,    /* message complete */
	FRAMING_CLOSE,   /* the message ends with the connection */
	FRAMING_OPAQUE,  /* not tracked: the session stays on its leg, which is not reused */
};

enum chunk {
	CHUNK_SIZE_FIRST, /* at least one digit must follow */
	CHUNK_SIZE,
	CHUNK_SIZE_BLANK, /* after a size: more blanks, an extension or the end of the line */
	CHUNK_EXTENSION,
	CHUNK_SIZE_LF,
	CHUNK_DATA,
	CHUNK_DATA_CR,
	CHUNK_DATA_LF,
	CHUNK_LAST_CR, /* after the last chunk or a trailer */
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
	SPLICE_UPCALL = 128,      /* user space decides the current request */
	SPLICE_WIDE = 256,        /* idle: the surrogate may still use an earlier client's larger window */
	SPLICE_HEAD_METHOD = 512, /* the request was HEAD: the response has no body */
	SPLICE_MOVING = 1024,     /* its client is moving to another leg */
	SPLICE_CLIENT_WSCALE = 2048,
	SPLICE_SERVER_WSCALE = 4096,
	SPLICE_SPOILT = 8192,    /* may affect the next client: the leg is not reused */
	SPLICE_FIRST = 16384,    /* the first leg of its client: snd_base is where the client began */
	SPLICE_ROUTED = 32768,   /* its VIP has several pools: the starts of requests must stay known */
	SPLICE_HOLD = 65536,     /* its VIP routes each request separately: only bytes of the current one pass */
	SPLICE_UPGRADE = 131072, /* the current request carries Upgrade */
	SPLICE_KEEP = 262144,    /* the leg starts from its client's own address and port: it is for nobody else */
	SPLICE_NARROW = 524288,  /* the last acknowledgement told the surrogate the window of an idle leg */
};

enum method { METHOD_NONE, METHOD_GET, METHOD_HEAD, METHOD_POST, METHOD_PUT, METHOD_DELETE };

/*
 * Distance classes of clients, by RTT. What a surrogate's TCP has measured on a leg (minimum RTT and all derived from
 * it) fits the next client only if that one is as far away. So a leg takes the band of the clients that it has served.
 */
enum band {
	BAND_NONE,      /* client: unknown; leg: has served nobody */
	BAND_NEAREST,   /* below 250 us; each of the next is twice as wide */
	BAND_4MS = 6,   /* up to 64 ms, 4 ms wide each */
	BAND_64MS = 21, /* up to 128 ms, 8 ms wide each */
	BAND_FAR = 29,  /* beyond; also legs that must not be reused */
};

struct next_hop {
	__u32 ifindex; /* 0: unknown */
	__u32 checked; /* ms; looked up again after NEXT_HOP_MS */
	__u32 mtu;     /* of the interface, or what the route fixes; 0: unknown */
	__u8 dmac[6];
	__u8 smac[6];
};
#define NEXT_HOP_MS 1000

/*
 * A server leg and, while it serves one, its client leg. All fields are under the lock.
 * snd: towards the surrogate. rcv: from the surrogate.
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
	__u32 snd_ahead; /* highest sequence number at which a client packet began */
	__u32 snd_edge;  /* right edge of the surrogate's window, the highest advertised */
	__u32 snd_span;  /* its largest window (bytes) */
	__u32 rcv_nxt;
	__u32 rcv_acked;
	__u32 rcv_edge; /* right edge of the clients' windows: what the surrogate may send */
	__u32 rcv_span;
	__u32 rcv_base;      /* rcv_nxt when the client joined: older bytes are not for it */
	__u32 snd_base;      /* snd_nxt when the client joined */
	__u32 to_server_seq; /* + to a client's seq (paper eq. 1); - to a surrogate's ack (eq. 2) */
	__u32 to_server_ack; /* + to a client's ack (eq. 4); - to a surrogate's seq (eq. 3) */
	__u32 ts_to_server;  /* + to a client's TSval, - to a surrogate's TSecr */
	__u32 ts_to_client;  /* + to a surrogate's TSval, - to a client's TSecr */
	__u32 ts_server;     /* newest TSval received from the surrogate */
	__u32 ts_sent;       /* newest TSval sent to the surrogate */
	__u32 ts_echoed;     /* newest of those echoed by it */
	__u32 ts_client;     /* newest TSval sent to the client */
	__u32 late;          /* ms between SYN-ACK and our ACK, which user space sends; 0: at once, by the kernel */
	__u64 request_left;
	__u64 response_left;
	__u8 request;  /* enum framing */
	__u8 response; /* enum framing */
	__u8 chunk;    /* enum chunk, of the response */
	__u8 request_chunk;
	__u32 flags; /* enum splice_flag */
	__u16 surrogate;
	__u16 pool;
	__u16 window_sent; /* in the last packet to the surrogate, scaled */
	__u16 server_mss;  /* advertised by the surrogate */
	__u8 band;         /* enum band: of the clients that the leg has served */
	__u8 client_band;
	__u32 requests; /* on this server leg */
	__u32 client_requests;
	__u32 seen;       /* ms */
	__u32 since;      /* ms: state entered */
	__u32 opened;     /* ms: leg established */
	__u32 challenged; /* ms: last challenge ACK to the client */
	__u32 ins_at;     /* of bytes of our own among the client's: see below */
	__u16 ins_len;    /* 0: none is open */
	__u16 ins_head;   /* bytes of the client's head that they are in; 0: they are in front of its first byte */
	__u16 header;     /* enum header, of those bytes */
	__u32 told;       /* ms: when an end was last told of a packet that was too big */
	__u64 ins_sum;    /* of that head's bytes, with a key that the client does not know */
	__u64 bytes_to_server;
	__u64 bytes_to_client;
	struct next_hop to_server;
	struct next_hop to_client;
};

/*
 * What of the router's own goes to a surrogate: a header before the client's first byte on a leg, or a change of the head
 * of each request: HEADER_EDIT and its number.
 */
enum header { HEADER_NONE, HEADER_PROXY_V1, HEADER_PROXY_V2, HEADER_EDIT };

/* A translated packet. In host byte order but for addresses and ports. */
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
	__u16 window; /* scaled */
	__u8 keep_ts;
	__u8 keep_sack;
	__u8 insert; /* our own bytes go with it once more */
	struct next_hop hop;
};

/* Whether the bytes of a request in this state must be parsed. */
static __always_inline bool walked(__u8 framing)
{
	return framing == FRAMING_HEAD || framing == FRAMING_CHUNKED;
}

/* The same for a response. */
static __always_inline bool read_on(__u8 framing)
{
	return framing == FRAMING_HEAD || framing == FRAMING_PART || framing == FRAMING_CHUNKED;
}

/* Between two messages. */
static __always_inline bool quiet(const struct splice *s)
{
	return s->request == FRAMING_QUIET && s->response == FRAMING_QUIET;
}

/*
 * The insertion: bytes of the router's own before the client's first on the leg, or in a head of the client's,
 * docs/handoff.md. With that head, which is sent and acknowledged as a whole, they have the numbers [ins_at,
 * insertion_end), and are open until the surrogate has acknowledged them all; to_server_seq is right for what stands
 * behind them. A number "behind" is that of a client's byte if it stood there.
 */
static __always_inline __u32 insertion_end(const struct splice *s)
{
	return s->ins_at + s->ins_head + s->ins_len;
}

/* The number behind of the first byte of the head that the insertion is in, or goes in front of. */
static __always_inline __u32 head_start(const struct splice *s)
{
	return s->ins_at + s->ins_len;
}

/* The leg's number of a client's byte that is in no head, or begins one. */
static __always_inline __u32 client_start(const struct splice *s, __u32 behind)
{
	return s->ins_len && before(behind, insertion_end(s)) ? behind - s->ins_len : behind;
}

/*
 * Whether len bytes from behind are part of the head, or stand on both sides of an insertion in front of all. No client
 * begins before the byte that it was asked for: those in front would take the place of the insertion's.
 */
static __always_inline bool straddles(const struct splice *s, __u32 behind, __u32 len)
{
	return s->ins_len && len && before(behind, insertion_end(s)) && before(head_start(s), behind + len);
}

/* What a number of the surrogate means to the client: nothing within the insertion and its head is the client's. */
static __always_inline __u32 heard(const struct splice *s, __u32 seq)
{
	if (!s->ins_len || !before(seq, insertion_end(s)))
		return seq;
	return before(seq, s->ins_at) ? seq + s->ins_len : head_start(s);
}

/* Bytes of the current request, whose head the open insertion is in. */
static __always_inline __u64 request_length(const struct splice *s)
{
	__u32 sent = s->snd_nxt - insertion_end(s) - !!(s->flags & SPLICE_CLIENT_FIN);

	return s->ins_head + sent + s->request_left;
}

/* The surrogate has acknowledged all of it: translation is as without one. */
static __always_inline void close_insertion(struct splice *s)
{
	if (s->ins_len && !before(s->snd_una, insertion_end(s)))
		s->ins_len = 0;
}
