package keeper

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"syscall"
	"time"

	"baton/document"
)

// Exec replaces this process by a program on a host of the lab, which sees it as the host's own processes do. It returns
// only when that is not possible. The lab's end kills the program.
func Exec(r Record, host string, command []string) error {
	h, err := r.host(host)
	if err != nil {
		return err
	}
	dir, _ := os.Getwd()   // where it was removed, / will do
	runtime.LockOSThread() // the thread becomes the program, or cannot be reused
	if err := h.Namespaces.Enter(); err != nil {
		return err
	}
	if dir != "" {
		_ = os.Chdir(dir)
	}
	program, err := exec.LookPath(command[0])
	if err != nil {
		return fmt.Errorf("on host %s: %w", host, err)
	}
	return fmt.Errorf("execute %s on host %s: %w", program, host, syscall.Exec(program, command, append(os.Environ(), h.Env...)))
}

func (r Record) host(name string) (Host, error) {
	if r.State != Up {
		return Host{}, fmt.Errorf("lab %s is %s", r.Name, r.State)
	}
	h, ok := r.Hosts[name]
	if !ok {
		return Host{}, &InvalidError{fmt.Sprintf("there is no host %q in lab %s (%s)", name, r.Name, document.Meant(name, slices.Sorted(maps.Keys(r.Hosts))))}
	}
	return h, nil
}

// Logs gives the processes of a host, or the one of that name.
func (r Record) Logs(host, process string) ([]Process, error) {
	h, err := r.host(host)
	if err != nil {
		return nil, err
	}
	if process == "" {
		return h.Processes, nil
	}
	for _, p := range h.Processes {
		if p.Name == process {
			return []Process{p}, nil
		}
	}
	names := make([]string, len(h.Processes))
	for i, p := range h.Processes {
		names[i] = p.Name
	}
	return nil, &InvalidError{fmt.Sprintf("host %s of lab %s has no process %q (%s)", host, r.Name, process, document.Meant(process, names))}
}

// CopyLog writes a process's log so far to w.
func CopyLog(w io.Writer, p Process) error {
	for _, path := range []string{p.Log + ".old", p.Log} {
		f, err := os.Open(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue // nothing was written yet, or nothing is too old
		}
		if err != nil {
			return fmt.Errorf("read log of %s: %w", p.Name, err)
		}
		_, err = io.Copy(w, f)
		f.Close()
		if err != nil {
			return fmt.Errorf("read log of %s: %w", p.Name, err)
		}
	}
	return nil
}

// followInterval is how long what a process writes may take to be seen.
const followInterval = 100 * time.Millisecond

// FollowLog writes a process's log to w as it grows, until the context ends or the lab does.
func FollowLog(ctx context.Context, w io.Writer, r Record, p Process) error {
	var f *os.File
	defer func() {
		if f != nil {
			f.Close()
		}
	}()
	tick := time.NewTicker(followInterval)
	defer tick.Stop()
	for {
		_, gone := os.Stat(r.Dir)
		if f == nil {
			f, _ = os.Open(p.Log) // not there before the first byte
		}
		if f != nil {
			open, _ := f.Stat()
			now, err := os.Stat(p.Log)
			renamed := err != nil || !os.SameFile(open, now)
			if _, err := io.Copy(w, f); err != nil {
				return fmt.Errorf("read log of %s: %w", p.Name, err)
			}
			if renamed {
				f.Close()
				f = nil
			}
		}
		if gone != nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}
