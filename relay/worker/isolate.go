package worker

import (
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// isolate gives the thread its own table of file descriptors. It keeps the standard ones, the inbox, those of SYNs and listeners, and
// those of the Go runtime's poller: any thread may poll the runtime's sockets at the end of a garbage collection.
func (w *Worker) isolate() error {
	if err := startRuntimePoller(); err != nil {
		return err
	}
	if err := unix.Unshare(unix.CLONE_FILES); err != nil {
		return fmt.Errorf("unshare the file descriptors: %w", err)
	}
	const own = "/proc/thread-self/fd"
	folder, err := unix.Open(own, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("list the file descriptors: %w", err)
	}
	defer unix.Close(folder)
	var names []string
	for b := make([]byte, 16<<10); ; {
		n, err := unix.ReadDirent(folder, b)
		if err != nil {
			return fmt.Errorf("list the file descriptors: %w", err)
		}
		if n == 0 {
			break
		}
		_, _, names = unix.ParseDirent(b[:n], -1, names)
	}
	for _, name := range names {
		fd, err := strconv.Atoi(name)
		if err != nil || fd <= 2 || fd == w.inbox.fd || w.borrows(fd) || fd == folder || polls(own+"/"+name) {
			continue
		}
		unix.Close(fd)
	}
	return nil
}

// borrows reports whether a descriptor is one that the worker was given.
func (w *Worker) borrows(fd int) bool {
	return w.o.SYNs != nil && fd == w.o.SYNs.FD || w.o.Listeners != nil && fd == w.o.Listeners.FD
}

// polls reports whether a descriptor is an epoll instance or an eventfd.
func polls(path string) bool {
	b := make([]byte, 64)
	n, err := unix.Readlink(path, b)
	if err != nil {
		return false
	}
	switch string(b[:n]) {
	case "anon_inode:[eventpoll]", "anon_inode:[eventfd]":
		return true
	}
	return false
}

// startRuntimePoller makes the runtime create its descriptors before they are copied.
func startRuntimePoller() error {
	r, w, err := os.Pipe() // a pollable file
	if err != nil {
		return fmt.Errorf("start the runtime's poller: %w", err)
	}
	r.Close()
	w.Close()
	return nil
}
