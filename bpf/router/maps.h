/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/* The router's maps. User space sets configurable sizes before loading. */
#pragma once

#include <linux/bpf.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_endian.h>
#include "../kernel/counters.h"
#include "../session/splice.h"
#include "types.h"

/*
 * The flow table: tuple to splice. Two entries per active splice, one per idle leg. This program writes the client
 * side, user space the server side. A miss is not our session. Full: the client becomes an upcall, and is proxied.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 262144);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tuple);
	__type(value, struct flow);
} flows SEC(".maps");

/*
 * Lingering clients of flows, oldest first, so that user space need not walk the flows. An entry may be stale: the flow
 * is authoritative. Full: counted in lingering_lost, and user space walks the flows.
 */
struct {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 131072);
	__uint(value_size, sizeof(struct ended));
} lingering SEC(".maps");

/* Lingering clients that did not fit into lingering. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, __u64);
} lingering_lost SEC(".maps");

/* Server legs and their sessions, by number. User space writes only free ones; everything else is under the lock. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 131072);
	__type(key, __u32);
	__type(value, struct splice);
} splices SEC(".maps");

/* Options from clients' SYNs that a cookie cannot carry. Full: SYNs are answered with bare cookies. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct syn_options_key);
	__type(value, struct client);
} syn_options SEC(".maps");

/* Timing of a client's handshake. */
struct handshake {
	__u64 timed; /* the cookie; from bit 32 when it was sent (us), with HANDSHAKE_DONE the RTT: written atomically */
	__u32 sent;  /* ms, when the cookie was */
	__u32 pad;
};
#define HANDSHAKE_DONE (1U << 31)

/* By a hash of the cookie. On a collision the newer client wins; the other's RTT is unknown. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, HANDSHAKES);
	__type(key, __u32);
	__type(value, struct handshake);
} handshakes SEC(".maps");

/* Clients whose (next) request is not decided. Full: no more upcalls. Handshakes cannot fill it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tuple);
	__type(value, struct client);
} clients SEC(".maps");

/* Number of undecided clients by a hash of their source; the last counts all. User space recounts and corrects. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, SOURCES + 1);
	__type(key, __u32);
	__type(value, __s32);
} sources SEC(".maps");

/* State of a response head that continues in the next packet. */
struct partial {
	__u32 next; /* sequence number of that packet */
	__u32 flags;
	__u64 length;
	__u16 status;
	__u16 line;    /* the status line is complete */
	__u32 carried; /* bytes of the incomplete line */
	__u8 bytes[CARRY_BYTES];
};

/* By splice number. Full: the least recently used session is not tracked any more. */
struct {
	__uint(type, BPF_MAP_TYPE_LRU_HASH);
	__uint(max_entries, 4096);
	__type(key, __u32);
	__type(value, struct partial);
} partials SEC(".maps");

struct leg_queue {
	__uint(type, BPF_MAP_TYPE_QUEUE);
	__uint(max_entries, 4096);
	__uint(value_size, sizeof(__u32));
};

/*
 * Idle legs by (surrogate * LEG_CLASSES + class) * LEG_BANDS + band; user space creates a queue when it is first
 * needed. FIFO: the oldest is the next that user space renews. Entries may be stale; the splice's state decides.
 */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, MAX_SURROGATES *LEG_CLASSES *LEG_BANDS);
	__type(key, __u32);
	__array(values, struct leg_queue);
} idle_legs SEC(".maps");

/* A leg popped from its queue. */
struct popped_leg {
	__u32 idx;
	__u32 surrogate;
	__u32 leg_class;
	__u32 band; /* of the queue */
	__u32 reuse;
};

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, (2 * GENERATIONS + 1) * MAX_VIPS); /* and those that are refused before the next tables */
	__type(key, struct vip_key);
	__type(value, struct vip);
} vips SEC(".maps");

