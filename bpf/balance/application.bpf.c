/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Marks the sockets of a control group, so that routing rules tell its applications from others. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

const volatile __u64 own_netns = 0;  /* cookie of the network namespace whose sockets are marked */
const volatile __u32 mark = 0;       /* of this group */
const volatile __u32 mask = 0;       /* bits of a mark that are ours; the others are left as they are */
const volatile __u32 least_mark = 0; /* that any group has */

/*
 * In a control group: of all sockets that its processes make. Of groups within each other the one with the least mark has the socket, as
 * the first rule has a flow.
 */
SEC("cgroup/sock_create")
int application_mark(struct bpf_sock *sk)
{
	__u32 now = sk->mark & mask;

	if (bpf_get_netns_cookie(sk) == own_netns && (now < least_mark || now > mark))
		sk->mark = (sk->mark & ~mask) | mark;
	return 1;
}
