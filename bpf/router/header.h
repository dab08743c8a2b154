/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The header of the PROXY protocol (HAProxy, doc/proxy-protocol.txt) that tells a surrogate its client. It is a function
 * of the client's tuple, of the session's first numbers and of the name in authorities, so that a lost one is made again and
 * is the same. It has no ALPN: which protocol of the client's list is spoken, the surrogate alone will know.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../session/splice.h"
#include "../wire/packet.h"
#include "types.h"

/* Version 2. */
#define PROXY_COMMAND   0x21 /* version 2, PROXY */
#define PROXY_TCP4      0x11
#define PROXY_TCP6      0x21
#define TLV_AUTHORITY   0x02
#define TLV_CRC32C      0x03
#define TLV_UNIQUE_ID   0x05
#define SIGNATURE_BYTES 12
#define UNIQUE_BYTES    16
#define V2_BYTES        (SIGNATURE_BYTES + 4) /* up to the addresses */

/* What a header says. */
struct introduction {
	struct tuple client;
	__u32 seq;  /* of the client's first byte on the leg, in its own numbers */
	__u32 ack;  /* that byte's acknowledgement */
	__u16 kind; /* enum header */
	__u16 head; /* bytes of the head that is edited; 0: a header in front of all */
	__u16 len;  /* bytes more than the client's; 0: nothing is inserted */
	__u64 sum;  /* of that head's bytes */
	struct authority authority;
};

#define EDITED_BYTES (HEAD_BYTES + 2 * PAYLOAD_BYTES)

/*
 * A request's head as the surrogate gets it, and the body in the same packet behind it. Parts are written whole, and then
 * overwritten from their end on.
 */
struct edited {
	__u32 len;
	__u32 head; /* bytes of the client's head */
	__u16 path; /* offsets in it */
	__u16 host;
	__u16 host_end;
	__u8 bytes[EDITED_BYTES + HEAD_BYTES];
};

/* Of a session, under its lock. */
static __always_inline void introduce(const struct splice *s, struct introduction *i)
{
	i->client = s->client;
	i->seq = head_start(s) - s->to_server_seq;
	i->ack = s->rcv_base - s->to_server_ack;
	i->kind = s->header;
	i->head = s->ins_head;
	i->len = s->ins_len;
	i->sum = s->ins_sum;
}

/* CRC-32C (RFC 3720, appendix B.4) by half bytes. */
static const __u32 crc32c_of[16] = {
	0x00000000, 0x105ec76f, 0x20bd8ede, 0x30e349b1, 0x417b1dbc, 0x5125dad3, 0x61c69362, 0x7198540d,
	0x82f63b78, 0x92a8fc17, 0xa24bb5a6, 0xb21572c9, 0xc38d26c4, 0xd3d3e1ab, 0xe330a81a, 0xf36e6f75,
};

struct checksum_walk {
	const struct payload *h;
	__u32 crc;
};

static long crc_step(__u32 i, struct checksum_walk *c)
{
	__u32 crc = c->crc;

	hide(i);
	if (i >= PAYLOAD_BYTES)
		return 1;
	crc ^= c->h->bytes[i];
	crc = crc32c_of[crc & 15] ^ crc >> 4;
	c->crc = crc32c_of[crc & 15] ^ crc >> 4;
	return 0;
}

static __always_inline void put_byte(struct payload *h, __u8 c)
{
	__u32 at = h->len;

	hide(at);
	if (at < PAYLOAD_BYTES) {
		h->bytes[at] = c;
		h->len = at + 1;
	}
}

static __always_inline void put_be(struct payload *h, __u32 value, int bytes)
{
	for (int i = bytes - 1; i >= 0; i--)
		put_byte(h, value >> (8 * i));
}

static __always_inline void put_bytes(struct payload *h, const void *from, int n)
{
	for (int i = 0; i < n; i++)
		put_byte(h, ((const __u8 *)from)[i]);
}

/* Bytes of the TLV with the name. */
static __always_inline __u32 authority_bytes(const struct introduction *i)
{
	return i->authority.len ? 3 + i->authority.len : 0;
}

/* at is the header's length so far, which is constant. */
static __always_inline void put_authority(struct payload *h, const struct introduction *i, __u32 at)
{
	__u32 len = i->authority.len;

	hide(len);
	if (!len || len > AUTHORITY)
		return;
	put_byte(h, TLV_AUTHORITY);
	put_be(h, len, 2);
	__builtin_memcpy(&h->bytes[at + 3], i->authority.name, AUTHORITY); /* zeros behind it */
	h->len = at + 3 + len;
}

