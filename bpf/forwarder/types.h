/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * What the forwarder's kernel programs and user space both use; what it remembers of flows is in binding_types.h. The only sources of the
 * generated Go types.
 *
 * User space compiles the flow entries, groups and meters of OpenFlow into these records and writes them straight into the
 * maps' memory. A record that packets may be looking at is never changed but in one aligned word of 8 bytes: what is new goes
 * to a free place, the word that leads there is switched, and the old place rests for a while before it is used again.
 */
#pragma once

#include <linux/types.h>

enum bound {
	MAX_TABLES = 255,     /* 0 to 254 */
	MAX_PORTS = 1024,     /* by place, not by number; place 0 is none */
	MAX_BANDS = 8,        /* of a meter */
	MAX_STEPS = 4096,     /* of one packet: instructions and actions; more is a loop and is dropped */
	MAX_NESTED = 8,       /* groups within groups that are not the last thing to do */
	MEGAFLOW_TABLES = 14, /* tables of a cached path */
	COPIES = 4096,        /* packets on the way through the loop device; a power of two */
	OUT_OPS = 256,        /* room at the start of ops for a packet-out */
	MAX_FRAME = 65536,    /* bytes of a packet that a controller gets */
	MAX_SUBTABLES = 1024, /* of one table that a packet is looked up in */
};

/* No flow entry: a packet that missed. */
#define NO_ENTRY 0xffffffff

/*
 * A packet as OpenFlow sees it, in network byte order. Fields that no packet has both of share a place: a match on either says
 * which it means by its prerequisites. The layout is that of Go's package forwarder/match.
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
	__u32 subtable; /* of a lookup: the place in subtables; of a packet 0 */
	__u32 unused;
};

#define FIELD_WORDS 15 /* of 8 bytes, without subtable */

/* The entries of one table that ask for the same bits. */
struct subtable {
	struct fields mask;
};

/* A subtable in a table's list, highest first; best is the highest priority in it. */
struct listed {
	__u32 subtable;
	__u32 best;
};

/* A table's list of subtables: count of them from first on, in lists. One word, so that it is switched at once. */
struct table {
	__u32 first;
	__u32 count;
	__u64 missed; /* packets */
};

/* The best of the entries of one subtable whose masked fields are the same. */
struct rule {
	__u32 entry;
	__u32 priority;
};

enum entry_flag {
	ENTRY_GOTO = 1,     /* next is valid */
	ENTRY_CLEAR = 2,    /* clear-actions */
	ENTRY_METADATA = 4, /* write-metadata */
	ENTRY_MISS = 8,     /* the table-miss entry: its packet-ins are of reason NO_MATCH */
};

/* The instructions of a flow entry, executed in this order: meter, apply, clear, write, metadata, goto. */
struct flow_entry {
	__u32 ops;   /* place in ops of apply-actions; write-actions are behind them */
	__u16 apply; /* how many */
	__u16 write;
	__u32 meter; /* place in meters; 0: none */
	__u8 next;
	__u8 flags;
	__u8 table;
	__u8 reserved;
	__be64 metadata;
	__be64 metadata_mask;
	__be64 cookie;
	__u32 counts; /* place in entry_counts */
	__u32 spare;
};

struct counts {
	__u64 packets; /* of the wire: segments count one by one */
	__u64 bytes;
	__u64 used; /* when last; ns, CLOCK_MONOTONIC */
};

/* The kinds of actions. Their order means nothing, but for those of TCP being together. */
enum op_kind {
	OP_OUTPUT, /* arg: port's place */
	OP_IN_PORT,
	OP_ALL,
	OP_FLOOD,
	OP_NORMAL,
	OP_TABLE,      /* of a packet-out */
	OP_CONTROLLER, /* arg: most bytes */
	OP_GROUP,      /* arg: place in groups */
	OP_COUNT,      /* arg: bucket that the following belong to */
	OP_COPY,       /* arg: bucket that a copy of the packet goes to */
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
	OP_RESCALE_WINDOW, /* arg: shift of the sender, shift told << 8 */
	OP_CLAMP_MSS,
	OP_STRIP_OPTION,
	OP_TCP_LAST = OP_STRIP_OPTION,
	OP_BIND, /* arg: place in group_heads; at: enum bind_method; value: seconds that flows to one address stay together, a __u32 */
	OP_UNBIND, /* arg: place in group_heads */
};

