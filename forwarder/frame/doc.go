// Package frame makes frames whole between the kernel and a controller, as pure functions over bytes.
//
// The kernel hands over less than what is on a wire: it takes an outer VLAN tag out of a frame ([InsertVLAN] puts it back), it
// leaves checksums to the card ([Complete]), and it carries many packets of one flow as one frame ([Segments]).
//
// Tunnels over UDP are not looked into: a frame that stands for several packets of a tunnel is taken for UDP.
package frame
