/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Nothing: swapping is left to the compiler. */
