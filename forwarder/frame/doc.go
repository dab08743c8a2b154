// Package frame restores frames from the kernel to their form on the wire, before they are sent to a controller. Its functions are pure.
//
// The kernel removes the outer VLAN tag ([InsertVLAN]), leaves checksums to the network card ([Complete]), and combines packets of a flow into
// one frame ([Segments]).
//
// Tunnels over UDP are not parsed: a GSO frame of a tunnel is treated as UDP.
package frame
