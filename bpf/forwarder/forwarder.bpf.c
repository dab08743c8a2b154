/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The forwarder's data path: an OpenFlow 1.3 pipeline, attached at the ingress of the interfaces that are its ports, and at
 * the egress of those whose other side is the host. A packet's path:
 * parse, a flow entry in each table, its instructions, at last the action set.
 */
#include "group.h"
#include "handoff.h"
#include "meter.h"
#include "pick.h"
#include "sweep.h"
#include "unpick.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* OFPR_ [7.4.1] */
enum reason { REASON_NO_MATCH, REASON_ACTION, REASON_INVALID_TTL };

/* TCX_NEXT. What the forwarder leaves to the host others see as well: TC_ACT_OK would end the chain of programs, and leave out tc's filters. */
#define LEAVE TC_ACT_UNSPEC

/* OFPP_ [7.2.1] */
#define OFPP_CONTROLLER 0xfffffffd

/* The packet enters a table. Returns 1 when it ends there. */
__noinline int enter(struct __sk_buff *skb, __u32 number)
{
	struct traversal *t = traversal();
	struct flow_entry *e;
	struct table *from;
	__u32 place;
	int verdict;

	if (!t)
		return 1;
	t->table = number;
	t->phase = PHASE_ENTRY;
	t->entry = place = meet(t);
	e = bpf_map_lookup_elem(&entries, &place);
	if (!e) {
		from = bpf_map_lookup_elem(&tables, &number);
		if (from)
			__sync_fetch_and_add(&from->missed, t->packets);
		return stop(t, DROP_MISS);
	}
	account(&entry_counts, e->counts, t);
	t->cookie = e->cookie;
	if (e->meter) {
		verdict = run_meter(skb, e->meter);
		if (verdict)
			return stop(t, verdict);
	}
	t->list.next = e->ops;
	t->list.end = e->ops + e->apply;
	return 0;
}

struct write {
	__u32 next;
};

static long write_one(__u32 i, struct write *write)
{
	struct traversal *t = traversal();
	__u32 place = write->next++;
	struct op *op = bpf_map_lookup_elem(&ops, &place);

	if (!t || !op)
		return 1;
	t->set[op->slot & 63] = place;
	t->in_set |= 1ULL << (op->slot & 63);
	return 0;
}

/* What comes after an entry's apply-actions. */
static __always_inline int rest_of_entry(struct __sk_buff *skb, struct traversal *t)
{
	__u32 place = t->entry;
	struct flow_entry *e = bpf_map_lookup_elem(&entries, &place);
	struct write write;

	if (!e)
		return stop(t, DROP_MISS);
	if (e->flags & ENTRY_CLEAR)
		t->in_set = 0;
	if (e->write) {
		write.next = e->ops + e->apply;
		bpf_loop(e->write, write_one, &write, 0);
	}
	if (e->flags & ENTRY_METADATA)
		t->fields.metadata = (t->fields.metadata & ~e->metadata_mask) | (e->metadata & e->metadata_mask);
	if (e->flags & ENTRY_GOTO)
		return enter(skb, e->next);
	if (!t->in_set)
		return 1;
	t->phase = PHASE_SET;
	t->slot = 0;
	return 0;
}

struct next_slot {
	__u32 slot;
};

static long next_in_set(__u32 i, struct next_slot *next)
{
	struct traversal *t = traversal();

	if (!t || next->slot >= 64 || t->in_set >> (next->slot & 63) & 1)
		return 1;
	next->slot++;
	return 0;
}

/* The next action of the set. An output does nothing where there is a group [5.10]. */
static __always_inline int rest_of_set(struct traversal *t)
{
	struct next_slot next = { .slot = t->slot };
	__u32 place;

	if (t->in_set == 1ULL << SLOT_OUTPUT && !t->slot)
		next.slot = SLOT_OUTPUT;
	else
		bpf_loop(64, next_in_set, &next, 0);
	if (next.slot >= 64 || (next.slot == SLOT_OUTPUT && t->in_set >> SLOT_GROUP & 1))
		return 1;
	place = t->set[next.slot & 63];
	t->list.next = place;
	t->list.end = place + 1;
	t->slot = next.slot + 1;
	return 0;
}

