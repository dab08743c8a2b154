// Package handoff is the reactive mode of a controller: it passes the packets of clients' sessions and of request routers' legs, and joins a
// session to a leg by the seven flow mods of Boros et al. (figure 6), so that client and surrogate speak to each other without the router.
//
// Between the access switch and the core forwarder a joined session's packets have the addresses of client and surrogate, as in the paper, and
// a source MAC of their own that names the handoff: a session that the same client opens to the surrogate itself is not taken for it.
//
// Until the surrogate has acknowledged the whole request a handoff can be undone: the request router still has both of its sockets and serves
// the client as a proxy. The router's sessions are reset only then.
package handoff
