package worker

import (
	"golang.org/x/sys/unix"

	"baton/relay/flow"
)

// direction is the bytes that were read from one end and not written to the other yet.
type direction struct {
	buffer []byte // copied bytes, in front of spliced ones
	base   []byte // the allocated buffer that holds them; nil: none
	pipe   *pipe  // with spliced bytes; nil: none
	copies bool   // splice does not work here
	total  uint64
}

const (
	// copied is how many bytes of a direction are copied before it gets a pipe.
	copied = 16 << 10
	// most limits the bytes of one call.
	most = 1 << 20
)

// move moves bytes both ways, until it would block or the flow has used its share.
func (w *Worker) move(s *split) {
	left := flowShare
	for {
		for i := range s.ends {
			if e := &s.ends[i]; e.writable && e.pending() > 0 && !s.state.IsUnwritable(e.which) {
				if errno := w.pushEnd(e); errno != 0 && errno != unix.EAGAIN {
					w.writeFailed(s, e)
				}
			}
		}
		n, more := w.pass(s, flow.Client)
		m, again := w.pass(s, flow.Server)
		if s.stage != stageMoving || !more && !again {
			break
		}
		if left -= n + m; left <= 0 {
			s.queued = true
			w.runnable = append(w.runnable, s)
			return
		}
	}
	if s.stage == stageMoving {
		w.updateReadEvents(s, flow.Client)
		w.updateReadEvents(s, flow.Server)
	}
}

// updateReadEvents disables read events of an end while the other end does not accept what the pipe holds: each segment would wake the
// worker for nothing. It runs once before the worker waits, so a flow that is always limited by the same end costs no system call.
func (w *Worker) updateReadEvents(s *split, which flow.End) {
	e, d := &s.ends[which], &s.dirs[which]
	held := d.pipe != nil && d.pipe.held > 0 && !s.ends[which.Other()].writable
	if held == e.muted {
		return
	}
	events := uint32(both)
	if held {
		events &^= unix.EPOLLIN
		e.readable = true // perhaps: it is read when the pipe is empty
	}
	if w.rewatch(e.fd, events, e.slot) == 0 {
		e.muted = held
	}
}

// pass moves bytes of one direction. progress: try again.
func (w *Worker) pass(s *split, which flow.End) (n int, progress bool) {
	from, to, d := &s.ends[which], &s.ends[which.Other()], &s.dirs[which]
	if s.stage != stageMoving {
		return 0, false
	}
	if which == flow.Server && !s.answered {
		return 0, w.readAnswer(s)
	}
	if s.state.Held(which) > 0 {
		if !to.writable {
			return 0, false
		}
		return w.flush(s, from, to, d)
	}
	if !from.readable || !to.writable || !s.state.Wants(which, most) {
		return 0, false
	}
	if !s.answered && d.total >= copied {
		s.trunk.dropReplay()
	}
	if d.copies || d.total < copied || from.tls != nil || to.tls != nil {
		return w.copy(s, from, to, d)
	}
	return w.splice(s, from, to, d)
}

// pushEnd sends an end's pending bytes.
func (w *Worker) pushEnd(e *end) unix.Errno {
	before := e.pending()
	errno := w.push(&e.line)
	if e.pending() < before {
		e.of.moved = w.now
	}
	return errno
}

// copy copies the bytes of one read. The direction holds nothing before.
func (w *Worker) copy(s *split, from, to *end, d *direction) (int, bool) {
	b := w.scratch
	n, errno := w.read(&from.line, b)
	switch {
	case errno == unix.EAGAIN:
		from.readable = false
		return 0, false
	case errno != 0:
		w.readFailed(s, from.which)
		return 0, true
	case n == 0:
		from.readable = false
		w.do(s, s.state.EOF(from.which))
		return 0, true
	}
	if from.short && !from.hangup {
		from.readable = false
	}
	b = b[:n]
	s.moved = w.now
	d.total += uint64(n)
	w.count.Copied.Add(uint64(n))
	s.state.Read(from.which, n)
	if !s.answered {
		s.trunk.keepReplay(b)
	}
	sent, errno := w.write(&to.line, b)
	if errno != 0 {
		sent = 0
	}
	if sent < n {
		to.writable = false
		d.buffer, d.base = b[sent:], w.scratch[:cap(w.scratch)]
		w.scratch = w.buffers.Alloc()[:copyChunk]
	}
	if errno != 0 && errno != unix.EAGAIN {
		w.writeFailed(s, to)
		return n, true
	}
	w.do(s, s.state.Wrote(from.which, sent))
	return n, true
}

