/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Limits a client to one request at a time where each is routed separately: bytes after it are dropped, and
 * retransmitted by the client.
 */
#pragma once

#include "../session/walk.h"
#include "../wire/verify.h"
#include "types.h"

/*
 * Trims bytes, and the FIN, off the end of the current packet. False: it must be dropped, and is retransmitted; a GSO
 * packet as single segments.
 */
__noinline int cut_packet(struct __sk_buff *skb, struct packet *p, struct sum_bytes *buffer, __u32 bytes)
{
	bool partial;

	if (!p || !buffer || bytes >= p->len || (skb->gso_size && p->len > skb->gso_size))
		return false;
	partial = partial_checksum(skb, p->l4);
	if (bpf_skb_change_tail(skb, p->payload + p->len - bytes, 0))
		return false;
	p->len -= bytes;
	p->flags &= ~FIN;
	return !write_lengths(skb, p) && !bpf_skb_store_bytes(skb, p->l4 + 13, &p->flags, 1, BPF_F_RECOMPUTE_CSUM) &&
	       seal(skb, p, buffer, partial);
}

/*
 * More bytes of a client whose requests are held. Returns 0, or the verdict on a packet that must be dropped. A trimmed
 * packet gets a new checksum, so its old one must be valid.
 */
static __always_inline int hold_more(struct __sk_buff *skb, struct packet *p, struct walk *k, const struct splice *s,
				     struct sum_bytes *buffer)
{
	__u32 over = cut_of_more(s, p, k);

	if (!over)
		return 0;
	k->behind = 0;
	if (!checksum_ok(skb, p, buffer))
		return DROP_BAD_CHECKSUM;
	return cut_packet(skb, p, buffer, over) ? 0 : DROP_EARLY;
}

/* Bytes of the packet from an open head on, or from a request on that user space decides, if it has others in front. */
static __always_inline __u32 from_request(const struct splice *s, const struct packet *p)
{
	__u32 start = p->seq + s->to_server_seq, end = start + p->len, head = head_start(s);

	if (s->ins_len && s->ins_head && before(start, head) && before(head, end))
		return end - head;
	return s->flags & SPLICE_UPCALL && before(start, s->snd_nxt) && before(s->snd_nxt, end) ? end - s->snd_nxt : 0;
}

/*
 * Trims a packet to what is in front of such a request. A surrogate may answer before it has all of a request, and a client
 * repeats the rest and its next request in one packet (Linux, tcp_retrans_try_collapse). Once it has an acknowledgement of the
 * rest, it repeats the next request alone. Returns 0, or the verdict on a packet that must be dropped.
 */
static __always_inline int split_request(struct __sk_buff *skb, struct packet *p, const struct splice *s,
					 struct sum_bytes *buffer)
{
	__u32 over = from_request(s, p);

	if (!over)
		return 0;
	if (!checksum_ok(skb, p, buffer))
		return DROP_BAD_CHECKSUM;
	return cut_packet(skb, p, buffer, over) ? 0 : DROP_EARLY;
}

/* The first packet of a decided request, where requests are held. False: it must be dropped. */
static __always_inline bool hold_first(struct __sk_buff *skb, struct packet *p, const struct decision *d,
				       struct walk *k, struct sum_bytes *buffer)
{
	__u32 over;

	if (d->chunked && k->bad)
		return false; /* not the bytes that user space has read */
	over = cut_of_first(d, k, p->len);
	if (!over)
		return true;
	k->behind = 0;
	return cut_packet(skb, p, buffer, over);
}