/* What a patch is relative to. A packet without that header is dropped. */
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

/* Which checksums a patch must keep right. */
enum op_sum {
	SUM_IP = 1,     /* IPv4's header */
	SUM_PSEUDO = 2, /* the transport's, by its pseudo header */
	SUM_L4 = 4,     /* the transport's, by its own header */
};

/*
 * One action. OP_PATCH writes the bits of value that mask has (all, when mask is 0) at an offset of a header, and the field's
 * bytes in struct fields; a value of which the wire has some bits only (mask) stands in the field as arg.
 */
struct op {
	__u8 kind;
	__u8 slot; /* in the action set, which is executed in the order of slots */
	__u8 base;
	__u8 at;
	__u8 len;      /* of value; with a mask 4 at most */
	__u8 field_at; /* in struct fields */
	__u8 field_len;
	__u8 sums;
	__u32 arg;
	__be32 mask;
	__u8 value[16];
};

/* Slots of the action set, in the order of execution [5.10]. */
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
	SLOT_FIELD,        /* one for each of the fields, by its number */
	SLOT_HANDOFF = 53, /* one for each of Baton's own actions */
	SLOT_QUEUE = 61,
	SLOT_GROUP,
	SLOT_OUTPUT, /* the last: 63 */
};

/* Where a group is in groups: one word, so that another version of it is switched to at once. 0: it is not there. */
struct group_head {
	__u32 version;
	__u32 id; /* OpenFlow's */
};

enum group_kind { GROUP_NONE, GROUP_ALL, GROUP_SELECT, GROUP_FAILOVER };

/*
 * A group. GROUP_ALL (and indirect) is a list of ops: OP_COUNT and the bucket's outputs for one that only puts the packet out,
 * else OP_COPY. The others have buckets to choose from; of GROUP_SELECT, slots (a power of two) say which.
 */
struct group {
	__u32 kind;
	__u32 first; /* place in ops, or in buckets */
	__u32 count;
	__u32 slots; /* place in slots */
	__u32 slot_mask;
	__u32 reserved;
};

enum bucket_flag {
	BUCKET_PLAIN = 1,   /* nothing but outputs */
	BUCKET_DEAD = 2,    /* the group that it watches has no live bucket */
	BUCKET_WATCHES = 4, /* a group */
};

struct bucket {
	__u32 ops; /* in the order of execution */
	__u16 count;
	__u16 flags;
	__u32 watch; /* port's place; 0: none. A bucket that watches lives while one of what it watches does */
	__u32 weight;
};

/* A band is exceeded when the packets so far would take longer than burst beyond now at its rate. */
struct band {
	__u64 due;    /* ns; when the packets so far would be through */
	__u64 burst;  /* ns */
	__u64 cost;   /* ps of a bit, or of a packet */
	__u32 rate;   /* the highest exceeded one counts */
	__u32 remark; /* 0: drop; else the drop precedence to add */
	__u64 packets;
	__u64 bytes;
};

struct meter {
	__u32 bands;
	__u32 by_packet; /* else by bit */
	struct band band[MAX_BANDS];
};

/* A port's configuration, as its bits of OpenFlow [7.2.1], and more. */
enum port_flag {
	PORT_DOWN = 1,
	PORT_NO_RECV = 4,
	PORT_NO_FWD = 32,
	PORT_NO_PACKET_IN = 64,
	PORT_NO_FLOOD = 1 << 16, /* not part of FLOOD and NORMAL */
	PORT_LIVE = 1 << 17,
	PORT_THERE = 1 << 18,
	PORT_HOST =
		1
		<< 19, /* what the host sends by the interface comes in here, and what goes out is received by the host */
};

