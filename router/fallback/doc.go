// Package fallback is the router's ordinary HTTP server: one Server answers one VIP on a TCP listener. It has three
// uses, which are one and the same code path:
//
//   - mode proxy: every request is proxied to a surrogate (the L7 proxy of Boros et al., section 5);
//   - mode redirect: every request is answered with the surrogate's own name (their HTTP redirection);
//   - mode handoff: the connections that the kernel could not splice arrive here with their first bytes and are
//     proxied; some carry a verdict that was reached earlier, see Verdicts.
//
// A client's bytes pass a guard before net/http sees them. It checks the framing of each request by RFC 9112, more
// strictly than net/http and as the router does ahead of a handoff (package head): what two parsers could read differently
// (Content-Length beside Transfer-Encoding, a repeated Content-Length, a bare CR or LF, NUL) is answered 400, the connection is closed, and no byte of it reaches a
// surrogate.
//
// Nothing waits for ever. The bounds, all in Timeouts:
//
//	head of a request          Head      408 once a byte of it has come, else the connection is closed
//	between requests           Idle      closed
//	connecting to a surrogate  Dial      next surrogate, else 504
//	first byte of a response   FirstByte next surrogate, else 504
//	body, either way           Stall     no byte for that long: 408 or 504 where possible, else the connection is closed
//	upgraded connections       Stall     no byte in either direction for that long: closed
//	the whole request          Total     0: no bound, since a download may take hours
//
// so a client waits at most Head + Attempts × (Dial + FirstByte) for the first byte of an answer, beyond the time that
// its own body takes.
//
// A client that shuts down its sending side while it waits counts as gone, as with other proxies: net/http cannot tell
// the two apart.
package fallback
