// Package router is the request router: it reads a client's request, chooses a surrogate and splices the session to it (Boros et
// al. 2019, section 3). The kernel decides what it can by the tables that this package fills. Everything else comes up through a
// tap, unacknowledged: the router decides and replays the packets, or assigns the connection to an ordinary socket.
package router
