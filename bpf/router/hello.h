/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Routes a TLS session by the name in its ClientHello (RFC 8446, 4.1.2), if the packet has all of it in one record.
 * Nothing is copied but the name: a hello of 2 kB has one of 20 bytes. All other hellos are upcalls, the ones that
 * packet/hello refuses among them.
 */
#pragma once

#include <bpf/bpf_endian.h>
#include "maps.h"
#include "scan.h"

#define HELLO_FIXED    43 /* bytes of record and message headers, version and random */
#define MAX_SESSION_ID 32
#define MAX_EXTENSIONS 64 /* clients send up to 20 */
#define LIST_HEADER    5  /* of server_name: lengths of list and name, type */

#define TLS_HANDSHAKE  22
#define TLS_HELLO      1
#define EXT_NAME       0

/* Offsets in the packet. */
struct hello {
	struct __sk_buff *skb;
	__u32 off;  /* of the next extension */
	__u32 end;  /* of the message */
	__u32 name; /* of the content of server_name, 0: not seen */
	__u32 size; /* of that, in bytes */
	bool bad;
};

static __always_inline __u32 be16_at(const __u8 *b)
{
	return b[0] << 8 | b[1];
}

/* Skips a vector behind the current offset, whose length has so many bytes. Returns the length, -1: there is none. */
static __always_inline int skip_vector(struct hello *h, __u32 bytes)
{
	__u8 b[2] = {};
	__u32 len;

	if (bpf_skb_load_bytes(h->skb, h->off, b, bytes))
		return -1;
	len = bytes == 1 ? b[0] : be16_at(b);
	h->off += bytes + len;
	return h->off <= h->end ? (int)len : -1;
}

/* Finds the extensions. False: not a whole hello in one record, or one without extensions. */
static __always_inline bool begin_hello(struct hello *h, const struct packet *p)
{
	__u8 b[HELLO_FIXED];
	__u32 record, message;
	int len;

	if (p->len < HELLO_FIXED || bpf_skb_load_bytes(h->skb, p->payload, b, sizeof(b)))
		return false;
	record = be16_at(b + 3);
	message = b[6] << 16 | be16_at(b + 7);
	if (b[0] != TLS_HANDSHAKE || b[1] != 3 || b[2] > 3 || b[5] != TLS_HELLO || b[9] < 3)
		return false;
	if (record != message + 4 || record + 5 > p->len)
		return false;
	h->off = p->payload + HELLO_FIXED;
	h->end = p->payload + 5 + record;
	len = skip_vector(h, 1); /* session id */
	if (len < 0 || len > MAX_SESSION_ID)
		return false;
	len = skip_vector(h, 2); /* cipher suites */
	if (len <= 0 || len & 1)
		return false;
	if (skip_vector(h, 1) <= 0) /* compression methods */
		return false;
	if (bpf_skb_load_bytes(h->skb, h->off, b, 2))
		return false;
	h->off += 2;
	return h->off + be16_at(b) == h->end;
}

static long extension_step(__u32 i, struct hello *h)
{
	__u32 off = h->off, size;
	__u8 b[4];

	if (off == h->end)
		return 1;
	if (bpf_skb_load_bytes(h->skb, off, b, sizeof(b))) {
		h->bad = true;
		return 1;
	}
	size = be16_at(b + 2);
	off += sizeof(b);
	if (be16_at(b) == EXT_NAME) {
		h->bad |= h->name;
		h->name = off;
		h->size = size;
	}
	h->off = off + size;
	h->bad |= h->off > h->end;
	return h->bad;
}

/* Kinds of bytes in a host name. */
enum name_byte { NAME_NONE = 4, NAME_PLAIN = 0, NAME_DOT = 2 };

