// Package fallback is the router's ordinary HTTP server: one Server serves one VIP on a TCP listener. It has three uses with
// the same code path:
//
//   - mode proxy: every request is proxied to a surrogate (the L7 proxy of Boros et al., section 5);
//   - mode redirect: every request is redirected to the surrogate's own name (their HTTP redirection);
//   - mode handoff: connections that the kernel cannot splice arrive here with their first bytes and are proxied; some
//     have a verdict already, see Verdicts.
//
// A guard checks the client's bytes before net/http gets them. It checks the framing of each request by RFC 9112, more
// strictly than net/http and as the router does before a handoff (package head): anything that two parsers could read
// differently (Content-Length with Transfer-Encoding, a repeated Content-Length, a bare CR or LF, NUL) is answered with 400
// and closes the connection, and no byte of it reaches a surrogate.
//
// Every wait is bounded. The limits, all in Timeouts:
//
//	head of a request          Head      408 after its first byte, else the connection is closed
//	between requests           Idle      closed
//	connecting to a surrogate  Dial      next surrogate, else 504
//	first byte of a response   FirstByte next surrogate, else 504
//	body, either direction     Stall     no byte for that long: 408 or 504 where possible, else the connection is closed
//	upgraded connections       Stall     no byte in either direction for that long: closed
//	the whole request          Total     0: no limit, since a download may take hours
//
// So a client waits at most Head + Attempts × (Dial + FirstByte) for the first byte of a response, plus the time for its
// own body.
//
// A client that half-closes while it waits counts as gone, as with other proxies: net/http cannot distinguish the two.
package fallback