/* The list of ops has ended. Returns 1 when there is nothing more to do. */
__noinline int advance(struct __sk_buff *skb)
{
	struct traversal *t = traversal();

	if (!t)
		return 1;
	if (t->depth) {
		t->depth--;
		t->list = t->outer[t->depth & (MAX_NESTED - 1)];
		return 0;
	}
	switch (t->phase) {
	case PHASE_ENTRY:
		return rest_of_entry(skb, t);
	case PHASE_SET:
		return rest_of_set(t);
	}
	return 1;
}

static __always_inline int change(struct __sk_buff *skb, struct traversal *t)
{
	int verdict;

	switch (t->op.kind) {
	case OP_PATCH:
		verdict = patch(skb);
		if (!verdict && (t->op.base == BASE_TYPE || (t->op.base == BASE_ICMPV6 && !t->op.at)))
			return retype(skb);
		return verdict;
	case OP_DSCP:
	case OP_ECN:
		return set_ip(skb);
	case OP_PROTO:
		verdict = set_ip(skb);
		return verdict ? verdict : changed(skb, true);
	case OP_VLAN_VID:
	case OP_VLAN_PCP:
		return set_tag(skb);
	case OP_PUSH_VLAN:
		return push_vlan(skb);
	case OP_POP_VLAN:
		return pop_vlan(skb);
	case OP_PUSH_MPLS:
		return push_mpls(skb);
	case OP_POP_MPLS:
		return pop_mpls(skb);
	case OP_PUSH_PBB:
		return push_pbb(skb);
	case OP_POP_PBB:
		return pop_pbb(skb);
	case OP_MPLS_TTL:
	case OP_DEC_MPLS_TTL:
	case OP_NW_TTL:
	case OP_DEC_NW_TTL:
	case OP_COPY_TTL_OUT:
	case OP_COPY_TTL_IN:
		return change_ttl(skb);
	case OP_INC_SEQ:
	case OP_INC_ACK:
	case OP_INC_SACK:
	case OP_INC_TSVAL:
	case OP_INC_TSECR:
	case OP_RESCALE_WINDOW:
	case OP_CLAMP_MSS:
	case OP_STRIP_OPTION:
		return change_tcp(skb);
	}
	return 0;
}

/* Executes t->op. Returns 1 when the packet ends. */
__noinline int perform(struct __sk_buff *skb)
{
	struct pipeline *st = the_pipeline();
	struct traversal *t = traversal();
	__u32 reason, place;
	struct flow_entry *e;
	int verdict;

	if (!t || !st)
		return 1;
	switch (t->op.kind) {
	case OP_OUTPUT:
		output(skb, t, t->op.arg);
		return 0;
	case OP_IN_PORT:
		output_back(skb, t);
		return 0;
	case OP_ALL:
		return output_all(skb, 0);
	case OP_FLOOD:
		return output_all(skb, PORT_NO_FLOOD);
	case OP_NORMAL:
		return output_normal(skb);
	case OP_TABLE:
		return copy_to(skb, NO_ENTRY);
	case OP_CONTROLLER:
		e = t->phase == PHASE_ENTRY ? bpf_map_lookup_elem(&entries, &t->entry) : NULL;
		reason = REASON_ACTION;
		place = t->list.next - 1; /* of a group, it is not among the entry's own */
		if (e && e->flags & ENTRY_MISS && place >= e->ops && place < e->ops + e->apply)
			reason = REASON_NO_MATCH;
		return punt(skb, t->op.arg, reason);
	case OP_GROUP:
		return run_group(skb, t->op.arg);
	case OP_PICK:
		return run_pick(skb);
	case OP_UNPICK:
		return run_unpick(skb);
	case OP_COUNT:
		account(&bucket_counts, t->op.arg, t);
		return 0;
	case OP_COPY:
		return copy_to(skb, t->op.arg);
	case OP_TUNNEL:
		__builtin_memcpy(&t->fields.tunnel_id, t->op.value, 8);
		return 0;
	case OP_QUEUE:
		skb->priority = t->op.arg;
		return 0;
	}
	if (t->out)
		flush(skb);
	verdict = change(skb, t);
	if (!verdict)
		return 0;
	if (verdict == DROP_INVALID_TTL && st->punt)
		punt(skb, st->punt, REASON_INVALID_TTL);
	return stop(t, verdict);
}

