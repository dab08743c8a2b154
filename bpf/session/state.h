/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Predicates on a session and the state changes shared by its events. */
#pragma once

#include "../wire/packet.h"
#include "splice.h"

/* The input of an event. */
struct input {
	const struct packet *packet;
	const struct walk *walk; /* walk over the packet's bytes, if its message is parsed */
	__u32 now;               /* ms */
	__u32 clock;             /* ms: our timestamp clock */
	__u32 limit;             /* most requests on a leg of the surrogate */
	bool reread;             /* the packet begins where the head of an insertion does, and has been read */
	__u32 head;              /* bytes of the head that it begins with; 0: none that would be edited again */
	__u64 sum;               /* of those bytes, as that of struct insertion */
	__u64 request;           /* of that head's request */
};

/* Bytes of our own to go with a request: struct splice has them once they are sent. */
struct insertion {
	__u16 len;    /* 0: none */
	__u16 head;   /* bytes of the head that they are in; 0: they go before it, and its bytes in a later packet */
	__u16 header; /* enum header */
	__u64 sum;    /* of the head's bytes */
};

/* A leg that its client has left. */
struct released_leg {
	__u64 to_server; /* bytes in the session */
	__u64 to_client;
	__u32 surrogate;
	__u32 leg_class;
	__u32 band;
	bool worn; /* the leg is dead, not idle */
};

/* A client with a decided request, to be joined to a leg. */
struct joining {
	__u32 ts_client; /* the newest timestamp sent to the client */
	__u32 ifindex;   /* the client's ingress */
	__u32 flags;     /* enum splice_flag of the new session */
	struct insertion insertion;
	__u8 band;  /* enum band */
	__u8 shift; /* window shift */
};

/* The result of a join. */
struct joined {
	__u32 leg_band; /* before the client joined */
	__u32 behind;   /* sequence number after the request's bytes */
	bool widen;     /* the client's window must be advertised to the surrogate once more */
};

static __always_inline bool is_joined(const struct splice *s)
{
	return s->state == SPLICE_ACTIVE || s->state == SPLICE_CLOSING;
}

static __always_inline void enter(struct splice *s, __u8 state, __u32 now)
{
	s->state = state;
	s->since = now;
}

/* Both FINs are sent and acknowledged. A FIN retransmitted from now on draws an RST. */
static __always_inline bool both_over(const struct splice *s)
{
	return (s->flags & (SPLICE_CLIENT_FIN | SPLICE_SERVER_FIN)) == (SPLICE_CLIENT_FIN | SPLICE_SERVER_FIN) &&
	       s->snd_una == s->snd_nxt && s->rcv_acked == s->rcv_nxt;
}

/*
 * The surrogate has received everything from the client, and its response is complete. A packet that began beyond that
 * would affect the next client: TCP ignores windows of segments that begin before it (RFC 9293, 3.10.7.4: SND.WL1).
 */
static __always_inline bool is_between(const struct splice *s)
{
	return quiet(s) && s->snd_una == s->snd_nxt && !before(s->snd_nxt, s->snd_ahead);
}

/* The surrogate is between messages, and nothing on the leg affects the next client. */
static __always_inline bool clean(const struct splice *s)
{
	return is_between(s) && !(s->flags & (SPLICE_NO_REUSE | SPLICE_SPOILT | SPLICE_UPCALL));
}

/* Records the client's ACK, which goes on to the surrogate. */
static __always_inline void note_ack(struct splice *s, const struct packet *p)
{
	__u32 ack = p->ack + s->to_server_ack;

	if (p->flags & ACK && before(s->rcv_acked, ack) && !before(s->rcv_nxt, ack))
		s->rcv_acked = ack;
}

/*
 * Notes a client's packet with this acknowledgement. fresh: it acknowledges new bytes. After a whole response and before
 * the next request the packet gets an idle leg's window, which the surrogate accepts with a new acknowledgement.
 */
static __always_inline void note_rest(struct splice *s, __u32 ack, bool fresh)
{
	if (!clean(s) || ack != s->rcv_nxt)
		s->flags &= ~SPLICE_NARROW;
	else if (fresh)
		s->flags |= SPLICE_NARROW;
}

/* The client leaves the leg. accepted: the window of an idle leg goes with a new acknowledgement. */
static __always_inline void note_idle_window(struct splice *s, bool accepted)
{
	s->flags &= ~SPLICE_WIDE;
	if (!accepted && !(s->flags & SPLICE_NARROW))
		s->flags |= SPLICE_WIDE;
}

/* Forwards the client's FIN, which follows end. */
static __always_inline void pass_client_fin(struct splice *s, __u32 end)
{
	s->flags |= SPLICE_CLIENT_FIN;
	s->snd_nxt = end + 1;
	s->state = SPLICE_CLOSING;
}

/* The client leaves: the leg becomes idle with its current numbers, or dead if it is worn out. */
static __always_inline void release_leg(struct splice *s, bool worn, __u32 now, struct released_leg *released)
{
	released->to_server = s->bytes_to_server;
	released->to_client = s->bytes_to_client;
	released->surrogate = s->surrogate;
	released->leg_class = s->leg_class;
	released->band = s->band;
	released->worn = worn;
	enter(s, worn ? SPLICE_DEAD : SPLICE_IDLE, now);
	__builtin_memset(&s->client, 0, sizeof(s->client));
}

/* Retires an idle leg. False: it is no longer idle. */
static __always_inline bool retire_event(struct splice *s, __u32 now)
{
	if (s->state != SPLICE_IDLE)
		return false;
	enter(s, SPLICE_DEAD, now);
	return true;
}

/* Whether the leg may serve the client: one that keeps its client's address serves it alone, and once. */
static __always_inline bool may_serve(const struct splice *s, const struct tuple *client)
{
	return !(s->flags & SPLICE_KEEP) || (same_addr(s->server.dst, client->src) && s->server.dport == client->sport);
}
