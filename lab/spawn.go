package lab

import "runtime"

// spawner is one thread that starts all processes of a lab. A parent-death signal is sent when the parent's thread
// ends, not its process, and Go's other threads come and go.
type spawner struct {
	jobs chan func()
}

func newSpawner() *spawner {
	s := &spawner{jobs: make(chan func())}
	go s.run()
	return s
}

func (s *spawner) run() {
	runtime.LockOSThread() // never unlocked: the thread ends with close
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
