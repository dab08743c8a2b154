// Package kerneltest is what tests of kernel programs have in common: namespaces of their own, root, and randomness that can be repeated.
package kerneltest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// insideEnv is set for the process that runs the tests.
const insideEnv = "BATON_KERNEL_TEST_INSIDE"

// Main runs the tests of a package in a process with network and mount namespaces of its own, and a BPF file system: whatever they make
// (links, routes, mounts, pins) is gone with the process, however that ends. prepare is called in it first. Without root the tests run
// where they are, to say what they miss.
func Main(m *testing.M, prepare func() error) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	if os.Getenv(insideEnv) == "" {
		os.Exit(inside())
	}
	err := mount()
	if err == nil {
		err = prepare()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prepare the namespaces:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func inside() int {
	runtime.LockOSThread() // Pdeathsig is of the thread
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.Env = append(os.Environ(), insideEnv+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: unix.CLONE_NEWNET | unix.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		return max(exit.ExitCode(), 1)
	case err != nil:
		fmt.Fprintln(os.Stderr, "run the tests in namespaces of their own:", err)
		return 1
	}
	return 0
}

func mount() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	return unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700")
}

// Need skips a test that needs root, and fails it where nothing may be skipped.
func Need(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	Skip(t, "BPF needs root (CAP_BPF, CAP_NET_ADMIN)")
}

// Skip skips a test whose host lacks something, and fails it where nothing may be skipped.
func Skip(t testing.TB, why string) {
	t.Helper()
	why = "ring 3 (kernel programs): " + why
	if os.Getenv("CI") == "true" || os.Getenv("BATON_RINGS") == "all" {
		t.Fatalf("%s is required here", why)
	}
	t.Skipf("SKIP %s", why)
}

// Rounds returns how often a test repeats something random: n times, a quarter of that with -short, as in guests.
func Rounds(n int) int {
	if testing.Short() {
		return n / 4
	}
	return n
}

// Rand returns a generator whose seed is in the test's log; BATON_SEED has it repeat a run.
func Rand(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("BATON_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}