static __always_inline __u32 name_byte(__u8 c)
{
	__u8 lower = c | 0x20;

	if (c == '.')
		return NAME_DOT;
	return (lower >= 'a' && lower <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' ? NAME_PLAIN
												: NAME_NONE;
}

/* A step over a name: its bytes to lower case, and the check that it is one. */
struct name_walk {
	struct host_key *host;
	__u32 at;
	__u32 end;
	__u32 before; /* enum name_byte, of the byte before */
	__u32 dot;    /* offset of the first dot, 0: none yet */
	bool bad;
};

static long name_step(__u32 i, struct name_walk *n)
{
	__u32 at = n->at, kind;
	__u8 c;

	hide(at);
	if (at >= n->end || at >= HOST_BYTES)
		return 1;
	c = n->host->name[at];
	kind = name_byte(c);
	n->host->name[at] = c | 0x20;
	if (kind & NAME_NONE || kind & n->before & NAME_DOT) {
		n->bad = true;
		return 1;
	}
	if (kind == NAME_DOT && !n->dot)
		n->dot = at;
	n->before = kind;
	n->at = at + 1;
	return 0;
}

/*
 * Reads a name of len bytes at off into host, from byte to on. Returns the offset in host of its first dot, 0 without
 * one, -1 if it is not a name in its usual form: upcall.
 */
static __always_inline int read_name(struct __sk_buff *skb, __u32 off, __u32 len, struct host_key *host, __u32 to)
{
	struct name_walk n = { .host = host, .at = to, .end = to + len, .before = to ? NAME_PLAIN : NAME_DOT };

	if (to > 1 || !is_within(len, 1, HOST_BYTES - 1))
		return -1;
	__builtin_memset(host->name, 0, HOST_BYTES);
	if (bpf_skb_load_bytes(skb, off, &host->name[to], len))
		return -1;
	bpf_loop(HOST_BYTES, name_step, &n, 0);
	return n.bad || n.before == NAME_DOT ? -1 : (int)n.dot;
}

/* Policy hash: the client's prefix, /24 or /56, and the name, in words of eight bytes, as packet/hello has it. */
static __always_inline __u64 hash_hello(const struct packet *p, const struct host_key *host)
{
	const __u64 *addr = (const __u64 *)p->key.src, *name = (const __u64 *)host->name;
	__u64 h = 0xcbf29ce484222325ULL, word;

#pragma unroll
	for (int i = 0; i < 2 + HOST_BYTES / 8; i++) {
		switch (i) {
		case 0:
			word = p->v6 ? addr[0] & bpf_cpu_to_be64(~0xffULL) : addr[0];
			break;
		case 1:
			word = p->v6 ? 0 : addr[1] & bpf_cpu_to_be64(~0xffULL);
			break;
		default:
			word = name[i - 2];
		}
		h = (h ^ word) * 0x9e3779b97f4a7c15ULL;
		h ^= h >> 32;
	}
	return h;
}

/* The number of the name at off, or of the wildcard that its first label may stand for. 0: in no route. -1: upcall. */
static __always_inline int host_of_name(struct __sk_buff *skb, const struct packet *p, __u32 off, __u32 len,
					struct routing *q)
{
	__u32 *id;
	int dot;

	q->host.vip = q->vip.id;
	q->host.pad[0] = q->host.pad[1] = q->host.pad[2] = 0;
	dot = read_name(skb, off, len, &q->host, 0);
	if (dot < 0)
		return -1;
	q->hash = hash_hello(p, &q->host);
	if (q->vip.flags & VIP_NO_HOSTS)
		return 0;
	id = bpf_map_lookup_elem(&hosts, &q->host);
	if (id)
		return *id;
	if (!dot)
		return 0;
	if (read_name(skb, off + dot, len - dot, &q->host, 1) < 0)
		return -1;
	q->host.name[0] = '*';
	id = bpf_map_lookup_elem(&hosts, &q->host);
	return id ? *id : 0;
}

/* Reads the hello's name. Returns as host_of_name. */
static __always_inline int host_of_hello(struct __sk_buff *skb, const struct packet *p, struct routing *q)
{
	struct hello h = { .skb = skb };
	__u8 b[LIST_HEADER];
	__u32 len;

	if (!begin_hello(&h, p))
		return -1;
	bpf_loop(MAX_EXTENSIONS, extension_step, &h, 0);
	if (h.bad || h.off != h.end || !h.name || h.size < LIST_HEADER || bpf_skb_load_bytes(skb, h.name, b, sizeof(b)))
		return -1;
	len = be16_at(b + 3);
	if (be16_at(b) != h.size - 2 || b[2] || len != h.size - LIST_HEADER) /* one host_name (RFC 6066, 3) */
		return -1;
	q->name_at = h.name + LIST_HEADER;
	q->name_len = len;
	return host_of_name(skb, p, q->name_at, len, q);
}

/* Reads and routes the current hello. False: upcall. */
__noinline int decide_hello(struct __sk_buff *skb, const struct packet *p, struct routing *q, struct decision *d)
{
	struct route *r;
	int host;

	if (!p || !q || !d)
		return false;
	host = host_of_hello(skb, p, q);
	if (host < 0)
		return false;
	q->route.prefixlen = 8 * (offsetof(struct route_key, target) - offsetof(struct route_key, vip));
	q->route.vip = q->vip.id;
	q->route.host = host;
	q->route.method = METHOD_NONE;
	r = bpf_map_lookup_elem(&routes, &q->route);
	if (!r || r->upcall)
		return false;
	__builtin_memset(d, 0, sizeof(*d));
	d->opaque = 1;
	d->surrogate = NO_SURROGATE;
	d->pool = r->pool;
	return true;
}
