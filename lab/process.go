package lab

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Program is what to start on a host. The process shares the machine's files, but for /sys and some of /etc, and has a
// PID namespace of its own. Being PID 1 there, it does not die of signals that it has no handler for, other than
// SIGKILL; when it dies, its descendants do too.
type Program struct {
	Path  string // or a name to be found on the PATH
	Args  []string
	Env   []string // added to the lab's own
	Dir   string   // default: the owner's
	Stdin io.Reader
	Files []*os.File // become descriptors 3, 4, …; the caller's to close

	Name     string // of the process and its log; default: that of the program
	Unlogged bool   // its output is a result rather than a log: no file is written
}

// Process is a started Program. Its output is kept: the last few MiB in memory, for its owner, and in a file that
// others may follow. It is killed with the lab.
type Process struct {
	host   *Host
	name   string
	cmd    *exec.Cmd
	pidns  uint64
	stdout logBuffer
	stderr logBuffer
	both   logBuffer
	file   *logFile // nil when it is unlogged

	done chan struct{} // closed when err is set
	err  error
}

// Start starts a program on the host.
func (h *Host) Start(p Program) (*Process, error) {
	q := &Process{host: h, name: p.Name, cmd: exec.Command(p.Path, p.Args...), done: make(chan struct{})}
	if q.name == "" {
		q.name = filepath.Base(p.Path)
	}
	if strings.Contains(q.name, "/") {
		return nil, fmt.Errorf("start %s on %s: the name %q has a slash", p.Path, h.name, q.name)
	}
	// The host's thread has a working directory of its own, which does not follow the owner's.
	var err error
	if q.cmd.Dir, err = filepath.Abs(p.Dir); err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", p.Path, h.name, err)
	}
	q.cmd.Env = append(q.cmd.Environ(), p.Env...)
	q.cmd.Stdin = p.Stdin
	q.cmd.ExtraFiles = p.Files
	q.cmd.WaitDelay = 5 * time.Second // for a Stdin that never ends
	q.cmd.SysProcAttr = &syscall.SysProcAttr{
		Pdeathsig:  syscall.SIGKILL,
		Cloneflags: syscall.CLONE_NEWPID,
		Setpgid:    true, // a Ctrl-C for the lab's owner is not for its processes
	}

	h.lab.mu.Lock()
	defer h.lab.mu.Unlock()
	if h.lab.closed {
		return nil, fmt.Errorf("start %s: the lab is closed", p.Path)
	}
	both := io.Writer(&q.both)
	if !p.Unlogged {
		q.file = &logFile{path: h.logPath(q.name)}
		both = io.MultiWriter(both, q.file)
	}
	q.cmd.Stdout = io.MultiWriter(&q.stdout, both)
	q.cmd.Stderr = io.MultiWriter(&q.stderr, both)
	h.spawn.do(func() { err = q.cmd.Start() })
	if err != nil {
		return nil, fmt.Errorf("start %s on %s: %w", p.Path, h.name, err)
	}
	q.pidns, _ = inode(fmt.Sprintf("/proc/%d/ns/pid", q.cmd.Process.Pid)) // 0 when it has ended already
	h.lab.processes = append(h.lab.processes, q)
	go q.wait()
	return q, nil
}

func (p *Process) wait() {
	p.err = p.cmd.Wait()
	if p.file != nil {
		p.file.close()
	}
	close(p.done)
	l := p.host.lab
	l.mu.Lock()
	defer l.mu.Unlock()
	// A lab that runs ten thousand short programs keeps no more of them than their failures' logs.
	if !l.closed && p.err == nil {
		for i, q := range l.processes {
			if q == p {
				l.processes = append(l.processes[:i:i], l.processes[i+1:]...)
				return
			}
		}
	}
}

// logPath is where the next process of that name on the host has its log. The lab's lock is held.
func (h *Host) logPath(name string) string {
	h.logs[name]++
	if n := h.logs[name]; n > 1 {
		name = fmt.Sprintf("%s-%d", name, n)
	}
	return filepath.Join(h.lab.LogDir(), h.name, name+".log")
}

