// Package upcall decides on the requests that the kernel leaves to user space. Packets of such clients come up through a tap; the
// decision is made by one snapshot (package state), and the packets go back for the kernel to splice them to a leg, or to a socket
// of this host. It only touches the world through Kernel, Legs and Tap, so that its tests are scripts of packets and times.
package upcall
