/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * Records shared by the forwarder's kernel programs and user space; those of the binding table are in binding_types.h. The Go types are
 * generated from these two files.
 *
 * User space compiles OpenFlow's flow entries, groups and meters into these records and writes them straight into the maps' memory. A
 * record that packets may be reading changes only by one aligned 8-byte word: the new record goes to a free place, the word that points
 * there is switched, and the old place is freed after a grace period.
 */
#pragma once

#include <linux/types.h>

enum bound {
	MAX_TABLES = 255,     /* 0 to 254 */
	MAX_PORTS = 1024,     /* by index, not by number; index 0 is none */
	MAX_BANDS = 8,        /* of a meter */
	MAX_STEPS = 4096,     /* instructions and actions of one packet; more must be a loop, and is dropped */
	MAX_NESTED = 8,       /* nested groups, not counting those in tail position */
	MEGAFLOW_TABLES = 14, /* tables of a megaflow */
	COPIES = 4096,        /* packets in flight through the loop device; a power of two */
	OUT_OPS = 256,        /* reserved for packet-outs, at the start of ops */
	MAX_FRAME = 65536,    /* bytes of a packet-in */
	MAX_SUBTABLES = 1024, /* of one table */
};

/* No flow entry: a table miss. */
#define NO_ENTRY 0xffffffff

/*
 * A packet's OpenFlow fields, in network byte order. Fields that never occur in the same packet share a place; a match's prerequisites say
 * which of them it means. Go's package forwarder/match has the same layout.
 */
struct fields {
	__be64 metadata;
	__be64 tunnel_id;
	__be32 in_port;
	__be32 flow_label;
	__u8 eth_dst[6];
	__u8 eth_src[6];
	__be16 eth_type;
	__be16 vlan_vid; /* with 0x1000 (OFPVID_PRESENT), or 0 */
	__be32 label;    /* of MPLS; or the I-SID of PBB */
	__u8 mpls_tc;
	__u8 mpls_bos;
	__u8 vlan_pcp;
	__u8 ip_ecn;
	__u8 ip_dscp;
	__u8 reserved;
	__be16 ip_proto; /* or ARP's operation */
	__be16 ipv6_exthdr;
	__be16 tcp_flags;
	__u8 ip_src[16]; /* IPv4: the first 4, as are ARP's */
	__u8 ip_dst[16];
	__be16 l4_src;    /* or ICMP's type */
	__be16 l4_dst;    /* or ICMP's code */
	__u8 link_src[6]; /* arp_sha, ipv6_nd_sll */
	__u8 link_dst[6]; /* arp_tha, ipv6_nd_tll */
	__u8 nd_target[16];
	__u32 subtable; /* in a lookup: index in subtables; in a packet: 0 */
	__u32 unused;
};

#define FIELD_WORDS 15 /* of 8 bytes, without subtable */

/* The flow entries of a table with the same mask (tuple space search). */
struct subtable {
	struct fields mask;
};

/* An item of a table's list of subtables, which is sorted by best, descending; best is the highest priority in the subtable. */
struct listed {
	__u32 subtable;
	__u32 best;
};

/* A table's list of subtables: lists[first, first + count). One word, so that it can be switched atomically. */
struct table {
	__u32 first;
	__u32 count;
	__u64 missed; /* packets */
};

/* The flow entry with the highest priority among those of a subtable with the same masked fields. */
struct rule {
	__u32 entry;
	__u32 priority;
};

enum entry_flag {
	ENTRY_GOTO = 1,     /* next is valid */
	ENTRY_CLEAR = 2,    /* clear-actions */
	ENTRY_METADATA = 4, /* write-metadata */
	ENTRY_MISS = 8,     /* the table-miss entry: its packet-ins have reason NO_MATCH */
};

/* The instructions of a flow entry, executed in the order meter, apply, clear, write, metadata, goto. */
struct flow_entry {
	__u32 ops;   /* index in ops of the apply-actions, then the write-actions */
	__u16 apply; /* number of ops */
	__u16 write;
	__u32 meter; /* index in meters; 0: none */
	__u8 next;
	__u8 flags;
	__u8 table;
	__u8 reserved;
	__be64 metadata;
	__be64 metadata_mask;
	__be64 cookie;
	__u32 counts; /* index in entry_counts */
	__u32 spare;
};

struct counts {
	__u64 packets; /* on the wire: segments count one by one */
	__u64 bytes;
	__u64 used; /* last time; ns, CLOCK_MONOTONIC */
};

