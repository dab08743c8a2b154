// Package forwarder is the kernel's side of the switch: its programs, and the memory of its tables.
package forwarder

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip ../strip.sh -target bpfel -no-global-types -type bound -type fields -type subtable -type listed -type table -type rule -type entry_flag -type flow_entry -type counts -type op_kind -type op_base -type op_sum -type op -type slot -type group_kind -type group_head -type group -type bucket_flag -type bucket -type band -type meter -type port_flag -type port -type pipeline -type megaflow -type packet_out -type upcall -type verdict -type bind_limit -type bind_method -type binding_key -type binding_reply_key -type binding_reply -type binding_state -type binding_flag -type binding_active -type binding -type binding_remote_key -type binding_remote -type bind_seat -type binder forwarder ../../bpf/forwarder/forwarder.bpf.c -- -I../../bpf/include -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter

//go:generate go run ../names -type forwarderVerdict -in forwarder_bpfel.go -out verdict_names.go
