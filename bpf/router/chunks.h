/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Parses chunked bodies. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../session/http.h"
#include "../session/splice.h"

/* Chunked coding (RFC 9112, 7.1), one byte per step except for data, over the packet's payload from off. */
struct chunk_walk {
	struct __sk_buff *skb;
	__u64 left;
	__u32 off;
	__u32 end;
	__u8 chunk;
	__u8 done;
	__u8 bad;
	__u32 behind; /* bytes after the end of the message */
};

/* A control byte, not allowed in chunk extensions and trailers. CR ends those. */
static __always_inline bool control(__u8 b)
{
	return (b < ' ' && b != '\t' && b != '\r') || b == 0x7f;
}

static __always_inline bool hexadecimal(__u8 b)
{
	return (b >= '0' && b <= '9') || ((b | 0x20) >= 'a' && (b | 0x20) <= 'f');
}

/* A byte after a chunk's size or the blanks after it. False: malformed. */
static __always_inline bool behind_size(struct chunk_walk *c, __u8 b)
{
	if (b == '\r')
		c->chunk = CHUNK_SIZE_LF;
	else if (b == ';')
		c->chunk = CHUNK_EXTENSION;
	else if (b == ' ' || b == '\t')
		c->chunk = CHUNK_SIZE_BLANK;
	else
		return false;
	return true;
}

/* A byte of a chunk's size. */
static __always_inline void size_byte(struct chunk_walk *c, __u8 b)
{
	if (!hexadecimal(b)) {
		c->bad = c->chunk == CHUNK_SIZE_FIRST || !behind_size(c, b);
		return;
	}
	c->bad = !!(c->left >> 59); /* 63 bits at most, as in servers */
	c->left = c->left << 4 | (b <= '9' ? b - '0' : (b | 0x20) - 'a' + 10);
	c->chunk = CHUNK_SIZE;
}

/* A byte outside of chunk data. */
static __always_inline void chunk_byte(struct chunk_walk *c, __u8 b)
{
	switch (c->chunk) {
	case CHUNK_SIZE_FIRST:
	case CHUNK_SIZE:
		size_byte(c, b);
		break;
	case CHUNK_SIZE_BLANK:
		c->bad = !behind_size(c, b);
		break;
	case CHUNK_EXTENSION:
		c->bad = control(b);
		if (b == '\r')
			c->chunk = CHUNK_SIZE_LF;
		break;
	case CHUNK_SIZE_LF:
		c->bad = b != '\n';
		c->chunk = c->left ? CHUNK_DATA : CHUNK_LAST_CR;
		break;
	case CHUNK_DATA_CR:
		c->bad = b != '\r';
		c->chunk = CHUNK_DATA_LF;
		break;
	case CHUNK_DATA_LF:
		c->bad = b != '\n';
		c->chunk = CHUNK_SIZE_FIRST;
		break;
	case CHUNK_LAST_CR:
		c->bad = control(b);
		c->chunk = b == '\r' ? CHUNK_LAST_LF : CHUNK_TRAILER;
		break;
	case CHUNK_LAST_LF:
		c->bad = b != '\n';
		c->done = 1;
		break;
	case CHUNK_TRAILER:
		c->bad = control(b);
		if (b == '\r')
			c->chunk = CHUNK_TRAILER_LF;
		break;
	case CHUNK_TRAILER_LF:
		c->bad = b != '\n';
		c->chunk = CHUNK_LAST_CR;
		break;
	}
}

/* Skips chunk data. Returns whether the packet has ended. */
static __always_inline bool chunk_data(struct chunk_walk *c)
{
	__u32 here = c->end - c->off;

	if (c->left > here) {
		c->left -= here;
		c->off = c->end;
		return true;
	}
	c->off += c->left;
	c->left = 0;
	c->chunk = CHUNK_DATA_CR;
	return false;
}

static long chunk_step(__u32 i, struct chunk_walk *c)
{
	__u8 b;

	if (c->off >= c->end || c->done || c->bad)
		return 1;
	if (c->chunk == CHUNK_DATA)
		return chunk_data(c);
	if (bpf_skb_load_bytes(c->skb, c->off, &b, 1)) {
		c->bad = 1;
		return 1;
	}
	c->off++;
	chunk_byte(c, b);
	return 0;
}

#define CHUNK_STEPS 16384 /* more than the bytes of a packet that is not GSO */

static __always_inline void walk_chunks(struct __sk_buff *skb, struct chunk_walk *c, __u32 off, __u32 end)
{
	c->skb = skb;
	c->off = off;
	c->end = end;
	c->done = c->bad = 0;
	c->behind = 0;
	bpf_loop(CHUNK_STEPS, chunk_step, c, 0);
	if (c->off == c->end)
		return;
	if (c->done)
		c->behind = c->end - c->off;
	else if (!c->bad)
		c->bad = CHUNKS_LONG;
}
