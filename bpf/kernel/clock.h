/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The kernel's clock, as the programs read it. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include "../wire/fields.h"

/* Milliseconds, coarse, from an arbitrary start. */
static __always_inline __u32 clock_ms(void)
{
	return bpf_ktime_get_coarse_ns() / 1000000;
}
