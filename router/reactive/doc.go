// Package reactive is the request router of a controller's reactive mode (Boros et al., sections 3.2 and 4.3). It has ordinary sockets: one on
// the service, and a pool of legs (pre-opened connections) to each surrogate. It reads a client's request, reports its size to the controller,
// sends it on the leg that the controller has chosen, and expects that the controller resets both of its sessions: from then on client and
// surrogate speak to each other.
//
// Whatever goes wrong before that, the router serves the session itself, as a proxy, and counts why.
package reactive