/* Kinds of actions. The order is arbitrary, except that those of TCP are contiguous. */
enum op_kind {
	OP_OUTPUT, /* arg: index of the port */
	OP_IN_PORT,
	OP_ALL,
	OP_FLOOD,
	OP_NORMAL,
	OP_TABLE,      /* in a packet-out */
	OP_CONTROLLER, /* arg: maximum bytes */
	OP_GROUP,      /* arg: index in group_heads */
	OP_COUNT,      /* arg: bucket of the ops that follow */
	OP_COPY,       /* arg: bucket that gets a copy of the packet */
	OP_PATCH,      /* arg: value of the field; see struct op */
	OP_TUNNEL,
	OP_DSCP,
	OP_ECN,
	OP_PROTO,
	OP_VLAN_VID, /* arg: with OFPVID_PRESENT */
	OP_VLAN_PCP,
	OP_PUSH_VLAN, /* arg: EtherType */
	OP_POP_VLAN,
	OP_PUSH_MPLS,
	OP_POP_MPLS,
	OP_PUSH_PBB,
	OP_POP_PBB,
	OP_MPLS_TTL,
	OP_DEC_MPLS_TTL,
	OP_NW_TTL,
	OP_DEC_NW_TTL,
	OP_COPY_TTL_OUT,
	OP_COPY_TTL_IN,
	OP_QUEUE,
	OP_TCP_FIRST,
	OP_INC_SEQ = OP_TCP_FIRST,
	OP_INC_ACK,
	OP_INC_SACK,
	OP_INC_TSVAL,
	OP_INC_TSECR,
	OP_RESCALE_WINDOW, /* arg: shift of the sender, advertised shift << 8 */
	OP_CLAMP_MSS,
	OP_STRIP_OPTION,
	OP_TCP_LAST = OP_STRIP_OPTION,
	OP_BIND,   /* arg: index in group_heads; at: enum bind_method; value: affinity in seconds, a __u32 */
	OP_UNBIND, /* arg: index in group_heads */
};

/* The header that a patch's offset is relative to. A packet without it is dropped. */
enum op_base {
	BASE_FRAME,
	BASE_TYPE, /* the EtherType behind the tags */
	BASE_LABEL,
	BASE_SERVICE_TAG,
	BASE_ARP,
	BASE_IPV4,
	BASE_IPV6,
	BASE_TCP,
	BASE_UDP,
	BASE_SCTP,
	BASE_ICMP,
	BASE_ICMPV6,
	BASE_ND_TARGET,
	BASE_ND_SLL, /* the address in the option */
	BASE_ND_TLL,
};

/* Checksums that a patch must update. */
enum op_sum {
	SUM_IP = 1,     /* IPv4's header */
	SUM_PSEUDO = 2, /* the transport's, by its pseudo header */
	SUM_L4 = 4,     /* the transport's, by its own header */
};

/*
 * One action. OP_PATCH writes the bits of value in mask (all, if mask is 0) at an offset of a header, and the field in struct fields; with
 * a mask, arg is the field's value there.
 */
struct op {
	__u8 kind;
	__u8 slot; /* in the action set, which is executed by ascending slot */
	__u8 base;
	__u8 at;
	__u8 len;      /* of value; at most 4 with a mask */
	__u8 field_at; /* in struct fields */
	__u8 field_len;
	__u8 sums;
	__u32 arg;
	__be32 mask;
	__u8 value[16];
};

/* Slots of the action set, in execution order [5.10]. */
enum slot {
	SLOT_COPY_TTL_IN,
	SLOT_POP_VLAN,
	SLOT_POP_MPLS,
	SLOT_POP_PBB,
	SLOT_PUSH_MPLS,
	SLOT_PUSH_PBB,
	SLOT_PUSH_VLAN,
	SLOT_COPY_TTL_OUT,
	SLOT_DEC_MPLS_TTL,
	SLOT_DEC_NW_TTL,
	SLOT_MPLS_TTL,
	SLOT_NW_TTL,
	SLOT_FIELD,        /* one per field, by its number */
	SLOT_HANDOFF = 53, /* one per action of Baton */
	SLOT_QUEUE = 61,
	SLOT_GROUP,
	SLOT_OUTPUT, /* 63, the last */
};

/* The current version of a group: an index in groups, in one word with the id so that it can be switched atomically. 0: the group does not exist. */
struct group_head {
	__u32 version;
	__u32 id; /* OpenFlow's number */
};

enum group_kind { GROUP_NONE, GROUP_ALL, GROUP_SELECT, GROUP_FAILOVER };

/*
 * A group. GROUP_ALL (and indirect) is a list of ops: OP_COUNT and outputs of a bucket with outputs only, else OP_COPY. The others choose
 * a bucket; GROUP_SELECT by slots, a power of two.
 */
struct group {
	__u32 kind;
	__u32 first; /* index in ops, or in buckets */
	__u32 count;
	__u32 slots; /* index in slots */
	__u32 slot_mask;
	__u32 reserved;
};

enum bucket_flag {
	BUCKET_PLAIN = 1,   /* outputs only */
	BUCKET_DEAD = 2,    /* the group that it watches has no live bucket */
	BUCKET_WATCHES = 4, /* it watches a group */
};

struct bucket {
	__u32 ops; /* in execution order */
	__u16 count;
	__u16 flags;
	__u32 watch; /* index of the watched port; 0: none. A bucket is live while a port or group that it watches is */
	__u32 weight;
};

