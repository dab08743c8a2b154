/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Of the kernel's structures, what the programs look at (CO-RE). */
#pragma once

#include <linux/types.h>

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
typedef struct {
	int counter;
} atomic_t;

struct in6_addr___kernel {
	union {
		__u8 u6_addr8[16];
	} in6_u;
};

struct net {
	__u64 net_cookie;
};

struct sock_common {
	unsigned short skc_family;
	volatile unsigned char skc_state;
	int skc_bound_dev_if;
	__be32 skc_daddr;
	__be32 skc_rcv_saddr;
	__be16 skc_dport;
	__u16 skc_num;
	struct in6_addr___kernel skc_v6_daddr;
	struct in6_addr___kernel skc_v6_rcv_saddr;
};

struct kernfs_node {
	__u64 id;
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
	struct cgroup_subsys_state *parent;
};

struct cgroup {
	struct cgroup_subsys_state self;
	struct kernfs_node *kn;
};

struct sock_cgroup_data {
	struct cgroup *cgroup;
};

struct sock {
	struct sock_common __sk_common;
	struct sock_cgroup_data sk_cgrp_data;
	__u32 sk_ack_backlog;
	__u32 sk_max_ack_backlog;
};

struct inet_sock {
	struct sock sk;
};

struct request_sock_queue {
	atomic_t qlen;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct request_sock_queue icsk_accept_queue;
	__u32 icsk_rto; /* jiffies */
	__u8 icsk_retransmits;
	struct {
		__u32 lrcvtime; /* jiffies: of the last data that came */
	} icsk_ack;
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	__u32 snd_wnd;
	__u32 rcv_nxt;
	__u32 snd_nxt;
	__u32 snd_una;
	__u32 srtt_us; /* << 3 */
	__u32 packets_out;
	__u32 rcv_tstamp; /* jiffies: of the last acknowledgement that came */
	__u8 bpf_sock_ops_cb_flags;
};

struct inet_timewait_sock {
	__u32 tw_mark;
};

struct tcp_timewait_sock {
	struct inet_timewait_sock tw_sk;
};

struct bpf_iter_meta {
	struct seq_file *seq;
};

struct bpf_iter__tcp {
	struct bpf_iter_meta *meta;
	struct sock_common *sk_common;
};
#pragma clang attribute pop
