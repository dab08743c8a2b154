/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The access log's records of what is spliced: one for each request, or for a session whose requests are not tracked.
 *
 * A record lives beside the splice of its request and changes under that splice's lock. It goes to user space when the
 * client has acknowledged the whole response, at the latest with the client's next request or the session's end:
 * retransmissions of a response's last bytes come before that. Only VIPs with VIP_LOG begin records.
 */
#pragma once

#include <stddef.h>
#include "../session/http.h"
#include "../session/state.h"
#include "maps.h"

/* Unread bytes of records for each wake-up, which costs microseconds; user space also polls ten times a second. */
#define LOG_UNREAD (512 << 10)

static __always_inline struct request_log *log_at(__u32 idx)
{
	__u32 page = idx / LOG_PAGE, place = idx % LOG_PAGE;
	void *logs_of = bpf_map_lookup_elem(&log_pages, &page);

	return logs_of ? bpf_map_lookup_elem(logs_of, &place) : NULL;
}

/* Hands a record to user space, or counts it as lost. */
__noinline int put_log(const struct request_log *l)
{
	__u64 wake = BPF_RB_NO_WAKEUP, unread;
	__u32 zero = 0, size;
	void *ring;

	if (!l)
		return 0;
	ring = bpf_map_lookup_elem(&log_rings, &zero);
	size = l->head_len;
	hide(size);
	if (size > LOG_HEAD)
		size = LOG_HEAD;
	size += offsetof(struct request_log, head);
	if (ring) {
		unread = bpf_ringbuf_query(ring, BPF_RB_AVAIL_DATA);
		if (unread / LOG_UNREAD != (unread + size) / LOG_UNREAD)
			wake = BPF_RB_FORCE_WAKEUP;
	}
	if (!ring || bpf_ringbuf_output(ring, (void *)l, size, wake))
		count_up(&logs_lost, 0);
	return 0;
}

/* Under the lock: puts the described request, of which len bytes go on with this packet, into the leg's record. */
static __always_inline void begin_log(struct request_log *l, const struct request_log *of, const struct splice *s,
				      __u32 seq, __u32 len)
{
	*l = *of;
	l->client = s->client;
	l->server = s->server;
	l->surrogate = s->surrogate;
	l->snd_from = seq + s->to_server_seq;
	l->rcv_from = s->rcv_nxt;
	l->seq = seq;
	l->ack = s->rcv_base - s->to_server_ack;
	l->to_server = len;
}

/* Under the lock: moves a record out of the leg. */
static __always_inline bool take_log(struct request_log *l, struct request_log *to)
{
	if (l->state == LOG_NONE)
		return false;
	*to = *l;
	l->state = LOG_NONE;
	return true;
}

/* After the lock: a described request for which the leg has no room was begun. */
static __always_inline void miss_log(const struct request_log *of, const struct request_log *l)
{
	if (of->state != LOG_NONE && !l)
		count_up(&logs_lost, 0);
}

/* Under the lock, after an event: notes the end of a response, and which end closed first. */
static __always_inline void settle_log(struct request_log *l, const struct splice *s, __u64 ns)
{
	if (!(l->flags & (LOG_CLIENT_FIRST | LOG_SERVER_FIRST)))
		l->flags |= (s->flags & SPLICE_CLIENT_FIN   ? LOG_CLIENT_FIRST
			     : s->flags & SPLICE_SERVER_FIN ? LOG_SERVER_FIRST
							    : 0);
	if (l->state == LOG_BEGUN && quiet(s)) {
		l->state = LOG_COMPLETE;
		l->end = ns;
	}
}

/* Segments of an accepted packet that begins before nxt, and so was sent before. */
static __always_inline __u32 segments_again(const struct packet *p, __u32 seq, __u32 nxt, __u32 segments)
{
	if (!p->len || !before(seq, nxt))
		return 0;
	return before(nxt, seq + p->len) || !segments ? 1 : segments;
}

/* Bytes of an accepted packet after nxt. */
static __always_inline __u32 bytes_after(const struct packet *p, __u32 seq, __u32 nxt)
{
	return p->len && before(nxt, seq + p->len) ? seq + p->len - nxt : 0;
}

/*
 * Under the lock, after client_event passed the packet on: nxt was snd_nxt before it. ns: unless the packet has no
 * payload. True: the record is over, and in to.
 */
static __always_inline bool log_client(struct request_log *l, const struct splice *s, const struct packet *p, __u32 nxt,
				       __u32 segments, __u64 ns, struct request_log *to)
{
	__u32 seq = p->seq + s->to_server_seq;

	if (l->state == LOG_NONE)
		return false;
	if (!(p->flags & RST)) {
		if (!before(seq, l->snd_from))
			l->client_again += segments_again(p, seq, nxt, segments);
		l->to_server += bytes_after(p, seq, nxt);
	}
	settle_log(l, s, ns);
	return l->state == LOG_COMPLETE && (s->rcv_acked == s->rcv_nxt || !is_joined(s)) && take_log(l, to);
}

/* The packet's response head, if the walk read one. */
static __always_inline __u32 status_of(const struct walk *k, __u8 response, __u32 nxt)
{
	__u32 status = k->head.status;

	if ((response != FRAMING_HEAD && response != FRAMING_PART) || k->from != response || k->at != nxt || k->hidden)
		return 0;
	return k->framing == FRAMING_DONE || (k->framing == FRAMING_OPAQUE && status >= 200) ? status : 0;
}

/* Under the lock, after server_event passed the packet on: nxt and response were rcv_nxt and s->response before it. */
static __always_inline void log_server(struct request_log *l, const struct splice *s, const struct input *in, __u32 nxt,
				       __u8 response, __u32 segments, __u64 ns)
{
	const struct packet *p = in->packet;
	__u32 fresh;

	if (l->state == LOG_NONE)
		return;
	if (!(p->flags & RST)) {
		fresh = bytes_after(p, p->seq, nxt);
		if (!before(p->seq, l->rcv_from))
			l->server_again += segments_again(p, p->seq, nxt, segments);
		if (fresh && !l->first)
			l->first = ns;
		if (fresh && !l->status)
			l->status = status_of(in->walk, response, nxt);
		l->to_client += fresh;
	}
	settle_log(l, s, ns);
}

/* After the lock: the splice is dead, so nobody else changes its record. how: enum leg_end. */
__noinline int end_log(__u32 idx, __u32 how)
{
	struct splice *s = splice_at(idx);
	struct request_log *l = log_at(idx);

	if (!s || !l || l->state == LOG_NONE)
		return 0;
	if (l->state == LOG_BEGUN) {
		l->end = bpf_ktime_get_ns();
		l->how = how;
		l->response = s->response;
		l->flags |= (s->request == FRAMING_OPAQUE || s->response == FRAMING_OPAQUE ? LOG_WHOLE : 0) |
			    (s->flags & SPLICE_SERVER_FIN ? LOG_SERVER_FIN : 0);
	}
	put_log(l);
	l->state = LOG_NONE;
	return 0;
}
