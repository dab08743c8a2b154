/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Joins pairs of TCP sockets: what one receives the other sends, and no process touches it. */
#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "Dual BSD/GPL";

/*
 * Cookie of a socket -> the one that sends what it receives. User space writes. A socket that is closed leaves by itself; to miss is to
 * lose the bytes, so that both sockets of a pair are here before either is among the sources.
 */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 1); /* set by user space */
	__type(key, __u64);
	__type(value, __u64);
} partners SEC(".maps");

/* Cookie -> the socket itself. It is by this map that sockets have the program. */
struct {
	__uint(type, BPF_MAP_TYPE_SOCKHASH);
	__uint(max_entries, 1);
	__type(key, __u64);
	__type(value, __u64);
} sources SEC(".maps");

SEC("sk_skb/stream_verdict")
int sockmap_redirect(struct __sk_buff *skb)
{
	__u64 cookie = bpf_get_socket_cookie(skb);

	if (!skb->len) /* a FIN alone: to send nothing is an error of the partner's (EPIPE) */
		return SK_DROP;
	return bpf_sk_redirect_hash(skb, &partners, &cookie, 0);
}
