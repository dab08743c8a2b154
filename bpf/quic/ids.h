/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* Connection ids: those that surrogates choose are learnt from their long headers, and looked up for clients that have moved. */
#pragma once

#include "maps.h"
#include "parse.h"

#define LONG_HEADER 0x80
#define VERSION_2   0x6b3343cf
#define KEEP_MS     1024

/* The start of a long header (RFC 8999, 5.1), up to the destination id. */
struct long_start {
	__u8 first;
	__u8 version[4];
	__u8 length;
} __attribute__((packed));

/* Reads an id of so many bytes at an offset of the packet. False: not there, or none. */
static __always_inline bool read_id(struct __sk_buff *skb, struct quic_id *id, __u32 at, __u32 length)
{
	if (!is_within(length, 1, MAX_ID))
		return false;
	id->length = length;
	return !bpf_skb_load_bytes(skb, at, id->bytes, length);
}

static __always_inline __u32 version_of(const struct long_start *s)
{
	return (__u32)s->version[0] << 24 | s->version[1] << 16 | s->version[2] << 8 | s->version[3];
}

/* Whether a long header is of a Handshake packet, whose destination the surrogate has chosen. */
static __always_inline bool is_handshake(const struct long_start *s)
{
	__u32 version = version_of(s);
	__u32 type = s->first >> 4 & 3;

	return version == 1 ? type == 2 : version == VERSION_2 && type == 3;
}

/* Whether a client's datagram may begin a connection: its destination id may be the client's own choice. */
static __always_inline bool may_begin(struct __sk_buff *skb, const struct datagram *d)
{
	struct long_start s;

	return !bpf_skb_load_bytes(skb, d->payload, &s, sizeof(s)) && s.first & LONG_HEADER && !is_handshake(&s) &&
	       s.length >= LEAST_OWN_ID;
}

/* The surrogate that a client's datagram with a short header is for. */
static __always_inline struct quic_server *short_server(struct __sk_buff *skb, const struct datagram *d,
							struct quic_id *id, __u32 lengths)
{
	__u8 bytes[MAX_ID] = {};
	__u32 n = d->len - 1;
	struct quic_server *found;

	if (n > MAX_ID)
		n = MAX_ID;
	if (!is_within(n, 1, MAX_ID) || bpf_skb_load_bytes(skb, d->payload + 1, bytes, n))
		return NULL;
	for (__u32 i = 0; i < MAX_ID; i++) { /* the zeros behind a shorter id are in place */
		id->bytes[i] = bytes[i];
		id->length = i + 1;
		if (i >= n)
			break;
		if (!(lengths >> (i + 1) & 1))
			continue;
		found = bpf_map_lookup_elem(&ids, id);
		if (found)
			return found;
	}
	return NULL;
}

/*
 * The surrogate that has chosen a client's destination id; NULL: unknown, or the client has chosen it. initials: those are asked
 * about too, which have an id of the client's at first.
 */
static __always_inline struct quic_server *server_of(struct __sk_buff *skb, const struct datagram *d, __u32 lengths,
						     bool initials)
{
	struct quic_id id = { .port = d->key.dport };
	struct long_start s;

	copy_addr(id.vip, d->key.dst);
	if (d->len < 1 || bpf_skb_load_bytes(skb, d->payload, &s.first, 1))
		return NULL;
	if (!(s.first & LONG_HEADER))
		return short_server(skb, d, &id, lengths);
	if (bpf_skb_load_bytes(skb, d->payload, &s, sizeof(s)) || !(initials || is_handshake(&s)) ||
	    !read_id(skb, &id, d->payload + sizeof(s), s.length))
		return NULL;
	return bpf_map_lookup_elem(&ids, &id);
}

/* Whether the session of that number was the first to have an id. */
static __always_inline bool is_learner(const struct quic_server *server, const struct quic_session *session,
				       __u32 number)
{
	return server->learner.session == number && server->learner.since == session->since;
}

/*
 * Whether the client that sends an id must have it from the answer of its session's surrogate. It may be the owner of the
 * session that has learnt another one; and it has made up those of short headers, as far as anybody can tell.
 */
