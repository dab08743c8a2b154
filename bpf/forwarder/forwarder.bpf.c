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
	struct work *w = work();
	struct entry *e;
	struct table *t;
	__u32 place;
	int verdict;

	if (!w)
		return 1;
	w->table = number;
	w->phase = PHASE_ENTRY;
	w->entry = place = meet(w);
	e = bpf_map_lookup_elem(&entries, &place);
	if (!e) {
		t = bpf_map_lookup_elem(&tables, &number);
		if (t)
			__sync_fetch_and_add(&t->missed, w->packets);
		return stop(w, DROP_MISS);
	}
	account(&entry_counts, e->counts, w);
	w->cookie = e->cookie;
	if (e->meter) {
		verdict = run_meter(skb, e->meter);
		if (verdict)
			return stop(w, verdict);
	}
	w->list.next = e->ops;
	w->list.end = e->ops + e->apply;
	return 0;
}

struct write {
	__u32 next;
};

static long write_one(__u32 i, struct write *write)
{
	struct work *w = work();
	__u32 place = write->next++;
	struct op *op = bpf_map_lookup_elem(&ops, &place);

	if (!w || !op)
		return 1;
	w->set[op->slot & 63] = place;
	w->in_set |= 1ULL << (op->slot & 63);
	return 0;
}

/* What comes after an entry's apply-actions. */
static __always_inline int rest_of_entry(struct __sk_buff *skb, struct work *w)
{
	__u32 place = w->entry;
	struct entry *e = bpf_map_lookup_elem(&entries, &place);
	struct write write;

	if (!e)
		return stop(w, DROP_MISS);
	if (e->flags & ENTRY_CLEAR)
		w->in_set = 0;
	if (e->write) {
		write.next = e->ops + e->apply;
		bpf_loop(e->write, write_one, &write, 0);
	}
	if (e->flags & ENTRY_METADATA)
		w->fields.metadata = (w->fields.metadata & ~e->metadata_mask) | (e->metadata & e->metadata_mask);
	if (e->flags & ENTRY_GOTO)
		return enter(skb, e->next);
	if (!w->in_set)
		return 1;
	w->phase = PHASE_SET;
	w->slot = 0;
	return 0;
}

struct scan {
	__u32 slot;
};

static long next_slot(__u32 i, struct scan *scan)
{
	struct work *w = work();

	if (!w || scan->slot >= 64 || w->in_set >> (scan->slot & 63) & 1)
		return 1;
	scan->slot++;
	return 0;
}

/* The next action of the set. An output does nothing where there is a group [5.10]. */
static __always_inline int rest_of_set(struct work *w)
{
	struct scan scan = { .slot = w->slot };
	__u32 place;

	if (w->in_set == 1ULL << SLOT_OUTPUT && !w->slot)
		scan.slot = SLOT_OUTPUT;
	else
		bpf_loop(64, next_slot, &scan, 0);
	if (scan.slot >= 64 || (scan.slot == SLOT_OUTPUT && w->in_set >> SLOT_GROUP & 1))
		return 1;
	place = w->set[scan.slot & 63];
	w->list.next = place;
	w->list.end = place + 1;
	w->slot = scan.slot + 1;
	return 0;
}

/* The list of ops has ended. Returns 1 when there is nothing more to do. */
__noinline int advance(struct __sk_buff *skb)
{
	struct work *w = work();

	if (!w)
		return 1;
	if (w->depth) {
		w->depth--;
		w->list = w->outer[w->depth & (MAX_NESTED - 1)];
		return 0;
	}
	switch (w->phase) {
	case PHASE_ENTRY:
		return rest_of_entry(skb, w);
	case PHASE_SET:
		return rest_of_set(w);
	}
	return 1;
}

