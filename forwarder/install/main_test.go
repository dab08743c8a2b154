package install

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

// insideEnv is set for the process that runs the tests, in namespaces of its own: what the tests make there is gone with it.
const insideEnv = "BATON_INSTALL_TEST_INSIDE"

func TestMain(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	if os.Getenv(insideEnv) == "" {
		os.Exit(inside())
	}
	if err := prepare(); err != nil {
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

func prepare() error {
	if err := unix.Mount("none", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return err
	}
	if err := unix.Mount("bpf", "/sys/fs/bpf", "bpf", 0, "mode=0700"); err != nil {
		return err
	}
	for _, who := range []string{"all", "default"} { // nobody but the tests is to send anything
		_ = os.WriteFile("/proc/sys/net/ipv6/conf/"+who+"/disable_ipv6", []byte("1"), 0o644) // a kernel without IPv6 has no such file
	}
	return nil
}

// needKernel skips a test that needs root, and fails it where nothing may be skipped.
func needKernel(t testing.TB) {
	t.Helper()
	if os.Geteuid() == 0 {
		return
	}
	const why = "ring 3 (kernel programs): BPF needs root (CAP_BPF, CAP_NET_ADMIN)"
	if os.Getenv("CI") == "true" || os.Getenv("BATON_RINGS") == "all" {
		t.Fatalf("%s is required here", why)
	}
	t.Skipf("SKIP %s", why)
}

// newRand returns a generator whose seed is in the test's log; BATON_SEED has it repeat a run.
func newRand(t testing.TB) *rand.Rand {
	t.Helper()
	seed, err := strconv.ParseUint(os.Getenv("BATON_SEED"), 10, 64)
	if err != nil {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 0))
}

func ip(t testing.TB, args ...string) {
	t.Helper()
	if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
		t.Fatalf("ip %v: %v: %s", args, err, out)
	}
}
