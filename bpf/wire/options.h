/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* TCP options, one after the other (RFC 9293, 3.1). */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "packet.h"

struct option_walk {
	__u32 off; /* of the next option */
	__u32 len; /* of all */
	__u32 bad; /* an option does not fit: what follows cannot be read */
};

/* Moves on over the option at *at. Returns its size; 1: it is padding; 0: there are no more. */
static __always_inline __u32 next_option(struct option_walk *walk, const __u8 *bytes, __u32 *at)
{
	__u32 off = walk->off, size;

	if (off >= walk->len || off >= OPTION_BYTES || bytes[off] == OPTION_END)
		return 0;
	*at = off;
	if (bytes[off] == OPTION_NOP) {
		walk->off = off + 1;
		return 1;
	}
	size = bytes[off + 1];
	if (off + 1 >= walk->len || size < 2 || off + size > walk->len || off + size > OPTION_BYTES) {
		walk->bad = 1;
		return 0;
	}
	walk->off = off + size;
	return size;
}

struct options_read {
	struct option_walk walk;
	struct packet *packet;
	const struct options *options;
};

static long read_option(__u32 i, struct options_read *read)
{
	const __u8 *o = read->options->bytes;
	struct packet *p = read->packet;
	__u32 at, size = next_option(&read->walk, o, &at);

	if (!size)
		return 1;
	switch (o[at]) {
	case OPTION_MSS:
		if (size == 4)
			p->mss = o[at + 2] << 8 | o[at + 3];
		break;
	case OPTION_WSCALE:
		if (size == 3)
			p->wscale = o[at + 2] > MAX_SCALE ? MAX_SCALE : o[at + 2]; /* RFC 7323, 2.3 */
		break;
	case OPTION_SACK_OK:
		if (size == 2)
			p->sack_ok = 1;
		break;
	case OPTION_SACK: /* what would go out untranslated is refused, as are repetitions of what is translated once */
		read->walk.bad = p->sack_at != NO_OPTION || size < 10 || (size - 2) % 8;
		p->sack_at = at;
		p->sack_len = size;
		break;
	case OPTION_TS:
		read->walk.bad = has_ts(p) || size != 10;
		p->ts_at = at;
		p->tsval = bpf_ntohl(*(__be32 *)&o[at + 2]);
		p->tsecr = bpf_ntohl(*(__be32 *)&o[at + 6]);
		break;
	}
	return read->walk.bad;
}

#define NOP_NOP_SACK 0x01010500 /* what Linux puts before SACK blocks; behind it their size */

/* What Linux sends while bytes are missing: timestamps, and SACK behind them. False: other options. */
static __always_inline bool read_usual(struct packet *p, const struct options *o)
{
	const __be32 *word = (const void *)o->bytes;
	__u32 sack = p->options - 14; /* the option, behind four NOPs and timestamps */

	if (p->options < 24 || (sack - 2) % 8 || word[0] != bpf_htonl(NOP_NOP_TS) ||
	    word[3] != bpf_htonl(NOP_NOP_SACK | sack))
		return false;
	p->ts_at = 2;
	p->tsval = bpf_ntohl(word[1]);
	p->tsecr = bpf_ntohl(word[2]);
	p->sack_at = 14;
	p->sack_len = sack;
	return true;
}

/* Reads the options of a segment into p, and leaves their bytes in o. False: they are malformed, or repeat what is translated. */
__noinline int read_options(struct __sk_buff *skb, struct packet *p, struct options *o)
{
	struct options_read read = { .packet = p, .options = o };
	__u32 len;

	if (!p || !o)
		return false;
	no_options(p);
	read.walk.len = len = p->options;
	__builtin_memset(o, 0, sizeof(*o));
	if (!is_within(len, 1, OPTION_BYTES) || bpf_skb_load_bytes(skb, p->l4 + TCP_BYTES, o->bytes, len))
		return false;
	if (read_usual(p, o))
		return true;
	bpf_loop(OPTION_BYTES, read_option, &read, 0);
	return !read.walk.bad;
}