struct run {
	struct __sk_buff *skb;
};

static long step(__u32 i, struct run *run)
{
	struct traversal *t = traversal();
	struct op *op;
	__u32 place;
	int ends;

	if (!t)
		return 1;
	if (t->list.next >= t->list.end) {
		ends = advance(run->skb);
	} else {
		place = t->list.next++;
		op = bpf_map_lookup_elem(&ops, &place);
		if (!op)
			return 1;
		t->op = *op;
		ends = perform(run->skb);
	}
	barrier_var(ends); /* the verifier does not know what the compiler knows of the functions above */
	return ends ? 1 : 0;
}

static __always_inline void measure(struct __sk_buff *skb, struct traversal *t)
{
	__u32 header = t->l4 + 8;
	__u8 doff;

	t->now = bpf_ktime_get_ns();
	if (skb->gso_size && t->kind4 == L4_TCP && !bpf_skb_load_bytes(skb, t->l4 + 12, &doff, 1))
		header = t->l4 + (doff >> 4) * 4;
	weigh(skb, header, &t->packets, &t->bytes);
}

static __always_inline void begin(struct traversal *t)
{
	t->depth = t->out = t->sent = t->stack = t->learning = t->at = t->cached = 0;
	t->path.count = 0;
	t->in_set = 0;
	t->list.next = t->list.end = 0;
	t->entry = NO_ENTRY;
	t->table = 0;
	t->in = 0;
	t->verdict = DROPPED;
}

/*
 * Goes through the steps from here, and sends the packet on its way. The host's stack takes what has come by a port (from_port), not what is on
 * its way through the loop device.
 */
static __always_inline int finish(struct __sk_buff *skb, struct traversal *t, bool from_port)
{
	struct run run = { .skb = skb };
	struct port *p = NULL;

	if (bpf_loop(MAX_STEPS, step, &run, 0) >= MAX_STEPS)
		stop(t, DROP_TOO_LONG);
	if (t->learning)
		remember();
	if (t->stack && from_port) {
		flush(skb);
		count(t->sent ? FORWARDED : TO_STACK);
		return LEAVE;
	}
	if (t->out) {
		p = usable(t->out);
		if (p)
			t->sent++;
		else if (t->verdict == DROPPED)
			t->verdict = DROP_NO_PORT;
	}
	if (t->sent)
		t->verdict = FORWARDED;
	count(t->verdict);
	return p ? bpf_redirect(p->ifindex, way_out(p)) : TC_ACT_SHOT;
}

SEC("tc")
int forwarder_ingress(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex, *place = bpf_map_lookup_elem(&port_of, &ifindex);
	struct pipeline *st = the_pipeline();
	struct traversal *t = traversal();
	struct port *p;
	int action;

	if (!t || !st || !place) {
		count(NOT_A_PORT);
		return LEAVE;
	}
	p = bpf_map_lookup_elem(&ports, place);
	if (!p || p->flags & (PORT_NO_RECV | PORT_DOWN)) {
		count(DROP_PORT_RECV);
		return TC_ACT_SHOT;
	}
	if (st->picks) {
		action = take_shortcut(skb, *place);
		if (action >= 0)
			return action;
	}
	begin(t);
	t->fields.metadata = t->fields.tunnel_id = 0;
	t->fields.in_port = p->number;
	t->in = *place;
	if (parse(skb)) {
		count(DROP_SHORT);
		return TC_ACT_SHOT;
	}
	if (st->fragments && t->fragment) {
		count(DROP_FRAG);
		return TC_ACT_SHOT;
	}
	measure(skb, t);
	recall();
	if (enter(skb, 0)) {
		if (t->learning)
			remember();
		count(t->verdict);
		return TC_ACT_SHOT;
	}
	return finish(skb, t, true);
}

