/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The forwarder's data path: an OpenFlow 1.3 pipeline, attached at the ingress of the ports' interfaces, or at the egress if the port's
 * side is the host. A packet is parsed, matches a flow entry in each table, executes its instructions, and finally its action set.
 */
#include <linux/pkt_cls.h>
#include "change.h"
#include "group.h"
#include "handoff.h"
#include "maps.h"
#include "meter.h"
#include "output.h"
#include "parse.h"
#include "bind.h"
#include "microflow.h"
#include "sweep.h"
#include "tables.h"
#include "tags.h"
#include "traversal.h"
#include "unbind.h"

char _license[] SEC("license") = "Dual BSD/GPL";

/* OFPR_ [7.4.1] */
enum reason { REASON_NO_MATCH, REASON_ACTION };

/* TCX_NEXT: lets later programs see what the forwarder leaves to the host. TC_ACT_OK would end the chain and skip tc filters. */
#define LEAVE TC_ACT_UNSPEC

/* OFPP_ [7.2.1] */
#define OFPP_CONTROLLER 0xfffffffd

/* Looks the packet up in a table. Returns 1 when the packet ends there. */
__noinline int enter(struct __sk_buff *skb, struct traversal *t, __u32 number)
{
	struct flow_entry *e;
	struct table *from;
	__u32 place;
	int verdict;

	if (!t)
		return 1;
	t->table = number;
	t->phase = PHASE_ENTRY;
	t->entry = place = match_entry(&t->trail, &t->frame.fields, &t->probe, number);
	e = bpf_map_lookup_elem(&entries, &place);
	if (!e) {
		from = bpf_map_lookup_elem(&tables, &number);
		if (from)
			__sync_fetch_and_add(&from->missed, t->weight.packets);
		return stop(t, DROP_MISS);
	}
	account(&entry_counts, e->counts, &t->weight);
	t->cookie = e->cookie;
	if (e->meter) {
		verdict = run_meter(skb, t, e->meter);
		if (verdict)
			return stop(t, verdict);
	}
	t->list.next = e->ops;
	t->list.end = e->ops + e->apply;
	return 0;
}

struct write {
	struct traversal *traversal;
	__u32 next;
};

static long write_one(__u32 i, struct write *write)
{
	struct traversal *t = write->traversal;
	__u32 place = write->next++;
	struct op *op = bpf_map_lookup_elem(&ops, &place);

	if (!op)
		return 1;
	t->set[op->slot & 63] = place;
	t->in_set |= 1ULL << (op->slot & 63);
	return 0;
}

/* Executes the instructions after the apply-actions. */
static __always_inline int rest_of_entry(struct __sk_buff *skb, struct traversal *t)
{
	__u32 place = t->entry;
	struct flow_entry *e = bpf_map_lookup_elem(&entries, &place);
	struct write write = { .traversal = t };

	if (!e)
		return stop(t, DROP_MISS);
	if (e->flags & ENTRY_CLEAR)
		t->in_set = 0;
	if (e->write) {
		write.next = e->ops + e->apply;
		bpf_loop(e->write, write_one, &write, 0);
	}
	if (e->flags & ENTRY_METADATA)
		t->frame.fields.metadata =
			(t->frame.fields.metadata & ~e->metadata_mask) | (e->metadata & e->metadata_mask);
	if (e->flags & ENTRY_GOTO)
		return enter(skb, t, e->next);
	if (!t->in_set)
		return 1;
	t->phase = PHASE_SET;
	t->slot = 0;
	return 0;
}

struct next_slot {
	__u64 in_set;
	__u32 slot;
};

static long next_in_set(__u32 i, struct next_slot *next)
{
	if (next->slot >= 64 || next->in_set >> (next->slot & 63) & 1)
		return 1;
	next->slot++;
	return 0;
}