// LogDir holds the logs of the processes, <host>/<name>.log, or <name>-2.log for the second of a name. They go with the
// lab; those of an owner that was killed, with the next lab on the machine or Sweep.
func (l *Lab) LogDir() string { return filepath.Join(l.dir, "logs") }

// LogFile is the path of the process's log, which is there once something was written to it, with what is too old for
// it in LogFile.old; empty for an unlogged process.
func (p *Process) LogFile() string {
	if p.file == nil {
		return ""
	}
	return p.file.path
}

// Name is the name of the process in logs.
func (p *Process) Name() string { return p.name }

// Pid is the process's number outside its PID namespace.
func (p *Process) Pid() int { return p.cmd.Process.Pid }

// Host is where the process runs.
func (p *Process) Host() *Host { return p.host }

// Stdout returns what the process has written to its standard output so far.
func (p *Process) Stdout() string { return p.stdout.String() }

// Stderr returns what the process has written to its standard error so far.
func (p *Process) Stderr() string { return p.stderr.String() }

// Log returns both outputs so far, as they came.
func (p *Process) Log() string { return p.both.String() }

func (p *Process) tail(n int) string {
	text := p.both.String()
	if len(text) > n {
		text = "…" + text[len(text)-n:]
	}
	return text
}

// Done is closed when the process has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Wait waits for the end of the process and returns nil for exit status 0, an *exec.ExitError for another, or the
// context's error.
func (p *Process) Wait(ctx context.Context) error {
	select {
	case <-p.done:
		return p.err
	case <-ctx.Done():
		return fmt.Errorf("wait for %s: %w", p.name, ctx.Err())
	}
}

// Signal sends a signal to the process, not to its descendants.
func (p *Process) Signal(s syscall.Signal) error { return p.cmd.Process.Signal(s) }

// Stop asks the process to end (SIGTERM), kills it after the grace period, and returns when it has ended.
func (p *Process) Stop(grace time.Duration) error {
	_ = p.Signal(syscall.SIGTERM) // it may have ended
	select {
	case <-p.done:
		return nil
	case <-time.After(grace):
		return p.Kill()
	}
}

// Kill kills the process and its descendants and returns when they have ended.
func (p *Process) Kill() error {
	_ = p.Signal(syscall.SIGKILL) // it may have ended
	select {
	case <-p.done:
		return nil
	case <-time.After(10 * time.Second):
		return fmt.Errorf("kill %s (pid %d) on %s: it does not end", p.name, p.Pid(), p.host.name)
	}
}

// CPU returns the processor time, user and system, that the process and its living descendants have used. Work that
// the kernel does for them in interrupts is not in it.
func (p *Process) CPU() (time.Duration, error) {
	pids := processesIn("pid", p.pidns)
	if len(pids) == 0 {
		return 0, fmt.Errorf("cpu time of %s: it has ended", p.name)
	}
	ticks := 0
	for _, pid := range pids {
		fields, err := statFields(pid)
		if err != nil {
			continue // a descendant that has just ended
		}
		for _, f := range fields[11:15] { // utime, stime and those of reaped children
			n, err := strconv.Atoi(f)
			if err != nil {
				return 0, fmt.Errorf("cpu time of %s: %w", p.name, err)
			}
			ticks += n
		}
	}
	return time.Duration(ticks) * Tick, nil
}

// Tick is the unit of processor time in /proc (USER_HZ is 100 on every architecture that matters here).
const Tick = 10 * time.Millisecond

// Exec runs a program on the host to its end and returns its standard output. The error of a failed one carries its
// standard error; errors.As finds the *exec.ExitError.
func (h *Host) Exec(ctx context.Context, name string, args ...string) (string, error) {
	p, err := h.Start(Program{Path: name, Args: args, Unlogged: true})
	if err != nil {
		return "", err
	}
	if err := p.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			_ = p.Kill()
		}
		return p.Stdout(), fmt.Errorf("%s on %s: %w: %s", name, h.name, err, bytes.TrimSpace([]byte(p.Stderr())))
	}
	return p.Stdout(), nil
}

// ExitCode returns the exit status in an error of Wait or Exec; -1 for a process that a signal ended or that was
// not started.
func ExitCode(err error) int {
	if err == nil {
		return 0
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return exit.ExitCode()
	}
	return -1
}
