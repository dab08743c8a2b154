/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The BPF machine has no architecture headers of its own; the generic ones fit. */
#include <asm-generic/posix_types.h>
