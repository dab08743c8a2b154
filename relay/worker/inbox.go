package worker

import (
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sys/unix"
)

// inbox holds the commands of other goroutines. Its descriptor is open under the same number in their table and in the worker's.
type inbox struct {
	fd int

	mu       sync.Mutex
	commands []func(*Worker)
	over     bool // no more commands are accepted

	closed bool // owned by the worker: Close was called
}

func (i *inbox) open() error {
	fd, err := unix.Eventfd(0, unix.EFD_NONBLOCK|unix.EFD_CLOEXEC)
	if err != nil {
		return fmt.Errorf("eventfd: %w", err)
	}
	i.fd = fd
	return nil
}

// close is called when the worker's thread has ended.
func (i *inbox) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.fd >= 0 {
		unix.Close(i.fd)
		i.fd = -1
	}
}

// ErrClosed means that the worker has ended.
var ErrClosed = errors.New("the worker has ended")

// post queues a command for the worker's thread.
func (w *Worker) post(do func(*Worker)) error {
	i := &w.inbox
	i.mu.Lock()
	defer i.mu.Unlock() // after the write: once closed, the number may be reused
	if i.over {
		return ErrClosed
	}
	i.commands = append(i.commands, do)
	if len(i.commands) == 1 {
		one := [8]byte{1}
		_, _ = unix.Write(i.fd, one[:]) // EAGAIN: it is awake
	}
	return nil
}

// ask runs a function on the worker's thread and waits for it.
func (w *Worker) ask(do func(*Worker) error) error {
	done := make(chan error, 1)
	if err := w.post(func(w *Worker) { done <- do(w) }); err != nil {
		return err
	}
	return <-done
}

// refuse rejects further commands and runs the remaining ones.
func (i *inbox) refuse(w *Worker) {
	i.mu.Lock()
	i.over = true
	i.mu.Unlock()
	i.ready(w, 0)
}

func (i *inbox) ready(w *Worker, _ uint32) {
	var count [8]byte
	_, _ = read(int32(i.fd), count[:])
	i.mu.Lock()
	commands := i.commands
	i.commands = nil
	i.mu.Unlock()
	for _, do := range commands {
		do(w)
	}
}
