// Package sockmap has the kernel copy between pairs of sockets.
package sockmap

//go:generate go run github.com/cilium/ebpf/cmd/bpf2go -cc clang-19 -strip ../strip.sh -target bpfel -no-global-types sockmap ../../bpf/sockmap/sockmap.bpf.c -- -I../../bpf/include -mcpu=v3 -Wall -Wextra -Werror -Wno-unused-parameter
