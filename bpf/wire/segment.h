/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A segment that we send ourselves: SYN-ACK, ACK, FIN-ACK or RST. Numbers in host byte order. Pure; reply.h writes it. */
#pragma once

#include "packet.h"

#define NO_SCALE 0xff

struct segment {
	__u8 src[16];
	__u8 dst[16];
	__be16 sport;
	__be16 dport;
	__u32 seq;
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u16 window; /* as it is sent */
	__u16 mss;    /* of a SYN-ACK; 0: no option of a SYN */
	__u8 flags;
	__u8 with_ts;
	__u8 with_sack; /* permitted, of a SYN-ACK */
	__u8 wscale;    /* of a SYN-ACK, NO_SCALE when absent */
	__u8 v6;
	__u8 dmac[6];
	__u8 smac[6];
};

/* The way back to the sender of p. A window is the caller's. */
static __always_inline void answer(struct segment *r, const struct packet *p, __u8 flags, __u32 seq, __u32 ack)
{
	copy_addr(r->src, p->key.dst);
	copy_addr(r->dst, p->key.src);
	r->sport = p->key.dport;
	r->dport = p->key.sport;
	r->flags = flags;
	r->seq = seq;
	r->ack = ack;
	r->window = 0;
	r->with_ts = r->with_sack = 0;
	r->wscale = NO_SCALE;
	r->mss = 0;
	r->v6 = p->v6;
	__builtin_memcpy(r->dmac, p->smac, 6);
	__builtin_memcpy(r->smac, p->dmac, 6);
}

/* An RST that the sender of p accepts (RFC 9293, 3.10.7.1). */
static __always_inline void answer_reset(struct segment *r, const struct packet *p)
{
	if (p->flags & ACK)
		answer(r, p, RST, p->ack, 0);
	else
		answer(r, p, RST | ACK, 0, p->seq + p->len + !!(p->flags & SYN) + !!(p->flags & FIN));
}
