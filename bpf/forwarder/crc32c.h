/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * CRC-32C is linear: xoring a message with d xors its CRC with that of d and the zeros that follow, computed without initial and final
 * inversion. 2^n zeros are appended at a time by a multiplication with a matrix over GF(2), whose columns user space fills in.
 */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/fields.h"

#define CRC_POWERS 17

struct crc_power {
	__u32 column[32]; /* image of each bit under 2^n zero bytes */
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, CRC_POWERS);
	__type(key, __u32);
	__type(value, struct crc_power);
} crc_powers SEC(".maps");

struct crc_walk {
	__u32 zeros;
	__u32 crc;
};

static long crc_append(__u32 n, struct crc_walk *walk)
{
	struct crc_power *p;
	__u32 out = 0;

	if (!(walk->zeros >> n & 1))
		return walk->zeros >> n == 0;
	p = bpf_map_lookup_elem(&crc_powers, &n);
	if (!p)
		return 1;
	for (int bit = 0; bit < 32; bit++)
		out ^= p->column[bit] & -(walk->crc >> bit & 1);
	walk->crc = out;
	return 0;
}

/* CRC of 4 bytes in memory order, followed by zero bytes. The first bit of a CRC is the lowest of its first byte. */
static __always_inline __u32 crc32c_difference(__u32 bytes, __u32 zeros)
{
	/* the register after the 4 bytes equals 4 zero bytes applied to a register that holds them */
	struct crc_walk walk = { .zeros = zeros + 4, .crc = bytes };

	bpf_loop(CRC_POWERS, crc_append, &walk, 0);
	return walk.crc;
}
