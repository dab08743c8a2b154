package keeper

import (
	"fmt"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab"
)

// patience is how long a keeper may take to take its lab down.
const patience = 30 * time.Second

// Stop has the keeper take its lab down and returns when it has ended. A keeper that does not is killed, and what it leaves
// is swept.
func Stop(r Record) error {
	fd, err := unix.PidfdOpen(r.PID, 0)
	switch {
	case err == unix.ESRCH:
		return nil
	case err != nil:
		return fmt.Errorf("stop lab %s: open process %d: %w", r.Name, r.PID, err)
	}
	defer unix.Close(fd)
	mine := func(f lab.Folder) bool { return f.Alive && f.Path == filepath.Dir(r.Dir) }
	if !slices.ContainsFunc(lab.Folders(), mine) {
		return nil // it has ended meanwhile, and the number may be another process's
	}
	for _, s := range []syscall.Signal{syscall.SIGTERM, syscall.SIGKILL} {
		if err := unix.PidfdSendSignal(fd, s, nil, 0); err != nil && err != unix.ESRCH {
			return fmt.Errorf("stop lab %s: signal process %d: %w", r.Name, r.PID, err)
		}
		if ended(fd, patience) {
			return nil
		}
	}
	return fmt.Errorf("stop lab %s: its keeper, process %d, does not end", r.Name, r.PID)
}

// ended waits for the end of a process.
func ended(pidfd int, timeout time.Duration) bool {
	for deadline := time.Now().Add(timeout); ; {
		left := max(time.Until(deadline), 0)
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(pidfd), Events: unix.POLLIN}}, int(left.Milliseconds()))
		if n > 0 || err != nil && err != unix.EINTR {
			return n > 0
		}
		if left == 0 {
			return false
		}
	}
}
