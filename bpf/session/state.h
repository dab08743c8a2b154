/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What a session's record says of it, and the changes that its events have in common. */
#pragma once

#include "../wire/packet.h"
#include "splice.h"

/* What an event comes with. */
struct input {
	const struct packet *packet;
	const struct walk *walk; /* where the packet's bytes lead, if the message in front is one that is read */
	__u32 now;               /* ms */
	__u32 clock;             /* ms: what timestamps are taken from */
	__u32 limit;             /* requests that a leg of the surrogate serves */
};

/* Of a leg that its client has left. */
struct left {
	__u64 to_server; /* bytes of the session */
	__u64 to_client;
	__u32 surrogate;
	__u32 leg_class;
	__u32 band;
	bool worn; /* it is dead, not idle */
};

/* A client and its decided request, for a leg. */
struct joining {
	const struct decision *decision;
	__u32 ts_client; /* the newest timestamp sent to the client */
	__u32 ifindex;   /* that it comes in by */
	__u32 flags;     /* enum splice_flag, that the session begins with */
	__u8 band;       /* enum band */
	__u8 shift;      /* of its window */
};

/* Of a session that has begun. */
struct joined {
	__u32 leg_band; /* before its client */
	__u32 behind;   /* sequence number behind the request */
	bool widen;     /* the client's window is to be advertised to the surrogate once more */
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

/* Both ends have said FIN and know of the other's. A FIN that is repeated from now on meets an RST. */
static __always_inline bool both_over(const struct splice *s)
{
	return (s->flags & (SPLICE_CLIENT_FIN | SPLICE_SERVER_FIN)) == (SPLICE_CLIENT_FIN | SPLICE_SERVER_FIN) &&
	       s->snd_una == s->snd_nxt && s->rcv_acked == s->rcv_nxt;
}

/*
 * The surrogate has all of the client, and its response ended. A packet that began ahead of all bytes would affect the next client:
 * windows of packets that begin before it are not taken (RFC 9293, 3.10.7.4: SND.WL1).
 */
static __always_inline bool is_between(const struct splice *s)
{
	return quiet(s) && s->snd_una == s->snd_nxt && !before(s->snd_nxt, s->snd_ahead);
}

/* The surrogate stands between two messages, and nothing that happened affects the next client. */
static __always_inline bool clean(const struct splice *s)
{
	return is_between(s) && !(s->flags & (SPLICE_NO_REUSE | SPLICE_SPOILT | SPLICE_UPCALL));
}

/* What the surrogate is about to learn that the client has. */
static __always_inline void note_ack(struct splice *s, const struct packet *p)
{
	__u32 ack = p->ack + s->to_server_ack;

	if (p->flags & ACK && before(s->rcv_acked, ack) && !before(s->rcv_nxt, ack))
		s->rcv_acked = ack;
}

/* The client's FIN goes on to the surrogate, behind end. */
static __always_inline void pass_client_fin(struct splice *s, __u32 end)
{
	s->flags |= SPLICE_CLIENT_FIN;
	s->snd_nxt = end + 1;
	s->state = SPLICE_CLOSING;
}

/* The client is gone: the leg is idle again, with its current numbers, or dead, as it is worn. */
static __always_inline void part(struct splice *s, bool worn, __u32 now, struct left *left)
{
	left->to_server = s->bytes_to_server;
	left->to_client = s->bytes_to_client;
	left->surrogate = s->surrogate;
	left->leg_class = s->leg_class;
	left->band = s->band;
	left->worn = worn;
	enter(s, worn ? SPLICE_DEAD : SPLICE_IDLE, now);
	__builtin_memset(&s->client, 0, sizeof(s->client));
}

/* An idle leg is given up. False: it is not idle any more. */
static __always_inline bool retire_event(struct splice *s, __u32 now)
{
	if (s->state != SPLICE_IDLE)
		return false;
	enter(s, SPLICE_DEAD, now);
	return true;
}