/* A meter band, as a virtual schedule: it is exceeded when due is more than burst ahead of now. */
struct band {
	__u64 due;    /* ns; when all packets so far would be sent at the band's rate */
	__u64 burst;  /* ns */
	__u64 cost;   /* ps per bit, or per packet */
	__u32 rate;   /* among exceeded bands the highest rate applies */
	__u32 remark; /* 0: drop; else the increase of the drop precedence */
	__u64 packets;
	__u64 bytes;
};

struct meter {
	__u32 bands;
	__u32 by_packet; /* else by bits */
	struct band band[MAX_BANDS];
};

/* A port's configuration: OpenFlow's bits [7.2.1], and more. */
enum port_flag {
	PORT_DOWN = 1,
	PORT_NO_RECV = 4,
	PORT_NO_FWD = 32,
	PORT_NO_PACKET_IN = 64,
	PORT_NO_FLOOD = 1 << 16, /* excluded from FLOOD and NORMAL */
	PORT_LIVE = 1 << 17,
	PORT_THERE = 1 << 18,
	PORT_HOST =
		1 << 19, /* packets that the host sends by the interface come in here; output is received by the host */
};

struct port {
	__u32 ifindex;
	__u32 flags;
	__be32 number;
	__u32 seat; /* index in struct binder; 0: none */
};

/* State of the whole switch. */
struct pipeline {
	__u64 epoch;        /* version of the tables: a cached flow of another epoch is not used */
	struct fields used; /* the mask of all entries together */
	__u32 ports;        /* indices in use are lower */
	__u32 loop;         /* ifindex of the loop device */
	__u32 fragments;    /* not zero: fragments are dropped */
	__u32 megaflows;    /* per processor, a power of two; 0: none */
	__u32 stack;        /* not zero: NORMAL passes packets to the host's stack */
	__u32 bindings;     /* size of the binding table; 0: none */
};

/* The second level of the flow cache: the flow entries that packets with the same masked fields match, table by table. */
struct megaflow {
	struct fields fields; /* masked by pipeline.used */
	__u64 epoch;
	__u32 count;
	__u32 entry[MEGAFLOW_TABLES]; /* NO_ENTRY: a miss */
	__u32 hash;
};

/* A packet that user space sends: it executes ops from index 0 on. */
struct packet_out {
	__be32 in_port;
	__u32 ops;
};

/* The metadata of a packet on its way through the loop device; its mark is seq, whose low bits are the index here. */
struct copy {
	__u32 seq;
	__u32 bucket;
	__be32 in_port;
	__u32 table;
	__be64 metadata;
	__be64 tunnel_id;
	__be64 cookie;
};

/* The header of an upcall; the packet follows. */
struct upcall {
	__be64 metadata;
	__be64 tunnel_id;
	__be64 cookie;
	__be32 in_port;
	__u32 length;   /* of the packet, without the tag below */
	__u32 max_len;  /* bytes for the controller */
	__u16 segment;  /* payload of each segment; 0: not a GSO packet */
	__u16 tag;      /* VLAN tag that is not in the packet's bytes; its TCI */
	__u16 tag_type; /* its EtherType; 0: no tag. Both in host byte order */
	__u8 reason;    /* OFPR_ */
	__u8 table;
};

/* The fate of a packet. Every drop has a reason. */
enum verdict {
	FORWARDED,          /* sent out of a port, or as a copy to a bucket, at least once */
	UPCALL,             /* to the controllers only */
	NOT_A_PORT,         /* left to the host: the interface is no port, or no longer one */
	DROPPED,            /* matched entries without output, or with output to its input port only */
	DROP_MISS,          /* matched no entry of a table */
	DROP_METER,         /* above a meter's rate */
	DROP_PORT_RECV,     /* arrived on a port that is down or receives nothing */
	DROP_FRAG,          /* a fragment, and a controller has asked to drop them */
	DROP_NO_PORT,       /* to a port that does not exist, is down, or forwards nothing */
	DROP_INVALID_TTL,   /* its TTL has expired */
	DROP_NOT_THERE,     /* lacks the header of an action, other than pop_vlan */
	DROP_CHANGE,        /* could not be changed: out of memory */
	DROP_GROUP,         /* its group does not exist, or has no live bucket */
	DROP_TOO_LONG,      /* too many steps or nested groups */
	DROP_COPY,          /* 4,096 later copies have overwritten the copy's metadata */
	DROP_SHORT,         /* no Ethernet header */
	TO_STACK,           /* passed to the host by NORMAL */
	DROP_BIND_NONE,     /* no live bucket to bind the flow to */
	DROP_BIND_GONE,     /* the port of the flow is gone, and the flow cannot move */
	DROP_BIND_CLASH,    /* on every port a flow of another internal address has the same replies */
	DROP_BINDINGS_FULL, /* the binding table is full */
	UPCALL_LOST,        /* user space reads too slowly; counted in addition to the verdict, like those below */
	COPY_LOST,          /* the packet could not be cloned */
	MEGAFLOWS_HIT,      /* served by a megaflow */
	MICROFLOWS_HIT,     /* served by a microflow, without the tables */
};
