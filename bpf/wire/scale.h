/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Windows and their scales (RFC 7323, 2). Pure. */
#pragma once

#include "seq.h"

#define MAX_SCALE 14

/* Bytes. */
static __always_inline __u32 unscaled(__u16 window, __u32 shift)
{
	return (__u32)window << (shift & 15);
}

/* A window as it is sent, from one scale to another. */
static __always_inline __u16 rescale(__u32 window, __u32 from, __u32 to)
{
	__u32 scaled = window << (from & 15) >> (to & 15);

	if (window && !scaled)
		return 1; /* a small window is not a closed one */
	return scaled > 65535 ? 65535 : scaled;
}
