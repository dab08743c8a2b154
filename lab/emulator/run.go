package emulator

import (
	"fmt"
	"math"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// direction carries the frames of one direction on a thread of its own.
type direction struct {
	from, to int // TAP devices
	wake     int // eventfd: the line was changed
	pool     pool
	scratch  []byte
	wakeup   int64 // how long the thread takes to wake (nanoseconds): the median of late

	mu   sync.Mutex // held by the thread in each of its steps
	line *line
}

func newDirection(from, to int, s Shape) (*direction, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("eventfd: %w", err)
	}
	d := &direction{from: from, to: to, wake: wake}
	d.scratch = make([]byte, largeBuffer)
	d.line = newLine(s, &d.pool)
	return d, nil
}

// change runs f on the line between two of the thread's steps.
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

// batch bounds how many frames are taken before those that are due go out.
const batch = 32

// run carries frames until the process ends.
func (d *direction) run() {
	runtime.LockOSThread() // for the thread's scheduling
	precise()
	poll := []unix.PollFd{{Fd: int32(d.from), Events: unix.POLLIN}, {Fd: int32(d.wake), Events: unix.POLLIN}}
	for arrived := now(); ; {
		next := d.step(arrived)
		arrived = now()
		if next <= arrived+d.wakeup {
			continue // there is more to do, or will be as soon as the thread would be awake again
		}
		var timeout *unix.Timespec
		if next != never {
			t := unix.NsecToTimespec(next - arrived - d.wakeup)
			timeout = &t
		}
		began := arrived
		n, err := unix.Ppoll(poll, timeout, nil)
		arrived = now()
		switch {
		case n == 0 && err == nil:
			d.learn(arrived - next + d.wakeup)
		case poll[1].Revents != 0:
			var count [8]byte
			_, _ = unix.Read(d.wake, count[:])
		default:
			// The frame came before the thread was awake.
			arrived = max(began, arrived-d.wakeup)
		}
	}
}

const never = math.MaxInt64

// step takes what has arrived since that time and delivers what is due. It returns when something will be due: at once, if more may have
// arrived than it took.
func (d *direction) step(arrived int64) (next int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	taken := d.take(arrived)
	d.line.deliver(now(), d.send)
	if taken == batch {
		return 0
	}
	if due, any := d.line.next(); any {
		return due
	}
	return never
}

// learn moves wakeup towards the median of how late (nanoseconds) the thread was woken. Machines differ by a hundred times
// in that, and one machine does from a busy second to an idle one.
func (d *direction) learn(late int64) {
	const most = int64(time.Millisecond) // the thread does nothing for so long before a frame is due
	step := int64(time.Microsecond) + d.wakeup/16
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
