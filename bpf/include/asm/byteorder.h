/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The object is little-endian (target bpfel). */
#include <linux/byteorder/little_endian.h>
