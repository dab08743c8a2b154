// Package forwarder is the kernel's side of the switch: its programs, and the memory of its tables.
package forwarder

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip llvm-strip-19 -target bpfel -no-global-types -type bound -type fields -type subtable -type listed -type table -type found -type entry_flag -type flow_entry -type counts -type op_kind -type op_base -type op_sum -type op -type slot -type group_kind -type group_head -type group -type bucket_flag -type bucket -type band -type meter -type port_flag -type port -type pipeline -type path -type packet_out -type punted -type verdict -type pick_bound -type pick_method -type pick_key -type pick_back_key -type pick_back -type pick_state -type pick_flag -type pick_active -type pick -type pick_remote_key -type pick_remote -type pick_seat -type picking forwarder ../../bpf/forwarder/forwarder.bpf.c -- -I../../bpf/include -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter

//go:generate go run ../names -type forwarderVerdict -in forwarder_bpfel.go -out verdict_names.go