/* Selects the next action of the set. Outputs are ignored if there is a group [5.10]. */
static __always_inline int rest_of_set(struct traversal *t)
{
	struct next_slot next = { .in_set = t->in_set, .slot = t->slot };
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

/* Continues after the end of a list of ops. Returns 1 when the packet is done. */
__noinline int advance(struct __sk_buff *skb, struct traversal *t)
{
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

/* If the action succeeded: later lookups no longer depend on the incoming fields only. Returns its verdict. */
static __always_inline int leave_if_done(struct traversal *t, int verdict)
{
	if (!verdict)
		leave_megaflow(&t->trail);
	return verdict;
}

/* OP_PATCH, OP_PROTO: a new type means other headers, so the packet is parsed again. */
static __always_inline int change_field(struct __sk_buff *skb, struct traversal *t)
{
	bool patched = t->op.kind == OP_PATCH;
	int verdict = patched ? patch(skb, &t->frame, &t->op) : set_ip(skb, &t->frame, &t->op);

	if (verdict)
		return verdict;
	if (!patched)
		return leave_if_done(t, changed(skb, &t->frame));
	if (t->op.base == BASE_TYPE || (t->op.base == BASE_ICMPV6 && !t->op.at))
		return leave_if_done(t, retype(skb, &t->frame));
	return 0;
}

/* Changes the packet. Returns 0, or the verdict. */
static __always_inline int change(struct __sk_buff *skb, struct traversal *t)
{
	struct frame *frame = &t->frame;
	struct op *op = &t->op;

	switch (op->kind) {
	case OP_PATCH:
	case OP_PROTO:
		return change_field(skb, t);
	case OP_DSCP:
	case OP_ECN:
		return set_ip(skb, frame, op);
	case OP_VLAN_VID:
	case OP_VLAN_PCP:
		return set_tag(skb, frame, op);
	case OP_PUSH_VLAN:
		return push_vlan(skb, frame, op->arg);
	case OP_POP_VLAN: /* without a tag there is nothing to pop: the packet continues, as in Open vSwitch */
		return skb->vlan_present ? leave_if_done(t, pop_vlan(skb, frame)) : 0;
	case OP_PUSH_MPLS:
		return push_mpls(skb, frame, op->arg, &t->head);
	case OP_POP_MPLS:
		return leave_if_done(t, pop_mpls(skb, frame, op->arg, &t->head));
	case OP_PUSH_PBB:
		return push_pbb(skb, frame, op->arg, &t->head);
	case OP_POP_PBB:
		return leave_if_done(t, pop_pbb(skb, frame, &t->head));
	case OP_MPLS_TTL:
	case OP_DEC_MPLS_TTL:
	case OP_NW_TTL:
	case OP_DEC_NW_TTL:
	case OP_COPY_TTL_OUT:
	case OP_COPY_TTL_IN:
		return change_ttl(skb, frame, op);
	case OP_INC_SEQ:
	case OP_INC_ACK:
	case OP_INC_SACK:
	case OP_INC_TSVAL:
	case OP_INC_TSECR:
	case OP_RESCALE_WINDOW:
	case OP_CLAMP_MSS:
	case OP_STRIP_OPTION:
		return change_tcp(skb, frame, op, &t->list, &t->tcp);
	}
	return 0;
}

/* Executes t->op. Returns 1 when the packet ends. */
__noinline int perform(struct __sk_buff *skb, struct traversal *t)
{
	__u32 reason, place;
	struct flow_entry *e;
	int verdict;

	if (!t)
		return 1;
	switch (t->op.kind) {
	case OP_OUTPUT:
		output(skb, &t->outcome, t->frame.fields.in_port, t->op.arg);
		return 0;
	case OP_IN_PORT:
		output_back(skb, &t->outcome, t->frame.fields.in_port);
		return 0;
	case OP_ALL:
		return output_all(skb, &t->outcome, t->frame.fields.in_port, 0);
	case OP_FLOOD:
		return output_all(skb, &t->outcome, t->frame.fields.in_port, PORT_NO_FLOOD);
	case OP_NORMAL:
		return output_normal(skb, &t->outcome, &t->frame.fields);
	case OP_TABLE:
		return copy_to(skb, t, NO_ENTRY);
	case OP_CONTROLLER:
		e = t->phase == PHASE_ENTRY ? bpf_map_lookup_elem(&entries, &t->entry) : NULL;
		reason = REASON_ACTION;
		place = t->list.next - 1; /* an op of a group is not one of the entry's own */
		if (e && e->flags & ENTRY_MISS && place >= e->ops && place < e->ops + e->apply)
			reason = REASON_NO_MATCH;
		return send_upcall(skb, t, t->op.arg, reason);
	case OP_GROUP:
		return run_group(skb, t, t->op.arg);
	case OP_BIND:
		return run_bind(skb, t);
	case OP_UNBIND:
		return run_unbind(skb, t);
	case OP_COUNT:
		account(&bucket_counts, t->op.arg, &t->weight);
		return 0;
	case OP_COPY:
		return copy_to(skb, t, t->op.arg);
	case OP_TUNNEL:
		__builtin_memcpy(&t->frame.fields.tunnel_id, t->op.value, 8);
		return 0;
	case OP_QUEUE:
		skb->priority = t->op.arg;
		return 0;
	}
	if (t->outcome.out)
		flush(skb, &t->outcome);
	verdict = change(skb, t);
	return verdict ? stop(t, verdict) : 0;
}

struct run {
	struct __sk_buff *skb;
	struct traversal *traversal;
};

static long step(__u32 i, struct run *run)
{
	struct traversal *t = run->traversal;
	struct op *op;
	__u32 place;
	int ends;

	if (t->list.next >= t->list.end) {
		ends = advance(run->skb, t);
	} else {
		place = t->list.next++;
		op = bpf_map_lookup_elem(&ops, &place);
		if (!op)
			return 1;
		t->op = *op;
		ends = perform(run->skb, t);
	}
	barrier_var(ends); /* hides from the compiler what the verifier does not know of the functions above */
	return ends ? 1 : 0;
}

static __always_inline void measure(struct __sk_buff *skb, const struct frame *frame, struct weight *w)
{
	__u32 header = frame->l4 + 8;
	__u8 doff;

	w->now = bpf_ktime_get_ns();
	if (skb->gso_size && frame->kind4 == L4_TCP && !bpf_skb_load_bytes(skb, frame->l4 + 12, &doff, 1))
		header = frame->l4 + (doff >> 4) * 4;
	weigh(skb, header, w);
}

static __always_inline void begin(struct traversal *t)
{
	t->outcome = (struct outcome){ .verdict = DROPPED };
	t->trail.learning = t->trail.at = t->trail.cached = 0;
	t->trail.megaflow.count = 0;
	t->depth = 0;
	t->in_set = 0;
	t->list.next = t->list.end = 0;
	t->entry = NO_ENTRY;
	t->table = 0;
}

/*
 * Runs the traversal to its end, and sends the packet. NORMAL may pass packets to the host's stack if they came by a port (from_port), but
 * not through the loop device.
 */
static __always_inline int finish(struct __sk_buff *skb, struct traversal *t, bool from_port)
{
	struct run run = { .skb = skb, .traversal = t };
	struct port *p = NULL;

	if (bpf_loop(MAX_STEPS, step, &run, 0) >= MAX_STEPS)
		stop(t, DROP_TOO_LONG);
	if (t->trail.learning)
		store_megaflow(&t->trail);
	if (t->outcome.stack && from_port) {
		flush(skb, &t->outcome);
		count(t->outcome.sent ? FORWARDED : TO_STACK);
		return LEAVE;
	}
	if (t->outcome.out) {
		p = usable(t->outcome.out);
		if (p)
			t->outcome.sent++;
		else if (t->outcome.verdict == DROPPED)
			t->outcome.verdict = DROP_NO_PORT;
	}
	if (t->outcome.sent)
		t->outcome.verdict = FORWARDED;
	count(t->outcome.verdict);
	return p ? bpf_redirect(p->ifindex, redirect_flags(p)) : TC_ACT_SHOT;
}

/* The loop device: a copy continues with its bucket or the tables, or user space sends a packet. */
static __always_inline int from_loop(struct __sk_buff *skb, struct traversal *t)
{
	__u32 zero = 0, place = skb->mark & (COPIES - 1), mark = skb->mark;
	struct packet_out *out = bpf_map_lookup_elem(&packet_outs, &zero);
	struct copy *c = bpf_map_lookup_elem(&copies, &place);
	struct bucket *b;
	struct copy was;

	if (!out || !c)
		return TC_ACT_SHOT;
	begin(t);
	t->cookie = ~0ULL;
	t->frame.fields.metadata = t->frame.fields.tunnel_id = 0;
	t->frame.fields.in_port = out->in_port;
	t->phase = PHASE_LIST;
	t->list.end = out->ops;
	if (mark) {
		was = *c;
		if (was.seq != mark) {
			count(DROP_COPY);
			return TC_ACT_SHOT;
		}
		skb->mark = 0;
		t->frame.fields.metadata = was.metadata;
		t->frame.fields.tunnel_id = was.tunnel_id;
		t->frame.fields.in_port = was.in_port;
		t->cookie = was.cookie;
		t->table = was.table;
		t->list.end = 0;
	}
	if (parse(skb, &t->frame)) {
		count(DROP_SHORT);
		return TC_ACT_SHOT;
	}
	measure(skb, &t->frame, &t->weight);
	if (mark && was.bucket == NO_ENTRY) {
		lookup_megaflow(&t->trail, &t->frame.fields);
		if (enter(skb, t, 0)) {
			count(t->outcome.verdict);
			return TC_ACT_SHOT;
		}
	} else if (mark) {
		b = bpf_map_lookup_elem(&buckets, &was.bucket);
		if (!b)
			return TC_ACT_SHOT;
		account(&bucket_counts, was.bucket, &t->weight);
		t->list.next = b->ops;
		t->list.end = b->ops + b->count;
	}
	return finish(skb, t, false);
}

SEC("tc")
int forwarder_ingress(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex, *place = bpf_map_lookup_elem(&port_of, &ifindex);
	struct pipeline *st = the_pipeline();
	struct traversal *t = traversal();
	struct port *p;
	int action;

	if (!t || !st)
		return LEAVE;
	if (!place) {
		/* One program for both: the functions that they share are verified once. */
		if (ifindex == st->loop)
			return from_loop(skb, t);
		count(NOT_A_PORT);
		return LEAVE;
	}
	p = bpf_map_lookup_elem(&ports, place);
	if (!p || p->flags & (PORT_NO_RECV | PORT_DOWN)) {
		count(DROP_PORT_RECV);
		return TC_ACT_SHOT;
	}
	if (st->bindings) {
		action = forward_microflow(skb, *place);
		if (action >= 0)
			return action;
	}
	begin(t);
	t->frame.fields.metadata = t->frame.fields.tunnel_id = 0;
	t->frame.fields.in_port = p->number;
	t->outcome.in = *place;
	if (parse(skb, &t->frame)) {
		count(DROP_SHORT);
		return TC_ACT_SHOT;
	}
	if (st->fragments && t->frame.fragment) {
		count(DROP_FRAG);
		return TC_ACT_SHOT;
	}
	measure(skb, &t->frame, &t->weight);
	lookup_megaflow(&t->trail, &t->frame.fields);
	if (enter(skb, t, 0)) {
		if (t->trail.learning)
			store_megaflow(&t->trail);
		count(t->outcome.verdict);
		return TC_ACT_SHOT;
	}
	return finish(skb, t, true);
}

/* Keeps the types in the object, for the generated Go types. */
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
const struct upcall *upcall_type __attribute__((unused));
const enum bind_limit *bind_limit_type __attribute__((unused));
const enum bind_method *bind_method_type __attribute__((unused));
const enum binding_state *binding_state_type __attribute__((unused));
const enum binding_flag *binding_flag_type __attribute__((unused));
const enum binding_active *binding_active_type __attribute__((unused));
const struct binding_key *binding_key_type __attribute__((unused));
const struct binding_reply_key *binding_reply_key_type __attribute__((unused));
const struct binding_reply *binding_reply_type __attribute__((unused));
const struct binding *binding_type __attribute__((unused));
const struct binding_remote_key *binding_remote_key_type __attribute__((unused));
const struct binding_remote *binding_remote_type __attribute__((unused));
const struct binder *binder_type __attribute__((unused));
const struct bind_seat *bind_seat_type __attribute__((unused));
