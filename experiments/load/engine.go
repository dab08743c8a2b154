package load

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// readSize is how much is read at once (bytes): much of a bulk download, many times a small response.
const readSize = 256 << 10

type engine struct {
	Options
	epoll     int
	sources   []unix.Sockaddr
	request   []byte
	slots     []slot
	buffer    []byte
	opened    int // connections so far: the turn of targets and sources
	begun     int64
	busy      int
	began     time.Time
	result    Result
	nextSweep time.Duration
}

// slot is one of the connections that are open at the same time.
type slot struct {
	fd         int
	generation int32 // tells events of this connection from those of the slot's last one
	connecting bool
	pending    []byte        // of the request, still to be written
	start      time.Duration // of connect or of the request, since the run began
	last       time.Duration // when something came
	first      time.Duration // when the response began
	followed   bool
	served     int64 // responses on this connection
	response   response
}

func newEngine(o Options) (*engine, error) {
	e := &engine{Options: o, buffer: make([]byte, readSize), slots: make([]slot, o.Connections)}
	for _, s := range o.Sources {
		e.sources = append(e.sources, sockaddr(netip.AddrPortFrom(s, 0)))
	}
	e.request = fmt.Appendf(nil, "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: baton-load\r\n\r\n", o.Path, o.Host)
	e.result.Connect, e.result.FirstByte, e.result.Total = newHistogram(), newHistogram(), newHistogram()
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
	e.began = time.Now()
	for i := range e.slots {
		e.next(i)
	}
	events := make([]unix.EpollEvent, 256)
	for e.busy > 0 {
		n, err := unix.EpollWait(e.epoll, events, 100)
		if err != nil && err != unix.EINTR {
			return Result{}, fmt.Errorf("epoll: %w", err)
		}
		for _, ev := range events[:max(n, 0)] {
			s := &e.slots[ev.Fd]
			if s.generation == ev.Pad && s.fd > 0 {
				e.handle(int(ev.Fd), ev.Events)
			}
		}
		e.sweep()
	}
	e.result.Elapsed = e.now()
	return e.result, nil
}

// next begins the slot's next request, unless the run is over.
func (e *engine) next(i int) {
	s := &e.slots[i]
	// Errors that come at once (no route, no port) must not keep the loop from its end.
	for e.begun < e.Requests && e.now() < e.Duration {
		e.begun++
		s.followed = false
		s.start = e.now()
		s.last = s.start
		if s.fd > 0 {
			e.busy++
			e.send(i)
			return
		}
		if err := e.open(i, e.Targets[e.opened%len(e.Targets)]); err != nil {
			e.failed(err)
			continue
		}
		e.busy++
		return
	}
	e.shut(s)
}

// open connects the slot. A connection that is under way is finished by its first event.
func (e *engine) open(i int, to netip.AddrPort) error {
	s := &e.slots[i]
	fd, err := dial(to, e.sources, e.opened)
	e.opened++
	if err != nil {
		return err
	}
	s.generation++
	s.fd, s.connecting, s.served, s.pending = fd, true, 0, e.request
	s.response.reset()
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLOUT | unix.EPOLLRDHUP | unix.EPOLLET, Fd: int32(i), Pad: s.generation}
	if err := unix.EpollCtl(e.epoll, unix.EPOLL_CTL_ADD, fd, &ev); err != nil {
		e.shut(s)
		return fmt.Errorf("epoll: %w", err)
	}
	return nil
}

// send begins a request on an open connection.
func (e *engine) send(i int) {
	s := &e.slots[i]
	s.pending = e.request
	s.response.reset()
	e.write(i)
}

func (e *engine) handle(i int, events uint32) {
	s := &e.slots[i]
	if s.connecting {
		if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			e.fail(i, fmt.Errorf("connect: %w", socketError(s.fd)))
			return
		}
		if events&unix.EPOLLOUT == 0 {
			return
		}
		s.connecting = false
		s.last = e.now()
		_ = e.result.Connect.RecordValue(int64(s.last - s.start)) // over a minute: the timeout has it
	}
	if len(s.pending) > 0 && !e.write(i) {
		return
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		e.read(i)
	}
}

// write sends what is left of the request and reports whether the connection is still good.
func (e *engine) write(i int) bool {
	s := &e.slots[i]
	n, err := unix.Write(s.fd, s.pending)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
	case (err == unix.EPIPE || err == unix.ECONNRESET) && s.served > 0:
		e.reopen(i)
		return false
	case err != nil:
		e.fail(i, fmt.Errorf("write: %w", err))
		return false
	default:
		s.pending = s.pending[n:]
	}
	return true
}

func (e *engine) read(i int) {
	s := &e.slots[i]
	for generation := s.generation; s.generation == generation && s.fd > 0; {
		n, err := unix.Read(s.fd, e.buffer)
		switch {
		case err == unix.EAGAIN:
			return
		case err == unix.EINTR:
			continue
		case (err == unix.ECONNRESET || err == nil && n == 0) && s.served > 0 && !s.response.started():
			e.reopen(i)
			return
		case err != nil:
			e.fail(i, fmt.Errorf("read: %w", err))
			return
		case n == 0:
			e.fail(i, errors.New("the server closed before the end of its response"))
			return
		}
		s.last = e.now()
		if !s.response.started() {
			s.first = s.last
		}
		done, err := s.response.take(e.buffer[:n], e.Body)
		if err != nil {
			e.fail(i, err)
			return
		}
		if done {
			e.answered(i)
			return // the answer to a next request comes with an event of its own
		}
		if n < len(e.buffer) {
			return // the socket is empty: edge-triggered epoll tells of the next byte
		}
	}
}

func (e *engine) answered(i int) {
	s := &e.slots[i]
	if s.response.status == 302 && e.Follow && !s.followed {
		e.follow(i)
		return
	}
	switch r := &s.response; {
	case r.status != 200:
		e.fail(i, fmt.Errorf("status %d", r.status))
		return
	case e.Size >= 0 && r.length != e.Size:
		e.fail(i, fmt.Errorf("a body of %d bytes, want %d", r.length, e.Size))
		return
	}
	_ = e.result.FirstByte.RecordValue(int64(s.first - s.start))
	_ = e.result.Total.RecordValue(int64(s.last - s.start))
	e.result.Requests++
	e.result.Bytes += s.response.length
	e.busy--
	s.served++
	if !e.Reuse || s.response.closes {
		e.shut(s)
	}
	e.next(i)
}

// follow asks the server that a 302 names. The first byte that counts is that of its answer.
func (e *engine) follow(i int) {
	s := &e.slots[i]
	to, err := location(s.response.location)
	if err != nil {
		e.fail(i, err)
		return
	}
	e.shut(s)
	s.followed = true
	if err := e.open(i, to); err != nil {
		e.fail(i, err)
	}
}

// reopen repeats a request for which the server, as it may, had closed the connection before it came.
func (e *engine) reopen(i int) {
	s := &e.slots[i]
	e.shut(s)
	e.result.Reopened++
	if err := e.open(i, e.Targets[e.opened%len(e.Targets)]); err != nil {
		e.fail(i, err)
	}
}

func (e *engine) fail(i int, err error) {
	e.failed(err)
	e.busy--
	e.shut(&e.slots[i])
	e.next(i)
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
		if s := &e.slots[i]; s.fd > 0 && now-s.last > e.Timeout {
			e.fail(i, fmt.Errorf("nothing came for %v (%d bytes of the body had)", e.Timeout, s.response.seen))
		}
	}
}
