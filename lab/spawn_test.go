package lab

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

func init() { runtime.LockOSThread() } // TestMain runs on the main thread

// TestMain begins with what only the main thread can show: a spawner does not stay on it, as its namespaces are those
// that others see of the process.
func TestMain(m *testing.M) {
	s, ready := &spawner{jobs: make(chan func())}, make(chan error, 1)
	s.run(nil, ready)
	if err := <-ready; err != nil || s.tid == unix.Getpid() || unix.Gettid() != unix.Getpid() {
		fmt.Fprintf(os.Stderr, "spawner on thread %d of process %d: %v\n", s.tid, unix.Getpid(), err)
		os.Exit(1)
	}
	s.do(func() {
		if unix.Gettid() != s.tid {
			fmt.Fprintf(os.Stderr, "a job on thread %d, not on the spawner's %d\n", unix.Gettid(), s.tid)
			os.Exit(1)
		}
	})
	s.close()
	os.Exit(m.Run())
}
