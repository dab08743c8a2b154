// Package guest boots virtual machines with other kernels than this machine's: kernels and root of Debian's archive, by QEMU.
//
//	g, err := guest.Boot(ctx, host, guest.Spec{Kernel: "6.12"})
//	…
//	result, err := g.Run(ctx, guest.Command{Script: "uname -r"})
//
// QEMU runs as a process of a lab's host, so it ends with the lab, also if the owner is killed. The guest's network cards are TAP devices of
// any of the lab's hosts: a bridge there joins guests, and a link leads on to namespaces of this machine. A guest has a kernel, a clock, a
// cookie secret and a conntrack table of its own.
//
// Roots and kernels are made once and kept in a cache (see [Cache]); guests write to copies that end with them. By default QEMU interprets
// the guest's instructions (TCG), 10 to 20 times slower than this machine: guests show what is correct, never what is fast.
package guest
