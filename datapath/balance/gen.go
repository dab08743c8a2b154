// Package balance is the kernel's side of rules by application: it marks the sockets of control groups.
package balance

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip ../strip.sh -target bpfel -no-global-types application ../../bpf/balance/application.bpf.c -- -I../../bpf/include -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter
