// Package purge is the kernel's side of the purge: it marks connections whose client does not respond.
package purge

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip ../strip.sh -target bpfel -no-global-types -type bound -type verdict -type tuple -type prefix_key -type policy -type expiry -type mark_kind -type mark -type answer_kind -type question -type inquiry purge ../../bpf/purge/purge.bpf.c -- -I../../bpf/include -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter

//go:generate go run ../names -type purgeVerdict -in purge_bpfel.go -out verdict_names.go
