// Package relay is the relay's data path in the kernel. It reports SYNs early, steers packets to the listeners, and sets the initial
// windows of trunks.
package relay

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip ../strip.sh -target bpfel -no-global-types -type bound -type verdict -type tuple -type prefix_key -type early_kind -type entry -type listen_key -type syn_state -type syn -type refused -type event_kind -type syn_event -type held_event -type syn_key -type command_kind -type syn_command -type replay_kind -type replay_result -type trunk_kind -type trunk_key -type trunk -type trunk_counts relay ../../bpf/relay/relay.bpf.c -- -I../../bpf/include -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter

//go:generate go run ../names -type relayVerdict -in relay_bpfel.go -out verdict_names.go
