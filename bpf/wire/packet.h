/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* What is read from a packet's headers. In host byte order unless said otherwise. Pure. */
#pragma once

#include "tuple.h"

#define OPTION_BYTES 40

/* TCP header flags, in the header's own order. */
#define FIN       0x01
#define SYN       0x02
#define RST       0x04
#define PSH       0x08
#define ACK       0x10
#define URG       0x20
#define CWR_ECE   0xc0

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
	__u16 window; /* as it was sent */
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
	__u8 plain;  /* options are none, or exactly NOP NOP timestamps */
	__u8 urgent; /* URG or a pointer */
	__u8 dmac[6];
	__u8 smac[6];
};

static __always_inline bool has_ts(const struct packet *p)
{
	return p->ts_at != NO_OPTION;
}
