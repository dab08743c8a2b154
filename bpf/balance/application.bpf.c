/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Marks the sockets of a control group, so that routing rules can match its applications. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile __u64 own_netns = 0;  /* cookie of the network namespace whose sockets are marked */
const volatile __u32 mark = 0;       /* this group's */
const volatile __u32 mask = 0;       /* bits of a mark that are ours; the others do not change */
const volatile __u32 least_mark = 0; /* of all groups */

/*
 * Attached to a control group: sees all sockets that its processes create. Of nested groups the one with the least mark wins, as the
 * first matching rule does.
 */
SEC("cgroup/sock_create")
int application_mark(struct bpf_sock *sk)
{
	__u32 now = sk->mark & mask;

	if (bpf_get_netns_cookie(sk) == own_netns && (now < least_mark || now > mark))
		sk->mark = (sk->mark & ~mask) | mark;
	return 1;
}
