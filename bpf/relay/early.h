/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Early SYN: a client's SYN is reported to user space, which opens the onward connection during the client's handshake. The table of
 * SYNs limits how many connections strangers can cause this way, per client and in total. SYNs above the limits, or while the
 * listener is nearly full, pass unreported.
 */
#pragma once

#include "../kernel/clock.h"
#include "../kernel/sock.h"
#include "../wire/packet.h"
#include "maps.h"

/* The action on a SYN. */
enum fate { FATE_PASS, FATE_DROP, FATE_RESET };

struct source {
	__u8 addr[16];
};

/* An IPv6 client can use any address of its /64. */
static __always_inline struct source source_of(const struct tuple *t)
{
	struct source s = {};

	copy_addr(s.addr, t->src);
	if (!is_mapped(t->src))
		((__u32 *)s.addr)[2] = ((__u32 *)s.addr)[3] = 0;
	return s;
}

/* Counts one more SYN of the client. Returns 0, or the verdict if the client has reached its limit. */
static __always_inline int claim_source(const struct tuple *t)
{
	struct source s = source_of(t);
	__u32 *n = bpf_map_lookup_elem(&sources, &s), one = 1;

	if (!n) {
		if (!bpf_map_update_elem(&sources, &s, &one, BPF_NOEXIST))
			return 0;
		n = bpf_map_lookup_elem(&sources, &s); /* another CPU inserted it first */
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

	/* a concurrent claim is lost: the client gets one more than its limit, but the count never sticks */
	if (n && __sync_fetch_and_add(n, -1) <= 1)
		bpf_map_delete_elem(&sources, &s);
}

/* Removes a reported SYN. Returns false if another CPU did so first. */
static __always_inline bool settle(const struct tuple *t)
{
	if (bpf_map_delete_elem(&syns, t))
		return false;
	unclaim_source(t);
	return true;
}

/* True if a queue of the listener is nearly full, so that SYN cookies or drops are imminent. */
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

/* Reports the SYN together with its frame of at most FRAME_BYTES. */
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
	if (!is_within(length, 1, FRAME_BYTES) || bpf_skb_load_bytes(skb, 0, held->frame, length)) {
		bpf_ringbuf_discard(held, 0);
		return false;
	}
	bpf_ringbuf_submit(held, 0);
	return true;
}

/* A SYN that was reported before. */
static __always_inline int known_syn(struct __sk_buff *skb, const struct syn *known, __u32 *fate)
{
	bpf_set_hash(skb, known->hash); /* so the stack chooses the same listener for each retransmission */
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

/* A SYN to an entry with early SYN. */
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
		settle(&p->key); /* the client opened a new connection from the same port */
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
	s.state = first && !long_one ? SYN_STATE_HELD : SYN_STATE_REPORTED;
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
	return first ? SYN_TOO_LONG : SYN_REPORTED;
}

/* A client's reset in response to our SYN-ACK. Returns 0 if it matches no reported SYN. */
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
