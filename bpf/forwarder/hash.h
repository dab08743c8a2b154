/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Hashes of 8-byte words. Pure. */
#pragma once

#include "../wire/fields.h"
#include "types.h"

static __always_inline __u64 mix(__u64 h, __u64 word)
{
	h = (h ^ word) * 0x9fb21c651e98df25ULL;
	return h ^ h >> 32;
}

static __always_inline __u32 hash_fields(const struct fields *f)
{
	const __u64 *words = (const __u64 *)f;
	__u64 h = 0x243f6a8885a308d3ULL;

#pragma unroll
	for (int i = 0; i < FIELD_WORDS; i++)
		h = mix(h, words[i]);
	h *= 0x9fb21c651e98df25ULL;
	return h >> 32;
}
