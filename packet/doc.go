// Package packet reads and writes the headers Baton meets, as views over the caller's bytes.
//
// A view ([Ethernet], [IPv4], [IPv6], [TCP], [ICMP]) is the slice itself with methods: nothing is copied, and a setter
// changes the packet. A view is only as safe as the slice that it is made from, so frames off the wire go through
// [Parse], which checks every length before it hands out a view; only the option walker ([Options.All]) needs no such
// care. Numbers go in and out in host byte order; addresses are netip values. [Build] and [BuildICMP] compose frames,
// [Segment] cuts a large one as a network card would. The package does no I/O and keeps no state.
//
// Frames are Ethernet without a VLAN tag: Linux strips the tag before a tc program sees the packet.
package packet
