// Package worker runs flows: one event loop on a thread of its own, with listeners, connections, pipes and file descriptors that no
// other worker shares. Nothing on a flow's way takes a lock, blocks, or goes through the Go runtime's poller.
//
// A worker's methods that are exported may be called from any goroutine: they leave a command in the worker's inbox. All else belongs to
// the worker's thread. That thread has a table of file descriptors of its own (unshare(2), CLONE_FILES): numbers of the process's other
// descriptors mean nothing there, so that only the raw calls of sys.go are made, on descriptors that the worker has opened itself.
//
// Two things run on goroutines of their own, and come back by the inbox: the resolver, and the handshakes of trunks of TLS (package
// secure), of which each worker lets one compute at a time.
package worker
