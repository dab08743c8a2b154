package lab

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// spawner is one thread that starts processes: all those of a host, which inherit what the thread has made its own, or
// those of the lab itself. A parent-death signal is sent when the parent's thread ends, not its process, and Go's other
// threads come and go.
type spawner struct {
	tid  int
	jobs chan func()
}

// newSpawner starts the thread and has it prepared, unless prepare is nil. The thread ends with close, or at once when
// prepare fails.
func newSpawner(prepare func() error) (*spawner, error) {
	s := &spawner{jobs: make(chan func())}
	ready := make(chan error)
	go s.run(prepare, ready)
	if err := <-ready; err != nil {
		return nil, err
	}
	return s, nil
}

func (s *spawner) run(prepare func() error, ready chan<- error) {
	runtime.LockOSThread() // never unlocked: the thread ends with this function
	s.tid = unix.Gettid()
	if s.tid == unix.Getpid() {
		// The main thread's namespaces are what others take for the process's. While it is held here, it is another
		// thread that is found.
		elsewhere := make(chan error)
		go s.run(prepare, elsewhere)
		ready <- <-elsewhere
		runtime.UnlockOSThread()
		return
	}
	if prepare != nil {
		if err := prepare(); err != nil {
			ready <- err
			return
		}
	}
	ready <- nil
	for job := range s.jobs {
		job()
	}
}

// do runs f on the spawner's thread and waits for it.
func (s *spawner) do(f func()) {
	done := make(chan struct{})
	s.jobs <- func() {
		defer close(done)
		f()
	}
	<-done
}

func (s *spawner) close() { close(s.jobs) }
