// Package sessions tracks the TCP sessions of the reactive mode by the packets that switches send to the controller: clients' sessions with a
// service, and the legs (pre-opened connections) of request routers to surrogates. It is pure: the caller gives the time, and locks.
//
// A session is known from its SYN on. Of each end it keeps the numbers and options that a handoff needs (equations 1 to 4 of Boros et al.,
// and what their prototype left out: timestamps, SACK, window scale). Packets of sessions that are older than the controller are not tracked.
package sessions
