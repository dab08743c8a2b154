/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* A parsed packet, and a segment of our own. In host byte order unless noted otherwise. Pure. */
#pragma once

#include "fields.h"

#define TCP_BYTES    20 /* of a header without options */
#define OPTION_BYTES 40 /* of options, at most */

/* TCP options. */
#define OPTION_END     0
#define OPTION_NOP     1
#define OPTION_MSS     2
#define OPTION_WSCALE  3
#define OPTION_SACK_OK 4
#define OPTION_SACK    5
#define OPTION_TS      8
#define NOP_NOP_TS     0x0101080a /* what Linux puts before timestamps (RFC 7323, appendix A) */
#define FOUR_NOPS      0x01010101

#define MSS_DEFAULT_V4 536 /* of a SYN without the option (RFC 9293, 3.7.1) */
#define MSS_DEFAULT_V6 1220

/* TCP header flags, in the header's own order. */
#define FIN       0x01
#define SYN       0x02
#define RST       0x04
#define PSH       0x08
#define ACK       0x10
#define URG       0x20

#define NO_OPTION 0xff

struct packet {
	struct tuple key; /* network byte order */
	__u32 seq;
	__u32 ack;
	__u32 len; /* payload bytes; of all segments when GSO */
	__u32 tsval;
	__u32 tsecr;
	__u16 l4; /* offset of the TCP header */
	__u16 payload;
	__u16 window; /* scaled */
	__u16 mss;    /* options of a SYN: 0 when absent */
	__u8 wscale;  /* NO_OPTION when absent */
	__u8 sack_ok;
	__u8 flags;
	__u8 options; /* bytes */
	__u8 ts_at;   /* offset of the timestamps option in the options, NO_OPTION when absent */
	__u8 sack_at;
	__u8 sack_len;
	__u8 v6;
	__u8 ttl;
	__u8 plain;  /* no options, or exactly NOP NOP timestamps */
	__u8 urgent; /* URG or a pointer */
	__u8 dmac[6];
	__u8 smac[6];
};

/* The bytes of its IP header, which has no options or extensions. */
static __always_inline __u32 ip_bytes(bool v6)
{
	return v6 ? 40 : 20;
}

static __always_inline bool has_ts(const struct packet *p)
{
	return p->ts_at != NO_OPTION;
}

/* Before options are parsed, and for segments without any. */
static __always_inline void no_options(struct packet *p)
{
	p->ts_at = p->sack_at = p->wscale = NO_OPTION;
	p->sack_len = p->sack_ok = 0;
	p->mss = 0;
}

/* The options of a segment, padded so that reads past an option's end stay in bounds. */
struct options {
	__u8 bytes[OPTION_BYTES + 24];
};

#define NO_SCALE 0xff

/* SYN-ACK, ACK, FIN-ACK or RST. */
struct segment {
	__u8 src[16];
	__u8 dst[16];
	__be16 sport;
	__be16 dport;
	__u32 seq;
	__u32 ack;
	__u32 tsval;
	__u32 tsecr;
	__u16 window; /* scaled */
	__u16 mss;    /* of a SYN-ACK; 0: no SYN options */
	__u8 flags;
	__u8 with_ts;
	__u8 with_sack; /* permitted, of a SYN-ACK */
	__u8 wscale;    /* of a SYN-ACK, NO_SCALE when absent */
	__u8 v6;
	__u8 dmac[6];
	__u8 smac[6];
};

/* Bytes of a segment of our own, with zeros behind them. */
#define PAYLOAD_BYTES 448

struct payload {
	__u32 len;
	__u8 bytes[PAYLOAD_BYTES];
};

/* Prepares a reply to the sender of p. The caller sets the window. */
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
