/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Commands from user space, carried out under the splices' locks. */
#pragma once

#include "../session/expiry.h"
#include "../session/opening.h"
#include "session.h"
#include "work.h"

struct splice_sweep {
	const struct splice_command *command;
	__u32 changed;
};

/* The reason for which the command ends the session; 0: it does not. */
static __always_inline __u32 end_of(const struct splice *s, const struct splice_command *c, __u32 now)
{
	if (c->kind != COMMAND_ABANDON)
		return has_expired(s, c->idle, c->closing, now) ? LEG_EXPIRED : 0;
	if (!waits_for(s, c->surrogate))
		return 0;
	return s->flags & SPLICE_FIRST ? LEG_ABANDONED
				       : LEG_EXPIRED; /* a later request cannot be retried by its cookie */
}

static long sweep_step(__u32 i, struct splice_sweep *sweep)
{
	const struct splice_command *c = sweep->command;
	struct config *set = config();
	__u32 idx = c->first + i, end, now = clock_ms();
	struct splice *s;

	s = splice_at(idx);
	if (!s || i >= c->count)
		return 1;
	if (!end_of(s, c, now) && !is_unreported(s, now)) /* the usual case: without the lock */
		return 0;
	bpf_spin_lock(&s->lock);
	end = end_of(s, c, now);
	if (end) {
		enter(s, SPLICE_DEAD, now);
	} else if (is_unreported(s, now)) {
		s->since = now;
		bpf_spin_unlock(&s->lock);
		report(EVENT_LEG_DOWN, LEG_EXPIRED, idx, s, now);
		return 0;
	}
	bpf_spin_unlock(&s->lock);
	if (end) {
		if (end == LEG_ABANDONED && set)
			remember_client(s, set, now);
		if (c->kind == COMMAND_ABANDON && end == LEG_EXPIRED)
			end_log(idx, LEG_REFUSED);
		end_session(idx, s, end, now);
		sweep->changed++;
	}
	return 0;
}

static __always_inline bool forget_flow(const struct tuple *key, __u32 now)
{
	struct flow *f = bpf_map_lookup_elem(&flows, key);

	return f && (f->side == SIDE_LINGER || f->side == SIDE_RESET) && past(f->ended_ms, LINGER_MS, now) &&
	       !bpf_map_delete_elem(&flows, key);
}

static long ended_step(__u32 i, struct splice_sweep *sweep)
{
	struct ended e;
	__u32 now = clock_ms();

	/* only one sweep runs at a time, so peek and pop see the same entry */
	if (bpf_map_peek_elem(&lingering, &e) || !past(e.since, LINGER_MS, now) || bpf_map_pop_elem(&lingering, &e))
		return 1;
	sweep->changed++;
	forget_flow(&e.client, now); /* unless its port has been reused */
	return 0;
}

/* Forgets that a client is a socket's: if it is one, its next packet finds the socket. */
static __always_inline void forget_local(const struct tuple *key)
{
	struct flow *f = bpf_map_lookup_elem(&flows, key);

	if (f && f->side == SIDE_LOCAL)
		bpf_map_delete_elem(&flows, key);
}

__noinline int forget_client(const struct tuple *key, __u32 handshake, __u32 now)
{
	struct client *c;
	bool local;

	if (!key)
		return false;
	c = bpf_map_lookup_elem(&clients, key);
	if (!c || !past(c->since, c->state == CLIENT_SYN ? COOKIE_MS : handshake, now))
		return false;
	local = c->state == CLIENT_LOCAL;
	if (forget_undecided(key))
		return false;
	if (local) /* the stack may have dropped the packet that was assigned */
		forget_local(key);
	return true;
}

static __always_inline bool forget_syn_options(const struct syn_options_key *key, __u32 now)
{
	struct client *c = bpf_map_lookup_elem(&syn_options, key);

	return c && past(c->since, COOKIE_MS, now) && !bpf_map_delete_elem(&syn_options, key);
}

static __always_inline bool forget_upcall(const struct syn_options_key *key)
{
	struct client *c = bpf_map_lookup_elem(&clients, &key->client);

	return c && c->seq == key->seq && !forget_undecided(&key->client);
}

/* User space found these keys, which may have changed since. */
static __always_inline void forget_keys(struct __sk_buff *skb, const struct splice_command *c,
					struct splice_sweep *sweep)
{
	struct syn_options_key key;

	for (__u32 i = 0; i < COMMAND_KEYS; i++) {
		__u32 now = clock_ms();

		if (i >= c->count || bpf_skb_load_bytes(skb, sizeof(*c) + i * sizeof(key), &key, sizeof(key)))
			break;
		switch (c->kind) {
		case COMMAND_FORGET_FLOWS:
			sweep->changed += forget_flow(&key.client, now);
			break;
		case COMMAND_FORGET_CLIENTS:
			sweep->changed += forget_client(&key.client, c->handshake, now);
			break;
		case COMMAND_FORGET_SYN_OPTIONS:
			sweep->changed += forget_syn_options(&key, now);
			break;
		case COMMAND_FORGET_UPCALLS:
			sweep->changed += forget_upcall(&key);
			break;
		}
	}
}

