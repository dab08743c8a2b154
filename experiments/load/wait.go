package load

import (
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// waitEvents is epoll_pwait2(2), whose timeout is not rounded up to a millisecond as that of epoll_wait is.
func waitEvents(epoll int, events []unix.EpollEvent, timeout time.Duration) (int, error) {
	ts := unix.NsecToTimespec(int64(max(timeout, 0)))
	n, _, errno := unix.Syscall6(unix.SYS_EPOLL_PWAIT2, uintptr(epoll), uintptr(unsafe.Pointer(&events[0])), uintptr(len(events)),
		uintptr(unsafe.Pointer(&ts)), 0, 0)
	switch errno {
	case 0:
		return int(n), nil
	case unix.EINTR:
		return 0, nil
	}
	return 0, errno
}

// preciseTimers makes the kernel wake this thread when it asked to be woken, and not up to 50 µs later for the sake of
// saved interrupts (timer slack). It returns what undoes that. The goroutine must be locked to the thread.
func preciseTimers() (undo func()) {
	const (
		leastSlack   = 1 // ns
		defaultSlack = 0
	)
	// Without it the run is less exact, which its Lag tells.
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, leastSlack, 0, 0, 0)
	return func() { _ = unix.Prctl(unix.PR_SET_TIMERSLACK, defaultSlack, 0, 0, 0) }
}