static __always_inline void put_v2_tail(struct payload *h, const struct introduction *i)
{
	__u32 crc_at = h->len + 3 + UNIQUE_BYTES + 3, crc;
	struct checksum_walk c = { .h = h, .crc = ~0U };

	put_byte(h, TLV_UNIQUE_ID);
	put_be(h, UNIQUE_BYTES, 2);
	put_be(h, i->seq, 4);
	put_be(h, i->ack, 4);
	put_bytes(h, &i->client.sport, 2);
	put_bytes(h, &i->client.dport, 2);
	put_bytes(h, &i->client.src[12], 4);
	put_byte(h, TLV_CRC32C);
	put_be(h, 4, 2);
	put_be(h, 0, 4);
	bpf_loop(h->len, crc_step, &c, 0);
	crc = ~c.crc;
	h->len = crc_at;
	put_be(h, crc, 4);
}

static __always_inline void put_v2(struct payload *h, const struct introduction *i, bool v6)
{
	static const __u8 signature[SIGNATURE_BYTES] = {
		'\r', '\n', '\r', '\n', 0, '\r', '\n', 'Q', 'U', 'I', 'T', '\n'
	};
	const struct tuple *t = &i->client;

	put_bytes(h, signature, SIGNATURE_BYTES);
	put_byte(h, PROXY_COMMAND);
	put_byte(h, v6 ? PROXY_TCP6 : PROXY_TCP4);
	put_be(h, (v6 ? 36 : 12) + authority_bytes(i) + 3 + UNIQUE_BYTES + 3 + 4, 2);
	put_bytes(h, v6 ? t->src : &t->src[12], v6 ? 16 : 4);
	put_bytes(h, v6 ? t->dst : &t->dst[12], v6 ? 16 : 4);
	put_bytes(h, &t->sport, 2);
	put_bytes(h, &t->dport, 2);
	if (v6)
		put_authority(h, i, V2_BYTES + 36);
	else
		put_authority(h, i, V2_BYTES + 12);
	put_v2_tail(h, i);
}

static __always_inline void put_decimal(struct payload *h, __u32 n)
{
	bool begun = false;

	for (__u32 unit = 10000; unit; unit /= 10) {
		__u32 digit = n / unit % 10;

		begun |= digit || unit == 1;
		if (begun)
			put_byte(h, '0' + digit);
	}
}

static __always_inline void put_group(struct payload *h, __u32 group)
{
	bool begun = false;

	for (int shift = 12; shift >= 0; shift -= 4) {
		__u32 digit = group >> shift & 15;

		begun |= digit || !shift;
		if (begun)
			put_byte(h, digit < 10 ? '0' + digit : 'a' + digit - 10);
	}
}

/* A run of groups that are 0. */
struct zeros {
	__u32 at;
	__u32 len;
};

/* The longest run of an IPv6 address, the first of several; a single group is none (RFC 5952, 4.2). */
static __always_inline struct zeros longest_zeros(const __u8 *a)
{
	struct zeros z = { .at = 8, .len = 1 };
	__u32 run = 0;

	for (__u32 i = 0; i < 8; i++) {
		run = a[2 * i] | a[2 * i + 1] ? 0 : run + 1;
		if (run > z.len) {
			z.len = run;
			z.at = i + 1 - run;
		}
	}
	hide(z.at);
	hide(z.len);
	return z;
}

static __always_inline void put_v6(struct payload *h, const __u8 *a)
{
	struct zeros z = longest_zeros(a);

	for (__u32 i = 0; i < 8; i++) {
		if (i == z.at) {
			put_byte(h, ':');
			if (z.at + z.len == 8)
				put_byte(h, ':');
		} else if (i < z.at || i >= z.at + z.len) {
			if (i)
				put_byte(h, ':');
			put_group(h, a[2 * i] << 8 | a[2 * i + 1]);
		}
	}
}

/* In text. */
__noinline int put_address(struct payload *h, const struct introduction *i, bool to, bool v6)
{
	const __u8 *a;

	if (!h || !i)
		return 0;
	a = to ? i->client.dst : i->client.src;
	if (v6) {
		put_v6(h, a);
	} else {
		for (int k = 12; k < 16; k++) {
			if (k > 12)
				put_byte(h, '.');
			put_decimal(h, a[k]);
		}
	}
	return 0;
}

static __always_inline void put_v1(struct payload *h, const struct introduction *i, bool v6)
{
	put_bytes(h, v6 ? "PROXY TCP6 " : "PROXY TCP4 ", 11);
	put_address(h, i, false, v6);
	put_byte(h, ' ');
	put_address(h, i, true, v6);
	put_byte(h, ' ');
	put_decimal(h, bpf_ntohs(i->client.sport));
	put_byte(h, ' ');
	put_decimal(h, bpf_ntohs(i->client.dport));
	put_byte(h, '\r');
	put_byte(h, '\n');
}

/* Writes the header into h, whose rest is zeros. */
__noinline int make_header(struct payload *h, const struct introduction *i)
{
	bool v6;

	if (!h || !i)
		return 0;
	__builtin_memset(h, 0, sizeof(*h));
	v6 = !is_mapped(i->client.src);
	switch (i->kind) {
	case HEADER_PROXY_V1:
		put_v1(h, i, v6);
		break;
	case HEADER_PROXY_V2:
		put_v2(h, i, v6);
		break;
	}
	return 0;
}