/* Records user space's decision, if the client still waits for it. */
static __always_inline bool decide_upcall(struct __sk_buff *skb, struct decided *d)
{
	struct client *c;

	if (bpf_skb_load_bytes(skb, sizeof(struct splice_command), d, sizeof(*d)))
		return false;
	d->entry.decided = clock_ms();
	c = bpf_map_lookup_elem(&clients, &d->client);
	return c && c->state == CLIENT_UPCALL && c->seq == d->entry.seq && c->ack == d->entry.ack &&
	       !bpf_map_update_elem(&clients, &d->client, &d->entry, BPF_EXIST);
}

__noinline int complete_leg(struct completion *c, __u32 surrogate)
{
	struct config *set = config();
	__u32 now = clock_ms(), leg_class;
	struct splice *s;

	if (!c || !set)
		return 0;
	s = splice_at(c->splice);
	if (!s)
		return 0;
	bpf_spin_lock(&s->lock);
	c->done = complete_event(s, surrogate, now, now + set->ts_offset);
	c->snd_nxt = s->snd_nxt;
	c->rcv_nxt = s->rcv_nxt;
	c->ts_server = s->ts_server;
	c->flags = s->flags;
	c->server_mss = s->server_mss;
	c->leg_class = leg_class = s->leg_class;
	bpf_spin_unlock(&s->lock);
	if (!c->done)
		return 0;
	leg_class &= LEG_CLASSES - 1;
	count_idle(surrogate, leg_class, BAND_NONE, 1);
	push_leg(surrogate, leg_class, BAND_NONE, c->splice);
	return 1;
}

static __always_inline void complete_legs(struct __sk_buff *skb, const struct splice_command *c,
					  struct splice_sweep *sweep)
{
	struct completion leg;

	for (__u32 i = 0; i < COMMAND_KEYS; i++) {
		__u32 at = sizeof(*c) + i * sizeof(leg);

		if (i >= c->count || bpf_skb_load_bytes(skb, at, &leg, sizeof(leg)))
			break;
		sweep->changed += complete_leg(&leg, c->surrogate);
		bpf_skb_store_bytes(skb, at, &leg, sizeof(leg), 0);
	}
}

SCRATCH(leg_frames);

/* Sends a frame of the scratch by the interface, if the next hop's Ethernet address is known. Overwrites the packet. */
__noinline int send_frame(struct __sk_buff *skb, struct bpf_fib_lookup *fib, __u32 ifindex, __u32 n)
{
	struct leg_frames *all = leg_frames();
	struct leg_frame *f;
	struct ethhdr *eth;
	__u32 length;

	if (!all || !fib || n >= COMMAND_FRAMES)
		return 0;
	f = &all->of[n];
	length = f->length;
	if (!is_within(length, ETH_HLEN + sizeof(struct iphdr) + TCP_BYTES, LEG_FRAME))
		return 0;
	if (bpf_skb_change_tail(skb, length, 0)) /* before the lookup, which compares it with the MTU */
		return 0;
	eth = (void *)f->bytes;
	__builtin_memset(fib, 0, sizeof(*fib));
	fib->ifindex = ifindex;
	fib->l4_protocol = IPPROTO_TCP;
	if (eth->h_proto == bpf_htons(ETH_P_IPV6)) {
		struct ipv6hdr *ip = (void *)(eth + 1);

		fib->family = AF_INET6;
		copy_addr(fib->ipv6_src, &ip->saddr);
		copy_addr(fib->ipv6_dst, &ip->daddr);
	} else {
		struct iphdr *ip = (void *)(eth + 1);

		fib->family = AF_INET;
		fib->ipv4_src = ip->saddr;
		fib->ipv4_dst = ip->daddr;
	}
	if (bpf_fib_lookup(skb, fib, sizeof(*fib), BPF_FIB_LOOKUP_OUTPUT) != BPF_FIB_LKUP_RET_SUCCESS)
		return 0;
	__builtin_memcpy(eth->h_dest, fib->dmac, 6);
	__builtin_memcpy(eth->h_source, fib->smac, 6);
	if (bpf_skb_store_bytes(skb, 0, f->bytes, length, 0))
		return 0;
	return !bpf_clone_redirect(skb, fib->ifindex, 0);
}

/* A frame is at least as long as the command, which is put back in front. */
static __always_inline void send_frames(struct __sk_buff *skb, struct bpf_fib_lookup *fib,
					const struct splice_command *c, struct splice_sweep *sweep)
{
	struct leg_frames *all = leg_frames();
	__u32 count = c->count, ifindex = c->first;

	for (__u32 i = 0; all && i < COMMAND_FRAMES; i++) {
		if (i >= count ||
		    bpf_skb_load_bytes(skb, sizeof(*c) + i * sizeof(all->of[i]), &all->of[i], sizeof(all->of[i])))
			break;
	}
	for (__u32 i = 0; i < COMMAND_FRAMES && i < count; i++)
		sweep->changed |= (__u32)send_frame(skb, fib, ifindex, i) << i;
}

static __always_inline void retire(struct splice_command *c)
{
	struct splice *s = splice_at(c->first);
	__u32 now = clock_ms();

	if (!s)
		return;
	bpf_spin_lock(&s->lock);
	c->result = s->surrogate == c->surrogate && retire_event(s, now);
	bpf_spin_unlock(&s->lock);
	if (c->result)
		count_idle(s->surrogate, s->leg_class, s->band, -1);
}