/* Hosts named in routes. A miss is host 0. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, GENERATIONS * 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct host_key);
	__type(value, __u32);
} hosts SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, GENERATIONS * 1048576);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct route_key);
	__type(value, struct route);
} routes SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GENERATIONS *MAX_POOLS);
	__type(key, __u32);
	__type(value, struct pool);
} pools SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_POOLS);
	__type(key, __u32);
	__type(value, struct pool_name);
} pool_names SEC(".maps");

/* Changes of requests' heads, by number. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_EDITS);
	__type(key, __u32);
	__type(value, struct edit);
} edits SEC(".maps");

static __always_inline struct edit *edit_of(__u32 header)
{
	__u32 number = header - HEADER_EDIT;

	return bpf_map_lookup_elem(&edits, &number);
}

/* By number of a VIP, which is per generation. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GENERATIONS *MAX_VIPS);
	__type(key, __u32);
	__type(value, struct watches);
} watched_fields SEC(".maps");

/* Choice tables; the first MAX_POOLS of a generation are the pools' own. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, GENERATIONS *MAX_TABLES);
	__type(key, __u32);
	__type(value, struct choices);
} tables SEC(".maps");

/* Client prefix to index in tables, for policy nearest. */
struct {
	__uint(type, BPF_MAP_TYPE_LPM_TRIE);
	__uint(max_entries, GENERATIONS * 1048576);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct zone_key);
	__type(value, __u32);
} zones SEC(".maps");

/* User space reads it as memory: many times a second for each surrogate. */
struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(map_flags, BPF_F_MMAPABLE);
	__uint(max_entries, MAX_SURROGATES);
	__type(key, __u32);
	__type(value, struct surrogate);
} surrogates SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, MAX_SURROGATES);
	__type(key, __u32);
	__type(value, struct limit);
} limits SEC(".maps");

/* Interfaces of the routes to surrogates, by user space. A leg's own next hop may be another. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4 * MAX_SURROGATES);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct path_key);
	__type(value, __u8);
} paths SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct config);
} settings SEC(".maps");

COUNTERS(verdicts, VERDICTS);

/*
 * struct leg_event and struct too_big_event for user space. Full: the sweep reports dead legs again, and a packet that
 * is too big is repeated.
 */
struct {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 1 << 20);
} events SEC(".maps");

/* Records of the access log by splice: page idx / LOG_PAGE, place idx % LOG_PAGE. User space adds a page when a VIP logs. */
struct log_page {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, LOG_PAGE);
	__type(key, __u32);
	__type(value, struct request_log);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 512);
	__type(key, __u32);
	__array(values, struct log_page);
} log_pages SEC(".maps");

/* Records that are over, for user space, which makes the ring when a VIP logs. Full: the record is lost. */
struct log_ring {
	__uint(type, BPF_MAP_TYPE_RINGBUF);
	__uint(max_entries, 8 << 20);
};

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY_OF_MAPS);
	__uint(max_entries, 1);
	__type(key, __u32);
	__array(values, struct log_ring);
} log_rings SEC(".maps");

/* Records that found no room. */
COUNTERS(logs_lost, 1);

/* Of clients whose decision user space has made. Full: the record has no name, and what the first packet has of the head. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tuple);
	__type(value, struct log_head);
} log_heads SEC(".maps");

/* Names of clients whose hello user space has decided. Full: the header has no name. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 65536);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, struct tuple);
	__type(value, struct authority);
} hello_names SEC(".maps");

/* The name in the header of a session, by splice, for as long as it lives. Full: the header has none. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 131072);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct authority);
} authorities SEC(".maps");

/* The VIP of a request and its lookup keys, all of one generation. */
struct routing {
	struct vip vip;
	__u32 generation; /* of the config, as read by to_vip */
	__u64 hash;       /* of a hello, for policy hash */
	__u32 name_at;    /* of a hello: offset of the server name in the packet */
	__u32 name_len;
	struct host_key host;
	struct route_key route;
};

static __always_inline void count(__u32 verdict)
{
	count_up(&verdicts, verdict);
}

static __always_inline struct config *config(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&settings, &zero);
}

static __always_inline struct splice *splice_at(__u32 idx)
{
	return bpf_map_lookup_elem(&splices, &idx);
}

static __always_inline struct surrogate *surrogate_at(__u32 n)
{
	return bpf_map_lookup_elem(&surrogates, &n);
}
