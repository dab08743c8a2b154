// Package worker runs flows. A worker is one event loop on its own thread, and shares no listeners, connections, pipes or file descriptors
// with other workers. The path of a flow takes no lock, does not block, and bypasses the Go runtime's poller.
//
// Exported methods of a worker may be called from any goroutine: they post a command to its inbox. Everything else runs on the worker's
// thread. This thread has its own table of file descriptors (unshare(2), CLONE_FILES), where other descriptors of the process are invalid.
// So it makes only the raw calls of sys.go, on descriptors that it opened itself.
//
// The resolver and TLS handshakes of trunks (package secure) run on goroutines of their own and report through the inbox. Each worker lets
// one handshake compute at a time.
package worker
