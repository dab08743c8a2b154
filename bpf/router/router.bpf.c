/* SPDX-License-Identifier: GPL-2.0-only OR BSD-2-Clause */
/*
 * The request router's data path, attached to the ingress of the interfaces towards clients and surrogates.
 * Each packet is parsed, its flow looked up, translated and sent. Without a flow, a packet to a VIP is from a new
 * client.
 */
#include "../wire/parse.h"
#include "client.h"
#include "command.h"
#include "icmp.h"
#include "move.h"
#include "newclient.h"
#include "server.h"
#include "strip.h"

char _license[] SEC("license") = "Dual BSD/GPL";

static __always_inline int tcp_packet(struct __sk_buff *skb, struct work *w)
{
	struct flow *flow = bpf_map_lookup_elem(&flows, &w->in.packet.key);
	__u32 side, idx, seq;
	int verdict;

	if (!flow && !to_vip(&w->in.packet, &w->deciding.routing))
		return PASS;
	if (w->in.packet.urgent || skb->vlan_present) {
		int err = strip(skb, &w->in.packet);

		if (err)
			return -err;
	}
	if (!flow)
		return new_client(skb, w);
	side = flow->side;
	idx = flow->splice;
	seq = flow->seq;
	if (side == SIDE_SERVER)
		return server_packet(skb, w, idx);
	switch (side) {
	case SIDE_CLIENT:
		verdict = client_packet(skb, w, idx);
		return verdict == BEGINS_REQUEST ? next_request(skb, w, idx) : verdict;
	case SIDE_LINGER:
	case SIDE_RESET:
		return lingering_client(skb, w, side, seq);
	case SIDE_LOCAL:
		return w->in.packet.flags & SYN ? syn_on_local(skb, w) : local_packet(skb, w);
	}
	return PASS;
}

/* The verdict on an untranslatable packet to a VIP. */
static __always_inline int unreadable(int parsed)
{
	switch (parsed) {
	case PARSED_FRAGMENT:
		return DROP_FRAGMENT;
	case PARSED_IP_OPTIONS:
		return DROP_IP_OPTIONS;
	case PARSED_IPV6_EXTENSION:
		return DROP_IPV6_EXTENSION;
	}
	return DROP_TRUNCATED;
}

SEC("tc")
int router_ingress(struct __sk_buff *skb)
{
	int verdict = PASS, parsed;
	struct work *w = work();

	if (!w)
		return TC_ACT_UNSPEC;
	w->out.action = TC_ACT_SHOT;
	parsed = parse(skb, &w->in.packet);
	switch (parsed) {
	case PARSED_TCP:
		verdict = tcp_packet(skb, w);
		break;
	case PARSED_ICMP:
		verdict = icmp_error(skb, w);
		break;
	case PARSED_OTHER:
		break;
	default:
		verdict = vip_of(&w->in.packet, 0, &w->deciding.routing.generation) ? unreadable(parsed) : PASS;
	}
	count(verdict);
	/* other packets go on to the next programs */
	return verdict == PASS || verdict == PASS_LOCAL ? TC_ACT_UNSPEC : w->out.action;
}

/* Not attached: run by user space with a struct splice_command. */
SEC("tc")
int router_command(struct __sk_buff *skb)
{
	struct splice_sweep sweep = {};
	struct work *w = work();

	if (!w || bpf_skb_load_bytes(skb, 0, &w->command, sizeof(w->command)))
		return TC_ACT_SHOT;
	sweep.command = &w->command;
	switch (w->command.kind) {
	case COMMAND_SWEEP:
	case COMMAND_ABANDON:
		bpf_loop(w->command.count, sweep_step, &sweep, 0);
		break;
	case COMMAND_SWEEP_ENDED:
		bpf_loop(w->command.count, ended_step, &sweep, 0);
		break;
	case COMMAND_FORGET_FLOWS:
	case COMMAND_FORGET_CLIENTS:
	case COMMAND_FORGET_SYN_OPTIONS:
	case COMMAND_FORGET_UPCALLS:
		forget_keys(skb, &w->command, &sweep);
		break;
	case COMMAND_DECIDE:
		sweep.changed = decide_upcall(skb, &w->decided);
		break;
	case COMMAND_COMPLETE:
		complete_legs(skb, &w->command, &sweep);
		break;
	case COMMAND_SEND:
		send_frames(skb, &w->out.fib, &w->command, &sweep);
		break;
	case COMMAND_COUNT_SOURCE:
		count_one(w->command.first, w->command.count);
		break;
	case COMMAND_RETIRE:
		retire(&w->command);
		sweep.changed = w->command.result;
		break;
	}
	w->command.result = sweep.changed;
	bpf_skb_store_bytes(skb, 0, &w->command, sizeof(w->command), 0);
	return TC_ACT_OK;
}

/*
 * Attached to the ingress of the tap: user space replays a packet after its decision. It re-enters its original
 * interface, where the decision is found.
 */
SEC("tc")
int router_replay(struct __sk_buff *skb)
{
	struct work *w = work();
	struct client *c;
	struct splice *s;
	struct flow *f;

	if (!w || parse(skb, &w->in.packet) != PARSED_TCP)
		return TC_ACT_SHOT;
	c = bpf_map_lookup_elem(&clients, &w->in.packet.key);
	if (c)
		return bpf_redirect(c->ifindex, BPF_F_INGRESS);
	/* an earlier segment has consumed the decision */
	f = bpf_map_lookup_elem(&flows, &w->in.packet.key);
	if (!f)
		return TC_ACT_SHOT;
	if (f->side == SIDE_LOCAL)
		return bpf_redirect(f->ifindex, BPF_F_INGRESS);
	s = f->side == SIDE_CLIENT ? splice_at(f->splice) : NULL;
	return s ? bpf_redirect(s->to_client.ifindex, BPF_F_INGRESS) : TC_ACT_SHOT;
}

/* Keeps types for the Go bindings in the object. */
const enum bound *bound_type __attribute__((unused));
const enum session_bound *session_bound_type __attribute__((unused));
const enum verdict *verdict_type __attribute__((unused));
const enum splice_state *splice_state_type __attribute__((unused));
const enum splice_flag *splice_flag_type __attribute__((unused));
const enum framing *framing_type __attribute__((unused));
const enum side *side_type __attribute__((unused));
const enum field_mark *field_mark_type __attribute__((unused));
const enum client_state *client_state_type __attribute__((unused));
const enum client_flag *client_flag_type __attribute__((unused));
const enum event_kind *event_kind_type __attribute__((unused));
const enum band *band_type __attribute__((unused));
const enum leg_end *leg_end_type __attribute__((unused));
const enum command_kind *command_kind_type __attribute__((unused));
const enum policy *policy_type __attribute__((unused));
const enum header *header_type __attribute__((unused));
const enum reuse *reuse_type __attribute__((unused));
const enum mode *mode_type __attribute__((unused));
const enum vip_flag *vip_flag_type __attribute__((unused));
const enum method *method_type __attribute__((unused));
const struct leg_event *leg_event_type __attribute__((unused));
const struct too_big_event *too_big_event_type __attribute__((unused));
const struct splice_command *splice_command_type __attribute__((unused));
const struct request_log *request_log_type __attribute__((unused));
const enum log_state *log_state_type __attribute__((unused));
const enum log_flag *log_flag_type __attribute__((unused));
const struct ended *ended_type __attribute__((unused));