static __always_inline bool proves_receipt(const struct quic_server *server, const struct quic_session *session,
					   __u32 number)
{
	return !(server->flags & (SERVER_OWN | SERVER_CLIENTS)) && is_learner(server, session, number);
}

/*
 * Records that a session's surrogate has chosen an id. With SERVER_CLIENTS as flags only its client says so, which
 * cannot change an entry.
 */
static __always_inline void learn(const struct quic_session *session, __u32 number, struct quic_id *id, __u16 flags)
{
	struct quic_server own = { .port = session->server.sport, .flags = flags }, *known;

	copy_addr(id->vip, session->client.dst);
	id->port = session->client.dport;
	copy_addr(own.addr, session->server.src);
	own.learner.session = number;
	own.learner.since = session->since;
	known = bpf_map_lookup_elem(&ids, id);
	if (!known)
		bpf_map_update_elem(&ids, id, &own, BPF_NOEXIST);
	else if (!flags && (!same_addr(known->addr, own.addr) || known->port != own.port))
		known->flags |= SERVER_AMBIGUOUS;
}

/*
 * Learns the id in a surrogate's long header, if this is one. In Version Negotiation it is the client's (RFC 9000,
 * 17.2.1).
 */
static __always_inline void learn_long(struct __sk_buff *skb, const struct datagram *d, struct quic_session *session,
				       __u32 number)
{
	struct quic_id id = {};
	struct quic_vip *vip;
	struct long_start s;
	__u32 at;
	__u8 length;

	if (bpf_skb_load_bytes(skb, d->payload, &s, sizeof(s)) || !(s.first & LONG_HEADER) || !version_of(&s) ||
	    s.length > MAX_ID)
		return;
	at = d->payload + sizeof(s) + s.length;
	if (bpf_skb_load_bytes(skb, at, &length, 1) || !read_id(skb, &id, at + 1, length))
		return;
	learn(session, number, &id, 0);
	session->id_length = id.length;
	vip = vip_at(id.vip, id.port);
	if (vip && !(vip->lengths >> id.length & 1))
		__sync_fetch_and_or(&vip->lengths, 1U << (id.length & 31));
}

/* The entry of the id that the session's client sends now. */
static __always_inline struct quic_server *known_id(const struct quic_session *session, struct quic_id *id)
{
	id->port = session->client.dport;
	id->length = session->id_length;
	copy_addr(id->vip, session->client.dst);
	__builtin_memcpy(id->bytes, session->id, sizeof(id->bytes));
	return bpf_map_lookup_elem(&ids, id);
}

/* Has the id of a session in use count as used, once a second or so: else new ones push it out. */
static __always_inline void keep_id(const struct quic_session *session, __u32 now)
{
	struct quic_id id = {};

	if ((session->from_client ^ now) & ~(KEEP_MS - 1))
		known_id(session, &id);
}

/* Forgets an id that the session's client has taught. */
static __always_inline void forget(const struct quic_session *session, __u32 number)
{
	struct quic_id id = {};
	struct quic_server *known = known_id(session, &id);

	if (known && known->flags & SERVER_CLIENTS && is_learner(known, session, number))
		bpf_map_delete_elem(&ids, &id);
}

/*
 * Learns the id in a client's short header if it is another one than before, which is then forgotten: a session has one
 * id of this kind, so that no client makes others lose theirs. quic-go's clients send no other ones.
 */
static __always_inline void learn_short(struct __sk_buff *skb, const struct datagram *d, struct quic_session *session,
					__u32 number)
{
	struct quic_id id = {};
	__u8 first;

	if (d->len <= session->id_length || bpf_skb_load_bytes(skb, d->payload, &first, 1) || first & LONG_HEADER)
		return;
	if (!(session->flags & SESSION_FOLLOWED))
		session->flags |= SESSION_FOLLOWED;
	if (!read_id(skb, &id, d->payload + 1, session->id_length))
		return;
	if (!__builtin_memcmp(id.bytes, session->id, sizeof(id.bytes)))
		return;
	forget(session, number);
	__builtin_memcpy(session->id, id.bytes, sizeof(id.bytes));
	learn(session, number, &id, SERVER_CLIENTS);
}
