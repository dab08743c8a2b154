/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Early SYN: a client's SYN is reported to user space, which begins the onward connection while the handshake goes on. The connections that
 * strangers can cause in this way are bounded by the table of SYNs, for each client and for all; whatever is above, or comes while
 * the listener is pressed, passes as if nothing were wanted.
 */
#pragma once

#include "../kernel/clock.h"
#include "../kernel/sock.h"
#include "../wire/packet.h"
#include "maps.h"

/* What is to become of a SYN. */
enum fate { FATE_PASS, FATE_DROP, FATE_RESET };

struct source {
	__u8 addr[16];
};

/* A client of IPv6 has a network of 64 bits to choose addresses from. */
static __always_inline struct source source_of(const struct tuple *t)
{
	struct source s = {};

	copy_addr(s.addr, t->src);
	if (!is_mapped(t->src))
		((__u32 *)s.addr)[2] = ((__u32 *)s.addr)[3] = 0;
	return s;
}

/* Counts one more SYN of the client, which may have none yet. Returns 0, or why it may not. */
static __always_inline int claim_source(const struct tuple *t)
{
	struct source s = source_of(t);
	__u32 *n = bpf_map_lookup_elem(&sources, &s), one = 1;

	if (!n) {
		if (!bpf_map_update_elem(&sources, &s, &one, BPF_NOEXIST))
			return 0;
		n = bpf_map_lookup_elem(&sources, &s); /* another CPU was first */
		if (!n)
			return SYN_FULL;
	}
	if (__sync_fetch_and_add(n, 1) < per_source)
		return 0;
	__sync_fetch_and_add(n, -1);
	return SYN_SOURCE_FULL;
}

static __always_inline void unclaim_source(const struct tuple *t)
{
	struct source s = source_of(t);
	__u32 *n = bpf_map_lookup_elem(&sources, &s);

	/* a claim that comes between is not counted: the client gets one more, and the count is never stuck */
	if (n && __sync_fetch_and_add(n, -1) <= 1)
		bpf_map_delete_elem(&sources, &s);
}

/* Forgets a reported SYN. False: another CPU did. */
static __always_inline bool settle(const struct tuple *t)
{
	if (bpf_map_delete_elem(&syns, t))
		return false;
	unclaim_source(t);
	return true;
}

/* Whether a queue of the listener is nearly full: SYN cookies or refusals are near. */
static __always_inline bool pressed(struct bpf_sock *listener)
{
	struct tcp_sock *tp = (void *)bpf_skc_to_tcp_sock(listener);
	__u32 most, pending, waiting;

	if (!tp)
		return true;
	most = tp->inet_conn.icsk_inet.sk.sk_max_ack_backlog;
	waiting = tp->inet_conn.icsk_inet.sk.sk_ack_backlog;
	pending = tp->inet_conn.icsk_accept_queue.qlen.counter;
	return pending * 4 >= most * 3 || waiting * 4 >= most * 3;
}

static __always_inline void fill_event(struct syn_event *ev, __u32 kind, const struct tuple *t, const struct syn *s)
{
	ev->kind = kind;
	ev->held = s->state == SYN_STATE_HELD;
	ev->length = 0;
	ev->tuple = *t;
	ev->isn = s->isn;
	ev->hash = s->hash;
	ev->entry = s->entry;
	ev->ifindex = s->ifindex;
}

static __always_inline void *ring_of(const struct syn *s)
{
	__u32 reader = s->hash % readers;

	return bpf_map_lookup_elem(&events, &reader);
}

static __always_inline bool report(__u32 kind, const struct tuple *t, const struct syn *s)
{
	void *ring = ring_of(s);
	struct syn_event *ev;

	if (!ring)
		return false;
	ev = bpf_ringbuf_reserve(ring, sizeof(*ev), 0);
	if (!ev)
		return false;
	fill_event(ev, kind, t, s);
	bpf_ringbuf_submit(ev, 0);
	return true;
}

