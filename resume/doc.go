// Package resume downloads files over HTTP and goes on after any break: a connection that is reset because the route to an anycast address
// has moved, a server that stalls, a mirror that is gone (Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks", WWW 2009).
// The bytes come in order, exactly once, and are those of one representation of the file, or there is an error.
//
// [Client.Download] writes a file; [Client.Open] gives the bytes as a stream; [Transport] is for programs that have an http.Client.
//
// What an answer means is decided by package part, when and where to try again by package retry, over how many connections by package
// width. This package has the connections.
package resume
