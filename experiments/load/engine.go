package load

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// readSize is how much is read at once (bytes): much of a bulk download, many times a small response.
const readSize = 256 << 10

type engine struct {
	Options
	epoll     int
	sources   []unix.Sockaddr
	under     []Underway // from each of the sources
	requests  [][]byte   // of the Files
	slots     []slot
	buffer    []byte
	opened    int // connections so far: the turn of targets and sources
	begun     int64
	busy      int // slots with a request under way
	began     time.Time
	result    Result
	nextSweep time.Duration

	arrivals *arrivals // nil: closed loop
	kept     []*slot   // open loop: without a request; those that had a connection when they ended one …
	empty    []*slot   // … and those that had none

	think   gap
	pausing pauses
}

// slot is one of the connections that are open at the same time.
type slot struct {
	number     int
	fd         int
	generation int32 // tells events of this connection from those of the slot's last one
	connecting bool
	busy       bool
	file       int
	source     int           // that the connection is from
	pending    []byte        // of the request, still to be written
	due        time.Duration // when the request should begin, since the run began: its times count from there
	dialled    time.Duration
	connected  time.Duration
	asked      time.Duration // before the first write of the request; 0: not yet
	last       time.Duration // when something came
	first      time.Duration // when the response began
	wake       time.Duration // when its pause ends
	followed   bool
	served     int64 // responses on this connection
	response   response
}

func newEngine(o Options, worker int) (*engine, error) {
	e := &engine{Options: o, buffer: make([]byte, readSize), slots: make([]slot, o.Connections), opened: worker}
	for _, s := range o.Sources {
		e.sources = append(e.sources, sockaddr(netip.AddrPortFrom(s, 0)))
	}
	e.under = make([]Underway, max(len(o.Sources), 1))
	for _, f := range o.Files {
		e.requests = append(e.requests, fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: baton-load\r\n\r\n", f.Path, o.Host))
	}
	for i := range e.slots {
		e.slots[i].number = i
	}
	e.result = newResult()
	random := rand.New(rand.NewPCG(o.Seed, uint64(worker)))
	e.think = gap{o.Think, o.Even, random}
	if o.Arrivals > 0 {
		e.arrivals = &arrivals{left: o.Requests, until: o.Duration, patience: o.Timeout,
			gap: gap{time.Duration(float64(o.Workers) / o.Arrivals * float64(time.Second)), o.Even, random}}
		e.arrivals.next = e.arrivals.draw()
		if o.Even { // the workers take turns
			e.arrivals.next = e.arrivals.mean * time.Duration(worker) / time.Duration(o.Workers)
		}
	}
	var err error
	if e.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return nil, fmt.Errorf("epoll: %w", err)
	}
	return e, nil
}

func (e *engine) close() {
	for i := range e.slots {
		if e.slots[i].fd > 0 {
			unix.Close(e.slots[i].fd)
		}
	}
	unix.Close(e.epoll)
}

func (e *engine) now() time.Duration { return time.Since(e.began) }

func (e *engine) run() (Result, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	defer preciseTimers()()
	e.began = time.Now()
	e.start()
	events := make([]unix.EpollEvent, 256)
	for e.busy > 0 || len(e.pausing) > 0 && e.begun < e.Requests || e.arrivals != nil && !e.arrivals.over(e.now()) {
		n, err := waitEvents(e.epoll, events, e.patience())
		if err != nil {
			return Result{}, fmt.Errorf("epoll: %w", err)
		}
		for _, ev := range events[:n] {
			s := &e.slots[ev.Fd]
			if s.generation == ev.Pad && s.fd > 0 {
				e.handle(s, ev.Events)
			}
		}
		e.beginDue()
		e.sweep()
	}
	e.result.Elapsed = e.now()
	if e.arrivals != nil {
		e.result.Late, e.result.Missed = e.arrivals.late, e.arrivals.missed
	}
	return e.result, nil
}

// start has every slot wait for its first request, or begin it.
func (e *engine) start() {
	for i := range e.slots {
		s := &e.slots[i]
		switch {
		case e.arrivals != nil:
			e.empty = append(e.empty, s)
		case e.Think > 0 && e.Even: // as if all had been thinking for long
			e.pause(s, e.Think*time.Duration(i)/time.Duration(len(e.slots)))
		case e.Think > 0:
			e.pause(s, e.think.draw())
		default:
			e.next(s)
		}
	}
}

// longestWait bounds how late the sweep comes.
const longestWait = 100 * time.Millisecond

// patience is how long the engine may wait for events.
func (e *engine) patience() time.Duration {
	wake := e.pausing.wake()
	if e.arrivals != nil && e.free() { // else an event, or the sweep, must free a slot first
		wake = min(wake, e.arrivals.wake())
	}
	if wake == never {
		return longestWait
	}
	return min(wake-e.now(), longestWait)
}

func (e *engine) free() bool { return len(e.kept)+len(e.empty) > 0 }

