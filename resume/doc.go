// Package resume downloads files over HTTP and resumes after any break: a connection that is reset because the route to an anycast address
// has moved, a stalled server, a lost mirror (Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks", WWW 2009). The
// bytes arrive in order, exactly once, and belong to one representation of the file, or there is an error.
//
// [Client.Download] writes a file; [Client.Open] returns a stream; [Transport] is for programs with an http.Client.
//
// Package part interprets responses, package retry decides when and where to try again, and package width over how many connections. This
// package owns the connections.
package resume
