// Package quic is the router's slow path for VIPs of protocol quic. The kernel sends it the datagrams of clients that have no surrogate.
// It holds a client's first flight until its hello can be read (package flight), has a surrogate chosen, makes the session in the kernel, and
// replays the datagrams, which the kernel then translates like all that follow.
//
// Datagrams of connections whose client has another address than before find their surrogate by connection id: one that the kernel has
// learnt, or one that names its server (packet/quic.Layout). They get a session of their own. So a surrogate sees that the address has changed, and
// validates it, as QUIC asks (RFC 9000 section 9): the router could not do that for it.
package quic