// splice moves what fits into a pipe. The direction holds nothing before.
func (w *Worker) splice(s *split, from, to *end, d *direction) (int, bool) {
	if d.pipe == nil {
		p, errno := w.pipes.alloc()
		if errno != 0 {
			w.count.NoPipe.Add(1)
			return w.copy(s, from, to, d)
		}
		d.pipe = p
	}
	n, errno := splice(from.fd, d.pipe.w, most)
	if errno == 0 && n > 0 {
		s.moved = w.now
		d.pipe.held = n
		d.total += uint64(n)
		w.count.Spliced.Add(uint64(n))
		s.state.Read(from.which, n)
		w.flush(s, from, to, d)
		return n, true
	}
	w.freeHeld(d)
	switch errno {
	case 0:
		from.readable = false
		w.do(s, s.state.EOF(from.which))
	case unix.EAGAIN:
		from.readable = false
		return 0, false
	case unix.EINVAL:
		d.copies = true
	default:
		w.readFailed(s, from.which)
	}
	return 0, true
}

// flush writes what a direction holds, as far as the other end accepts it.
func (w *Worker) flush(s *split, from, to *end, d *direction) (n int, progress bool) {
	var errno unix.Errno
	for errno == 0 && s.state.Held(from.which) > 0 {
		var k int
		copied := len(d.buffer) > 0
		if copied {
			k, errno = w.write(&to.line, d.buffer)
		} else {
			k, errno = splice(d.pipe.r, to.fd, d.pipe.held)
		}
		if errno != 0 {
			break
		}
		n += k
		s.moved = w.now
		if copied {
			if d.buffer = d.buffer[k:]; len(d.buffer) == 0 {
				w.freeBuffer(d)
			}
		} else {
			d.pipe.held -= k
		}
		w.do(s, s.state.Wrote(from.which, k))
	}
	switch {
	case errno == unix.EAGAIN:
		to.writable = false
	case errno != 0:
		w.writeFailed(s, to)
		progress = true
	}
	if d.pipe != nil && d.pipe.held == 0 && (!from.readable || s.state.Held(from.which) == 0 && s.stage != stageMoving) {
		w.freeHeld(d)
	}
	return n, progress || n > 0
}

// readFailed is called when a read shows that an end was reset or failed.
func (w *Worker) readFailed(s *split, which flow.End) {
	if which == flow.Server && !s.answered {
		w.trunkBroke(s)
		return
	}
	w.do(s, s.state.Reset(which))
}

// writeFailed is called when a write shows it: what the end sent before may not be read yet.
func (w *Worker) writeFailed(s *split, e *end) {
	if e.which == flow.Server && !s.answered {
		w.trunkBroke(s)
		return
	}
	w.freeHeld(&s.dirs[e.which.Other()])
	e.readable = true
	w.do(s, s.state.WriteFailed(e.which))
}

// freeHeld frees a direction's pipe and buffer.
func (w *Worker) freeHeld(d *direction) {
	if d.pipe != nil {
		w.pipes.free(d.pipe)
		d.pipe = nil
	}
	w.freeBuffer(d)
}

// freeBuffer frees a direction's buffer.
func (w *Worker) freeBuffer(d *direction) {
	if d.base != nil {
		w.buffers.Free(d.base)
	}
	d.buffer, d.base = nil, nil
}
