// Package datapath is the only one that speaks to the kernel's BPF: it loads and attaches the programs of bpf/, keeps their
// state pinned so that sessions outlive the process, and gives each map a typed face.
//
// The pure values (Config, VIP, Pool, ...) become kernel state only through a method of Router.
package datapath
