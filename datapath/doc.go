// Package datapath is what the programs of bpf/ have in common in user space: to load, pin and attach them, and to find what the kernel can
// do. Each program has a package of its own below; together they are the only ones that speak to the kernel's BPF.
package datapath
