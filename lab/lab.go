package lab

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"baton/lab/emulator"
)

// T is what a lab needs of a test: testing.TB has it, and Run supplies its own.
type T interface {
	Helper()
	Logf(format string, args ...any)
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
	Skipf(format string, args ...any)
	Failed() bool
	Cleanup(func())
}

// Lab owns hosts, processes and files until Close, which New and Run call.
type Lab struct {
	t      T
	prefix string // of every name that the lab leaves in the system
	dir    string

	spawn *spawner

	mu        sync.Mutex
	hosts     []*Host
	processes []*Process
	closers   []func() // captures, wires, mounts; run in reverse order once the processes are gone
	bpffs     string
	emulator  *emulator.Emulator // nil before the first emulated link
	foreign   bool
	closed    bool
}

var sequence atomic.Int64

// New builds an empty lab which is torn down and checked for leaks when the test ends. Without root it skips the
// test, unless CI=true or BATON_RINGS=all demand it: then it fails.
func New(t T) *Lab {
	t.Helper()
	NeedRoot(t)
	l, err := open(t)
	if err != nil {
		t.Fatalf("lab: %v", err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			l.dumpLogs()
		}
		if err := l.Close(); err != nil {
			t.Errorf("lab: close: %v", err)
		}
	})
	return l
}

// Run builds an empty lab, calls f and tears the lab down. A builder that fails within f ends f, and Run returns
// its error. Progress and, after a failure, the logs of the processes go to out.
func Run(out io.Writer, f func(*Lab) error) (err error) {
	if err := usable(); err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	t := &outside{out: out}
	l, err := open(t)
	if err != nil {
		return fmt.Errorf("lab: %w", err)
	}
	defer func() {
		if v := recover(); v != nil {
			stop, ours := v.(abort)
			if !ours {
				_ = l.Close() // the panic matters more
				panic(v)
			}
			err = stop.err
		}
		if err != nil {
			l.dumpLogs()
		}
		for _, clean := range t.cleanups {
			defer clean()
		}
		err = errors.Join(err, l.Close())
	}()
	return f(l)
}

// NeedRoot skips a test that will use Run where namespaces cannot be made; New does so by itself.
func NeedRoot(t T) {
	t.Helper()
	if err := usable(); err != nil {
		if Required() {
			t.Fatalf("ring 4 (lab) is required here: %v", err)
		}
		t.Skipf("SKIP ring 4 (lab): %v", err)
	}
}

// Required reports whether a ring that cannot run must count as a failure.
func Required() bool {
	return os.Getenv("CI") == "true" || os.Getenv("BATON_RINGS") == "all"
}

func usable() error {
	if os.Geteuid() != 0 {
		return errors.New("network namespaces need root (CAP_SYS_ADMIN, CAP_NET_ADMIN)")
	}
	return nil
}

// makeFolder makes a lab's folder, whose parent goes with the last lab: another process may remove it at any moment.
func makeFolder(path string) (err error) {
	for range 10_000 { // a few microseconds each
		err = os.MkdirAll(path, 0o755)
		if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return err
}

func open(t T) (*Lab, error) {
	if _, err := Sweep(); err != nil {
		return nil, err
	}
	self, err := selfOwner()
	if err != nil {
		return nil, err
	}
	l := &Lab{t: t, prefix: fmt.Sprintf("%s%d", self.prefix(), sequence.Add(1))}
	l.dir = filepath.Join(stateRoot(), l.prefix)
	if err := makeFolder(l.dir); err != nil {
		return nil, fmt.Errorf("make the lab's folder: %w", err)
	}
	if err := shareFolder(l.dir); err != nil {
		_ = os.Remove(l.dir)
		return nil, err
	}
	l.spawn, _ = newSpawner(nil)
	return l, nil
}

// Prefix begins every name that this lab gives to something the system can see.
func (l *Lab) Prefix() string { return l.prefix }

// Dir is the lab's folder, readable by every user and removed with the lab.
func (l *Lab) Dir() string { return l.dir }

// Logf reports progress where the lab's owner looks for it.
func (l *Lab) Logf(format string, args ...any) { l.t.Helper(); l.t.Logf(format, args...) }

// T is the test, or what stands for it in Run: for packages that build on a lab and fail as it does.
func (l *Lab) T() T { return l.t }

// Need skips the test when one of the programs is not installed, or fails it where no ring may be skipped.
func (l *Lab) Need(programs ...string) {
	l.t.Helper()
	for _, p := range programs {
		if _, err := exec.LookPath(p); err == nil {
			continue
		}
		if Required() {
			l.t.Fatalf("lab: %s is required here and not installed: run make deps", p)
		}
		l.t.Skipf("SKIP ring 4 (lab): %s is not installed: run make deps", p)
	}
}

// BPFFS returns the path of a BPF file system of this lab's own, mounted at first use and unmounted, with every pin
// in it, at Close.
func (l *Lab) BPFFS() string {
	l.t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.bpffs != "" {
		return l.bpffs
	}
	path := filepath.Join(l.dir, "bpf")
	if err := os.MkdirAll(path, 0o700); err != nil {
		l.t.Fatalf("lab: bpffs: %v", err)
	}
	if err := unix.Mount("bpffs", path, "bpf", 0, ""); err != nil {
		l.t.Fatalf("lab: mount bpffs on %s: %v", path, err)
	}
	l.bpffs = path
	return path
}

func (l *Lab) onClose(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closers = append(l.closers, f)
}

// Close kills the processes, removes everything the lab made, and returns what it could not remove. Later calls do
// nothing.
func (l *Lab) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	processes, closers, hosts := l.processes, l.closers, l.hosts
	l.mu.Unlock()

	var errs []error
	for i := len(processes) - 1; i >= 0; i-- {
		if err := processes[i].Kill(); err != nil {
			errs = append(errs, err)
		}
	}
	for i := len(closers) - 1; i >= 0; i-- {
		closers[i]()
	}
	l.spawn.close()
	if l.foreign {
		errs = append(errs, killForeign(hosts))
	}
	for _, h := range hosts {
		if err := h.remove(); err != nil {
			errs = append(errs, err)
		}
	}
	if _, _, err := removeState(l.dir); err != nil {
		errs = append(errs, err)
	}
	errs = append(errs, l.leaks(hosts)...)
	return errors.Join(errs...)
}

func (l *Lab) dumpLogs() {
	l.mu.Lock()
	processes := l.processes
	l.mu.Unlock()
	for _, p := range processes {
		if text := p.tail(4 << 10); text != "" {
			l.t.Logf("--- log of %s on %s\n%s", p.name, p.host.name, text)
		}
	}
}

// outside stands in for a test in Run.
type outside struct {
	out      io.Writer
	cleanups []func()
	failed   bool
}

type abort struct{ err error }

func (o *outside) Helper() {}
func (o *outside) Logf(format string, args ...any) {
	fmt.Fprintf(o.out, format+"\n", args...)
}
func (o *outside) Fatalf(format string, args ...any) {
	o.failed = true
	panic(abort{fmt.Errorf(format, args...)})
}
func (o *outside) Errorf(format string, args ...any) { o.failed = true; o.Logf(format, args...) }
func (o *outside) Skipf(format string, args ...any)  { o.Fatalf(format, args...) }
func (o *outside) Failed() bool                      { return o.failed }
func (o *outside) Cleanup(f func())                  { o.cleanups = append(o.cleanups, f) }
