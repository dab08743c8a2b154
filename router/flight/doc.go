// Package flight gathers the first flights of QUIC clients: the datagrams that a client sends before a server answers (RFC 9000
// section 7.1). They hold its client hello, in any order and in any pieces, and the router cannot choose a surrogate before it has
// the whole of it. Until then the datagrams are held; then they are handed out as they came, with the hello.
//
// It is a state machine without clock or sockets. What it holds is bounded for each client, each prefix of sources and altogether,
// and whatever the server could read otherwise than it does is refused. A hello that fits into one datagram is never held, and so
// needs no room.
//
// Only datagrams of clients that have no surrogate belong here: what a client repeats later would begin a flight of its own.
package flight