static __always_inline int change(struct __sk_buff *skb, struct work *w)
{
	int verdict;

	switch (w->op.kind) {
	case OP_PATCH:
		verdict = patch(skb);
		if (!verdict && (w->op.base == BASE_TYPE || (w->op.base == BASE_ICMPV6 && !w->op.at)))
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

/* Executes w->op. Returns 1 when the packet ends. */
__noinline int perform(struct __sk_buff *skb)
{
	struct pipeline *st = the_pipeline();
	struct work *w = work();
	__u32 reason, place;
	struct entry *e;
	int verdict;

	if (!w || !st)
		return 1;
	switch (w->op.kind) {
	case OP_OUTPUT:
		output(skb, w, w->op.arg);
		return 0;
	case OP_IN_PORT:
		output_back(skb, w);
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
		e = w->phase == PHASE_ENTRY ? bpf_map_lookup_elem(&entries, &w->entry) : NULL;
		reason = REASON_ACTION;
		place = w->list.next - 1; /* of a group, it is not among the entry's own */
		if (e && e->flags & ENTRY_MISS && place >= e->ops && place < e->ops + e->apply)
			reason = REASON_NO_MATCH;
		return punt(skb, w->op.arg, reason);
	case OP_GROUP:
		return run_group(skb, w->op.arg);
	case OP_PICK:
		return run_pick(skb);
	case OP_UNPICK:
		return run_unpick(skb);
	case OP_COUNT:
		account(&bucket_counts, w->op.arg, w);
		return 0;
	case OP_COPY:
		return copy_to(skb, w->op.arg);
	case OP_TUNNEL:
		__builtin_memcpy(&w->fields.tunnel_id, w->op.value, 8);
		return 0;
	case OP_QUEUE:
		skb->priority = w->op.arg;
		return 0;
	}
	if (w->out)
		flush(skb);
	verdict = change(skb, w);
	if (!verdict)
		return 0;
	if (verdict == DROP_INVALID_TTL && st->punt)
		punt(skb, st->punt, REASON_INVALID_TTL);
	return stop(w, verdict);
}

struct run {
	struct __sk_buff *skb;
};

static long step(__u32 i, struct run *run)
{
	struct work *w = work();
	struct op *op;
	__u32 place;
	int ends;

	if (!w)
		return 1;
	if (w->list.next >= w->list.end) {
		ends = advance(run->skb);
	} else {
		place = w->list.next++;
		op = bpf_map_lookup_elem(&ops, &place);
		if (!op)
			return 1;
		w->op = *op;
		ends = perform(run->skb);
	}
	barrier_var(ends); /* the verifier does not know what the compiler knows of the functions above */
	return ends ? 1 : 0;
}

static __always_inline void measure(struct __sk_buff *skb, struct work *w)
{
	__u32 header = w->l4 + 8;
	__u8 doff;

	w->now = bpf_ktime_get_ns();
	if (skb->gso_size && w->kind4 == L4_TCP && !bpf_skb_load_bytes(skb, w->l4 + 12, &doff, 1))
		header = w->l4 + (doff >> 4) * 4;
	weigh(skb, header, &w->packets, &w->bytes);
}

static __always_inline void begin(struct work *w)
{
	w->depth = w->out = w->sent = w->stack = w->learning = w->at = w->cached = 0;
	w->path.count = 0;
	w->in_set = 0;
	w->list.next = w->list.end = 0;
	w->entry = NO_ENTRY;
	w->table = 0;
	w->in = 0;
	w->verdict = DROPPED;
}

/*
 * Goes through the steps from here, and sends the packet on its way. The host's stack takes what has come by a port (from_port), not what is on
 * its way through the loop device.
 */
static __always_inline int finish(struct __sk_buff *skb, struct work *w, bool from_port)
{
	struct run run = { .skb = skb };
	struct port *p = NULL;

	if (bpf_loop(MAX_STEPS, step, &run, 0) >= MAX_STEPS)
		stop(w, DROP_TOO_LONG);
	if (w->learning)
		remember();
	if (w->stack && from_port) {
		flush(skb);
		count(w->sent ? FORWARDED : TO_STACK);
		return LEAVE;
	}
	if (w->out) {
		p = usable(w->out);
		if (p)
			w->sent++;
		else if (w->verdict == DROPPED)
			w->verdict = DROP_NO_PORT;
	}
	if (w->sent)
		w->verdict = FORWARDED;
	count(w->verdict);
	return p ? bpf_redirect(p->ifindex, way_out(p)) : TC_ACT_SHOT;
}

SEC("tc")
int forwarder_ingress(struct __sk_buff *skb)
{
	__u32 ifindex = skb->ifindex, *place = bpf_map_lookup_elem(&port_of, &ifindex);
	struct pipeline *st = the_pipeline();
	struct work *w = work();
	struct port *p;
	int action;

	if (!w || !st || !place) {
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
	begin(w);
	w->fields.metadata = w->fields.tunnel_id = 0;
	w->fields.in_port = p->number;
	w->in = *place;
	if (parse(skb)) {
		count(DROP_SHORT);
		return TC_ACT_SHOT;
	}
	if (st->fragments && w->fragment) {
		count(DROP_FRAG);
		return TC_ACT_SHOT;
	}
	measure(skb, w);
	recall();
	if (enter(skb, 0)) {
		if (w->learning)
			remember();
		count(w->verdict);
		return TC_ACT_SHOT;
	}
	return finish(skb, w, true);
}

/* A copy comes back for its bucket or for the tables, or user space sends a packet of its own. */
SEC("tc")
int forwarder_loop(struct __sk_buff *skb)
{
	__u32 zero = 0, place = skb->mark & (COPIES - 1), mark = skb->mark;
	struct packet_out *out = bpf_map_lookup_elem(&packet_outs, &zero);
	struct copy *c = bpf_map_lookup_elem(&copies, &place);
	struct work *w = work();
	struct bucket *b;
	struct copy was;

	if (!w || !out || !c)
		return TC_ACT_SHOT;
	begin(w);
	w->cookie = ~0ULL;
	w->fields.metadata = w->fields.tunnel_id = 0;
	w->fields.in_port = out->in_port;
	w->phase = PHASE_LIST;
	w->list.end = out->ops;
	if (mark) {
		was = *c;
		if (was.turn != mark) {
			count(DROP_COPY);
			return TC_ACT_SHOT;
		}
		skb->mark = 0;
		w->fields.metadata = was.metadata;
		w->fields.tunnel_id = was.tunnel_id;
		w->fields.in_port = was.in_port;
		w->cookie = was.cookie;
		w->table = was.table;
		w->list.end = 0;
	}
	if (parse(skb)) {
		count(DROP_SHORT);
		return TC_ACT_SHOT;
	}
	measure(skb, w);
	if (mark && was.bucket == NO_ENTRY) {
		recall();
		if (enter(skb, 0)) {
			count(w->verdict);
			return TC_ACT_SHOT;
		}
	} else if (mark) {
		b = bpf_map_lookup_elem(&buckets, &was.bucket);
		if (!b)
			return TC_ACT_SHOT;
		account(&bucket_counts, was.bucket, w);
		w->list.next = b->ops;
		w->list.end = b->ops + b->count;
	}
	return finish(skb, w, false);
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
