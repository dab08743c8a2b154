package emulator

import (
	"fmt"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// direction carries the frames of one direction on a thread of its own.
type direction struct {
	from, to int // TAP devices
	wake     int // eventfd: the line was changed, or the direction is to end
	ended    chan struct{}
	pool     pool
	scratch  []byte
	wakeup   int64 // how long the thread takes to wake (nanoseconds): the median of late

	mu   sync.Mutex // held by the thread but while it waits
	line *line
	stop bool
}

func newDirection(from, to int, s Shape) (*direction, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	d := &direction{from: from, to: to, wake: wake, ended: make(chan struct{})}
	d.scratch = make([]byte, largeBuffer)
	d.line = newLine(s, &d.pool)
	return d, nil
}

// change runs f on the line between two of the thread's turns.
func (d *direction) change(f func(now int64, l *line)) {
	d.mu.Lock()
	f(now(), d.line)
	d.mu.Unlock()
	d.signal()
}

func (d *direction) signal() {
	one := [8]byte{1}
	_, _ = unix.Write(d.wake, one[:]) // full: the thread is awake
}

func (d *direction) close() {
	d.mu.Lock()
	d.stop = true
	d.mu.Unlock()
	d.signal()
	<-d.ended
	unix.Close(d.wake)
}

// batch bounds how many frames are taken before those that are due go out.
const batch = 32

func (d *direction) run() {
	defer close(d.ended)
	runtime.LockOSThread() // for the thread's scheduling; it ends with the goroutine
	precise()
	poll := []unix.PollFd{{Fd: int32(d.from), Events: unix.POLLIN}, {Fd: int32(d.wake), Events: unix.POLLIN}}
	d.mu.Lock()
	defer d.mu.Unlock()
	for arrived := now(); !d.stop; {
		taken := d.take(arrived)
		d.line.deliver(now(), d.send)
		arrived = now()
		if taken == batch {
			continue
		}
		var timeout *unix.Timespec
		due, any := d.line.next()
		if any {
			wait := due - arrived - d.wakeup
			if wait <= 0 {
				continue // awake, and soon on time
			}
			t := unix.NsecToTimespec(wait)
			timeout = &t
		}
		began := arrived
		d.mu.Unlock()
		n, err := unix.Ppoll(poll, timeout, nil)
		d.mu.Lock()
		if err != nil && err != unix.EINTR {
			return
		}
		arrived = now()
		if n == 0 && err == nil {
			d.learn(arrived - due + d.wakeup)
		} else {
			// The frame came before the thread was awake.
			arrived = max(began, arrived-d.wakeup)
		}
		if poll[1].Revents != 0 {
			var count [8]byte
			_, _ = unix.Read(d.wake, count[:])
		}
	}
}

// learn moves wakeup towards the median of how late (nanoseconds) the thread was woken.
func (d *direction) learn(late int64) {
	const step, most = int64(time.Microsecond), int64(100 * time.Microsecond)
	if late > d.wakeup {
		d.wakeup = min(d.wakeup+step, most)
	} else {
		d.wakeup = max(d.wakeup-step, 0)
	}
}

// take reads the frames that wait, up to a batch, and returns how many there were. The first came at that time.
func (d *direction) take(arrived int64) int {
	for i := range batch {
		n, err := unix.Read(d.from, d.scratch)
		if err != nil || n <= vnetLen {
			return i // EAGAIN; EIO while the device is down
		}
		var frame []byte
		if n <= smallBuffer {
			frame = d.pool.get(n)[:n]
			copy(frame, d.scratch)
		} else {
			frame = d.scratch[:n]
			d.scratch = d.pool.get(largeBuffer)
		}
		d.line.arrive(arrived, frame)
		arrived = now()
	}
	return batch
}

func (d *direction) send(frame []byte) {
	for {
		_, err := unix.Write(d.to, frame)
		switch err {
		case nil, unix.EIO: // EIO: the far end is administratively down, and loses what comes
			return
		case unix.EINTR:
		default:
			d.line.counts.Overrun++
			return
		}
	}
}

// now is the time of the lines: CLOCK_MONOTONIC in nanoseconds.
func now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // cannot fail
	return t.Nano()
}

// The processor time that a direction may count on: so much (nanoseconds) of each period, and what nobody else has
// reserved. A busy one takes more.
const (
	reserved = uint64(200 * time.Microsecond)
	period   = uint64(time.Millisecond)
)

// precise lets the thread wake when it asks for it: without the 50 µs of slack that timers have, and before all threads
// that have no deadline. (A fixed priority would not do: Linux keeps a share of time for the ordinary ones beside it, up to
// 50 ms at once.) Where that cannot be had, for too many links or without the right, a high ordinary priority must do.
func precise() {
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	deadline := unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: unix.SCHED_DEADLINE, Flags: unix.SCHED_FLAG_RESET_ON_FORK | unix.SCHED_FLAG_RECLAIM,
		Runtime: reserved, Deadline: period, Period: period,
	}
	if unix.SchedSetAttr(0, &deadline, 0) != nil {
		_ = unix.Setpriority(unix.PRIO_PROCESS, 0, -20)
	}
}