struct port {
	__u32 ifindex;
	__u32 flags;
	__be32 number;
	__u32 seat; /* in struct binder; 0: none */
};

/* Of the whole switch. */
struct pipeline {
	__u64 epoch;        /* of the tables; a cached path of another one is not used */
	struct fields used; /* what any entry asks for */
	__u32 ports;        /* places in use are below */
	__u32 loop;         /* ifindex of the loop device */
	__u32 fragments;    /* not zero: they are dropped */
	__u32 megaflows;    /* cached ones a processor, a power of two; 0: none */
	__u32 ttl_upcall;   /* bytes of a packet-in for an invalid TTL; 0: none is sent */
	__u32 stack;        /* not zero: NORMAL leaves a packet to the host's stack */
	__u32 bindings;     /* flows that are remembered at most; 0: none */
	__u32 reserved;
};

/* How the tables treat packets with the same fields: which entry in the first, which in the next. */
struct megaflow {
	struct fields fields; /* as far as any entry asks for them */
	__u64 epoch;
	__u32 count;
	__u32 entry[MEGAFLOW_TABLES]; /* NO_ENTRY: it missed there */
	__u32 hash;
};

/* What user space has a packet of its own do: ops from place 0 on. */
struct packet_out {
	__be32 in_port;
	__u32 ops;
};

/* A packet on its way through the loop device; its mark is its place here, and its seq. */
struct copy {
	__u32 seq;
	__u32 bucket;
	__be32 in_port;
	__u32 table;
	__be64 metadata;
	__be64 tunnel_id;
	__be64 cookie;
};

/* In front of a packet for the controllers. */
struct upcall {
	__be64 metadata;
	__be64 tunnel_id;
	__be64 cookie;
	__be32 in_port;
	__u32 length;   /* of the packet, without a tag that is not in it */
	__u32 most;     /* bytes that the controller wants */
	__u16 segment;  /* payload of each packet that this one stands for; 0: itself */
	__u16 tag;      /* VLAN tag that is not in the bytes; its control information */
	__u16 tag_type; /* EtherType of the tag; 0: there is none. Host byte order, as tag */
	__u8 reason;    /* OFPR_ */
	__u8 table;
};

/* What became of a packet. Every drop has a name. */
enum verdict {
	FORWARDED,      /* at least one copy went out */
	UPCALL,         /* to the controllers alone */
	NOT_A_PORT,     /* left to the host: came by an interface that is none */
	DROPPED,        /* an entry said so: no output */
	DROP_MISS,      /* no entry in a table */
	DROP_METER,     /* faster than a meter's band */
	DROP_PORT_RECV, /* the port takes nothing */
	DROP_FRAG,      /* fragments are to be dropped */
	DROP_NO_PORT,   /* out of a port that is not there, is down, or forwards nothing */
	DROP_INVALID_TTL,
	DROP_NOT_THERE,     /* an action on a header that the packet has not */
	DROP_CHANGE,        /* the kernel refused to change the packet */
	DROP_GROUP,         /* no group, or no live bucket */
	DROP_TOO_LONG,      /* too many steps, or groups within groups */
	DROP_COPY,          /* a copy that was overtaken by 4,096 others */
	DROP_SHORT,         /* no Ethernet header */
	TO_STACK,           /* left to the host by NORMAL */
	DROP_BIND_NONE,     /* no bucket lives that a flow could be bound for */
	DROP_BIND_GONE,     /* the flow's port is no more, and the flow cannot have another */
	DROP_BIND_CLASH,    /* by every port a flow of another inside address has the same replies */
	DROP_BINDINGS_FULL, /* no more flows can be remembered */
	UPCALL_LOST,        /* user space reads too slowly; counted beside the verdict, as are those below */
	COPY_LOST,          /* the kernel could not copy the packet */
	MEGAFLOWS_HIT,      /* the path was cached */
	MICROFLOWS_HIT,     /* the packet was of a known flow, and needed no tables */
};
