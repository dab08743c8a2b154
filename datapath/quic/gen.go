// Package quic is the kernel side of the request router's VIPs for QUIC: it loads and attaches the programs, pins their state so that
// connections outlive the process, and wraps each map in Go types.
package quic

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip ../strip.sh -target bpfel -no-global-types -type tuple -type quic_flow -type quic_session -type quic_id -type quic_server -type quic_address -type quic_vip -type quic_config -type quic_identity -type quic_path -type bound -type verdict -type side -type session_state -type session_flag -type server_flag quic ../../bpf/quic/quic.bpf.c -- -I../../bpf/include -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter

//go:generate go run ../names -type quicVerdict -in quic_bpfel.go -out verdict_names.go