/* A copy comes back for its bucket or for the tables, or user space sends a packet of its own. */
SEC("tc")
int forwarder_loop(struct __sk_buff *skb)
{
	__u32 zero = 0, place = skb->mark & (COPIES - 1), mark = skb->mark;
	struct packet_out *out = bpf_map_lookup_elem(&packet_outs, &zero);
	struct copy *c = bpf_map_lookup_elem(&copies, &place);
	struct traversal *t = traversal();
	struct bucket *b;
	struct copy was;

	if (!t || !out || !c)
		return TC_ACT_SHOT;
	begin(t);
	t->cookie = ~0ULL;
	t->fields.metadata = t->fields.tunnel_id = 0;
	t->fields.in_port = out->in_port;
	t->phase = PHASE_LIST;
	t->list.end = out->ops;
	if (mark) {
		was = *c;
		if (was.turn != mark) {
			count(DROP_COPY);
			return TC_ACT_SHOT;
		}
		skb->mark = 0;
		t->fields.metadata = was.metadata;
		t->fields.tunnel_id = was.tunnel_id;
		t->fields.in_port = was.in_port;
		t->cookie = was.cookie;
		t->table = was.table;
		t->list.end = 0;
	}
	if (parse(skb)) {
		count(DROP_SHORT);
		return TC_ACT_SHOT;
	}
	measure(skb, t);
	if (mark && was.bucket == NO_ENTRY) {
		recall();
		if (enter(skb, 0)) {
			count(t->verdict);
			return TC_ACT_SHOT;
		}
	} else if (mark) {
		b = bpf_map_lookup_elem(&buckets, &was.bucket);
		if (!b)
			return TC_ACT_SHOT;
		account(&bucket_counts, was.bucket, t);
		t->list.next = b->ops;
		t->list.end = b->ops + b->count;
	}
	return finish(skb, t, false);
}

/* Keeps types in the object that the Go side is generated from. */
const enum bound *bound_type __attribute__((unused));
const enum verdict *verdict_type __attribute__((unused));
const enum entry_flag *entry_flag_type __attribute__((unused));
const enum op_kind *op_kind_type __attribute__((unused));
const enum op_base *op_base_type __attribute__((unused));
const enum op_sum *op_sum_type __attribute__((unused));
const enum slot *slot_type __attribute__((unused));
const enum group_kind *group_kind_type __attribute__((unused));
const enum bucket_flag *bucket_flag_type __attribute__((unused));
const enum port_flag *port_flag_type __attribute__((unused));
const struct punted *punted_type __attribute__((unused));
const enum pick_bound *pick_bound_type __attribute__((unused));
const enum pick_method *pick_method_type __attribute__((unused));
const enum pick_state *pick_state_type __attribute__((unused));
const enum pick_flag *pick_flag_type __attribute__((unused));
const enum pick_active *pick_active_type __attribute__((unused));
const struct pick_key *pick_key_type __attribute__((unused));
const struct pick_back_key *pick_back_key_type __attribute__((unused));
const struct pick_back *pick_back_type __attribute__((unused));
const struct pick *pick_type __attribute__((unused));
const struct pick_remote_key *pick_remote_key_type __attribute__((unused));
const struct pick_remote *pick_remote_type __attribute__((unused));
const struct picking *picking_type __attribute__((unused));
const struct pick_seat *pick_seat_type __attribute__((unused));