// beginDue begins the requests whose time has come.
func (e *engine) beginDue() {
	for len(e.pausing) > 0 && e.pausing[0].wake <= e.now() {
		e.next(heap.Pop(&e.pausing).(*slot))
	}
	if e.arrivals == nil {
		return
	}
	for {
		due, ok := e.arrivals.take(e.now(), e.free())
		if !ok {
			return
		}
		from := &e.kept // first: open connections are there to be used
		if len(*from) == 0 {
			from = &e.empty
		}
		last := len(*from) - 1
		s := (*from)[last]
		*from = (*from)[:last]
		record(e.result.Lag, e.now()-due)
		if !e.begin(s, due) {
			e.empty = append(e.empty, s)
		}
	}
}

// end ends the slot's request and lets it wait for the next one, or begin it.
func (e *engine) end(s *slot) {
	s.busy = false
	e.busy--
	switch {
	case e.arrivals != nil && s.fd > 0:
		e.kept = append(e.kept, s)
	case e.arrivals != nil:
		e.empty = append(e.empty, s)
	case e.Think > 0:
		e.pause(s, e.now()+e.think.draw())
	default:
		e.next(s)
	}
}

func (e *engine) pause(s *slot, until time.Duration) {
	s.wake = min(until, e.Duration)
	heap.Push(&e.pausing, s)
}

// next begins the slot's next request, unless the run is over.
func (e *engine) next(s *slot) {
	// Errors that come at once (no route, no port) must not keep the loop from its end.
	for e.begun < e.Requests && e.now() < e.Duration {
		due := e.now()
		if e.Think > 0 {
			due = s.wake
		}
		if e.begin(s, due) {
			return
		}
		if e.Think > 0 {
			e.pause(s, e.now()+e.think.draw())
			return
		}
	}
	e.shut(s)
}

// begin sends the slot's next request, or starts to connect for it, and reports whether that could be done.
func (e *engine) begin(s *slot, due time.Duration) bool {
	s.file = int(e.begun % int64(len(e.Files)))
	e.begun++
	s.followed, s.asked, s.first = false, 0, 0
	s.due = due
	s.last = e.now()
	if s.fd <= 0 {
		if err := e.open(s, e.Targets[e.opened%len(e.Targets)]); err != nil {
			e.failed(err)
			e.tell(s, err)
			return false
		}
	}
	s.busy = true
	e.busy++
	if !s.connecting {
		s.pending = e.requests[s.file]
		s.response.reset()
		e.write(s)
	}
	return true
}

// open connects the slot. A connection that is under way is finished by its first event.
func (e *engine) open(s *slot, to netip.AddrPort) error {
	from := e.source(max(e.Files[s.file].Size, 0))
	var source unix.Sockaddr
	if len(e.sources) > 0 {
		source = e.sources[from]
	}
	fd, err := dial(to, source, e.Multipath)
	e.opened++
	if err != nil {
		return err
	}
	s.generation++
	s.source = from
	s.fd, s.connecting, s.served, s.pending = fd, true, 0, e.requests[s.file]
	s.dialled = e.now()
	s.response.reset()
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(s.number), Pad: s.generation}
	if err := unix.EpollCtl(e.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		e.shut(s)
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// source is the number of the one that the next connection is from, which is opened for a body of so many bytes.
func (e *engine) source(size int64) int {
	if e.Choose == nil {
		return e.opened % len(e.under)
	}
	clear(e.under)
	for i := range e.slots {
		if s := &e.slots[i]; s.fd > 0 {
			e.under[s.source].Connections++
			e.under[s.source].Bytes += max(e.Files[s.file].Size-s.response.seen, 0)
		}
	}
	return e.Choose(e.under, size)
}

// tell tells of a request that has ended.
func (e *engine) tell(s *slot, err error) {
	if e.Each == nil {
		return
	}
	x := Exchange{Due: e.began.Add(s.due), Ended: time.Now(), Err: err}
	if s.fd > 0 {
		x.Bytes = s.response.seen
		if !s.connecting && s.served == 0 {
			x.Connected = e.began.Add(s.connected)
		}
		if s.asked > 0 {
			x.Asked = e.began.Add(s.asked)
		}
		if s.first > 0 {
			x.First = e.began.Add(s.first)
		}
	}
	e.Each(x)
}

func (e *engine) fail(s *slot, err error) {
	e.tell(s, err)
	e.failed(err)
	e.shut(s)
	e.end(s)
}

func (e *engine) failed(err error) {
	e.result.Errors++
	if e.result.First == nil {
		e.result.First = err
	}
}

func (e *engine) shut(s *slot) {
	if s.fd > 0 {
		unix.Close(s.fd)
		s.fd = 0
	}
	s.generation++
}

// sweep ends requests that have made no progress for the timeout.
func (e *engine) sweep() {
	now := e.now()
	if now < e.nextSweep {
		return
	}
	e.nextSweep = now + 50*time.Millisecond
	for i := range e.slots {
		if s := &e.slots[i]; s.busy && now-s.last > e.Timeout {
			e.fail(s, fmt.Errorf("nothing came for %v (%d bytes of the body had)", e.Timeout, s.response.seen))
		}
	}
}
