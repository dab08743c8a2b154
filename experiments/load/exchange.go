package load

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

func (e *engine) handle(s *slot, events uint32) {
	if s.connecting {
		if events&(unix.EPOLLERR|unix.EPOLLHUP) != 0 {
			e.fail(s, fmt.Errorf("connect: %w", socketError(s.fd)))
			return
		}
		if events&unix.EPOLLOUT == 0 {
			return
		}
		s.connecting = false
		s.last = e.now()
		if !s.followed {
			s.connected = s.last
		}
		record(e.result.Connect, s.last-s.dialled)
	}
	if len(s.pending) > 0 && !e.write(s) {
		return
	}
	if events&(unix.EPOLLIN|unix.EPOLLRDHUP|unix.EPOLLERR|unix.EPOLLHUP) != 0 {
		e.read(s)
	}
}

// write sends what is left of the request and reports whether the connection is still good.
func (e *engine) write(s *slot) bool {
	if s.asked == 0 {
		s.asked = e.now()
	}
	n, err := unix.Write(s.fd, s.pending)
	switch {
	case err == unix.EAGAIN || err == unix.EINTR:
	case (err == unix.EPIPE || err == unix.ECONNRESET) && s.served > 0:
		e.reopen(s)
		return false
	case err != nil:
		e.fail(s, fmt.Errorf("write: %w", err))
		return false
	default:
		s.pending = s.pending[n:]
	}
	return true
}

func (e *engine) read(s *slot) {
	for generation := s.generation; s.generation == generation && s.fd > 0; {
		n, err := unix.Read(s.fd, e.buffer)
		switch {
		case err == unix.EAGAIN:
			return
		case err == unix.EINTR:
			continue
		case !s.busy:
			e.between(s, n)
			return
		case (err == unix.ECONNRESET || err == nil && n == 0) && s.served > 0 && !s.response.started():
			e.reopen(s)
			return
		case err != nil:
			e.fail(s, fmt.Errorf("read: %w", err))
			return
		case n == 0:
			e.fail(s, errors.New("the server closed before the end of its response"))
			return
		}
		s.last = e.now()
		if !s.response.started() {
			s.first = s.last
		}
		done, err := s.response.take(e.buffer[:n], e.Files[s.file].Body)
		if err != nil {
			e.fail(s, err)
			return
		}
		if done {
			e.answered(s)
			return // the answer to a next request comes with an event of its own
		}
		if n < len(e.buffer) {
			return // the socket is empty: edge-triggered epoll tells of the next byte
		}
	}
}

// between takes what comes when nothing was asked: the end of the connection, which is the server's right, or bytes.
func (e *engine) between(s *slot, n int) {
	e.shut(s)
	if n > 0 {
		e.failed(errMoreThanAsked)
		return
	}
	e.result.Reopened++
}

func (e *engine) answered(s *slot) {
	if s.response.status == 302 && e.Follow && !s.followed {
		e.follow(s)
		return
	}
	switch r, f := &s.response, &e.Files[s.file]; {
	case r.status != 200:
		e.fail(s, fmt.Errorf("status %d", r.status))
		return
	case f.Size >= 0 && r.length != f.Size:
		e.fail(s, fmt.Errorf("%s: a body of %d bytes, want %d", f.Path, r.length, f.Size))
		return
	}
	record(e.result.FirstByte, s.first-s.due)
	if s.due > s.dialled {
		record(e.result.Open, s.first-s.due)
	}
	record(e.result.Total, s.last-s.due)
	e.tell(s, nil)
	e.result.Requests++
	e.result.Bytes += s.response.length
	s.served++
	if !e.Reuse || s.response.closes {
		e.shut(s)
	}
	e.end(s)
}

// follow asks the server that a 302 names. The first byte that counts is that of its answer.
func (e *engine) follow(s *slot) {
	to, err := location(s.response.location)
	if err != nil {
		e.fail(s, err)
		return
	}
	e.shut(s)
	s.followed = true
	if err := e.open(s, to); err != nil {
		e.fail(s, err)
	}
}

// reopen repeats a request for which the server, as it may, had closed the connection before it came.
func (e *engine) reopen(s *slot) {
	e.shut(s)
	e.result.Reopened++
	if err := e.open(s, e.Targets[e.opened%len(e.Targets)]); err != nil {
		e.fail(s, err)
	}
}
