/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Sequence numbers, timestamps and times of 32 bits: compared modulo 2^32. Pure. */
#pragma once

#include <stdbool.h>
#include <linux/types.h>

/* linux/stddef.h has it without the attribute: the verifier wants what is under a lock to be in one piece. */
#undef __always_inline
#define __always_inline inline __attribute__((always_inline))

/* a before b. */
static __always_inline bool before(__u32 a, __u32 b)
{
	return (__s32)(a - b) < 0;
}

static __always_inline __u32 later(__u32 a, __u32 b)
{
	return before(a, b) ? b : a;
}