/* The same with the frame, of at most FRAME_BYTES. */
static __always_inline bool report_held(struct __sk_buff *skb, const struct tuple *t, const struct syn *s)
{
	void *ring = ring_of(s);
	struct held_event *held;
	__u32 length = skb->len;

	if (!ring)
		return false;
	held = bpf_ringbuf_reserve(ring, sizeof(*held), 0);
	if (!held)
		return false;
	fill_event(&held->event, EVENT_SYN, t, s);
	held->event.length = length;
	if (length < 1 || length > FRAME_BYTES || bpf_skb_load_bytes(skb, 0, held->frame, length)) {
		bpf_ringbuf_discard(held, 0);
		return false;
	}
	bpf_ringbuf_submit(held, 0);
	return true;
}

/* A SYN that user space knows. */
static __always_inline int known_syn(struct __sk_buff *skb, const struct syn *known, __u32 *fate)
{
	bpf_set_hash(skb, known->hash); /* whichever of them the stack takes, the same listener is chosen */
	switch (known->state) {
	case SYN_STATE_HELD:
		*fate = FATE_DROP;
		return SYN_HELD_AGAIN;
	case SYN_STATE_RELEASED:
		return SYN_RELEASED;
	}
	return SYN_AGAIN;
}

static __always_inline bool was_refused(const struct packet *p)
{
	struct refused *r = bpf_map_lookup_elem(&refusals, &p->key);

	return r && r->isn == p->seq && !past(r->since, REFUSED_MS, clock_ms());
}

/* A SYN to an entry that wants to know of it early. */
static __always_inline int early_syn(struct __sk_buff *skb, const struct packet *p, const struct entry *e,
				     struct bpf_sock *listener, __u32 *fate)
{
	struct syn s = {}, *known = bpf_map_lookup_elem(&syns, &p->key);
	bool first = e->early == EARLY_CONNECT_FIRST, long_one = skb->len > FRAME_BYTES;
	int verdict;

	if (known && known->isn == p->seq)
		return known_syn(skb, known, fate);
	if (first && was_refused(p)) {
		*fate = FATE_RESET;
		return SYN_REFUSED;
	}
	if (known)
		settle(&p->key); /* the client has begun anew on the same port */
	if (pressed(listener))
		return SYN_SUSPENDED;
	verdict = claim_source(&p->key);
	if (verdict)
		return verdict;
	s.isn = p->seq;
	s.hash = bpf_get_hash_recalc(skb);
	s.since = clock_ms();
	s.entry = e->id;
	s.ifindex = skb->ifindex;
	s.state = first && !long_one ? SYN_STATE_HELD : SYN_STATE_TOLD;
	if (bpf_map_update_elem(&syns, &p->key, &s, BPF_NOEXIST)) {
		unclaim_source(&p->key);
		return SYN_FULL;
	}
	if (!(s.state == SYN_STATE_HELD ? report_held(skb, &p->key, &s) : report(EVENT_SYN, &p->key, &s))) {
		settle(&p->key);
		return EVENT_LOST;
	}
	if (s.state == SYN_STATE_HELD) {
		*fate = FATE_DROP;
		return SYN_HELD;
	}
	return first ? SYN_TOO_LONG : SYN_TOLD;
}

/* A reset by a client, in answer to our SYN-ACK. Returns 0 when it is of no SYN that user space knows. */
static __always_inline int cancel(const struct packet *p)
{
	struct syn s, *known = bpf_map_lookup_elem(&syns, &p->key);

	if (!known || p->seq != known->isn + 1)
		return 0;
	s = *known;
	if (!settle(&p->key))
		return 0;
	if (!report(EVENT_CANCELLED, &p->key, &s))
		return EVENT_LOST;
	return s.state == SYN_STATE_HELD ? CANCELLED_HELD : CANCELLED;
}
