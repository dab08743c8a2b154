package worker

import (
	"io"

	"golang.org/x/sys/unix"

	"baton/relay/secure"
)

// line is a connection, plain or through TLS. It includes what TLS has encrypted and the kernel has not accepted yet.
type line struct {
	fd       int32        // -1: none
	tls      *secure.Conn // nil: plain
	readable bool         // as far as is known
	writable bool
	short    bool // the last read returned everything available
	fin      bool // our FIN was sent, or follows the pending bytes
	shut     bool // the FIN was sent
}

// read reads from the peer. It returns 0 bytes at the end. A FIN without TLS's close_notify means truncation and is returned as a reset
// (RFC 8446, section 6.1).
func (w *Worker) read(l *line, b []byte) (int, unix.Errno) {
	if l.tls == nil {
		n, errno := read(l.fd, b)
		l.short = n < len(b)
		return n, errno
	}
	short := false
	for fed := l.tls.More(); ; fed = true {
		if fed {
			n, err := l.tls.Read(b)
			_ = w.push(l) // replies of TLS itself; an error is returned again by the next call
			switch {
			case err == io.EOF:
				return 0, 0
			case err != nil:
				w.o.Log.Debug("trunk broke", "err", err)
				return 0, unix.EPROTO
			case n > 0:
				l.short = short && !l.tls.More()
				return n, 0
			}
		}
		sealed := w.sealed[:min(len(w.sealed), l.tls.FeedLimit(len(b)))]
		n, errno := read(l.fd, sealed)
		switch {
		case errno != 0:
			return 0, errno
		case n == 0:
			return 0, unix.ECONNRESET
		}
		short = n < len(sealed)
		l.tls.Feed(sealed[:n])
	}
}

// write writes as many bytes as are accepted. TLS encrypts what it accepts at once, and accepts no more until that is sent.
func (w *Worker) write(l *line, b []byte) (int, unix.Errno) {
	if l.tls == nil {
		return write(l.fd, b)
	}
	if errno := w.push(l); errno != 0 {
		return 0, errno
	}
	n := min(len(b), secure.Most)
	if err := l.tls.Write(b[:n]); err != nil {
		w.o.Log.Debug("trunk broke", "err", err)
		return 0, unix.EPROTO
	}
	if errno := w.push(l); errno != 0 && errno != unix.EAGAIN {
		return 0, errno
	}
	return n, 0
}

// push sends pending ciphertext, and then a due FIN. EAGAIN: an event follows when the kernel accepts more.
func (w *Worker) push(l *line) unix.Errno {
	for l.pending() > 0 {
		out := l.tls.Pending()
		n, errno := write(l.fd, out)
		if errno == 0 {
			l.tls.Sent(n)
		}
		if errno == 0 && n < len(out) {
			errno = unix.EAGAIN
		}
		if errno != 0 {
			l.writable = false
			return errno
		}
	}
	if l.fin && !l.shut {
		shutdownWrite(l.fd)
		l.shut = true
	}
	return 0
}

// pending is the number of bytes that wait for the kernel.
func (l *line) pending() int {
	if l.tls == nil {
		return 0
	}
	return len(l.tls.Pending())
}

// unsent is the number of bytes that the peer has not acknowledged, including a FIN.
func (l *line) unsent() int { return l.pending() + unsent(l.fd) }

// finish sends a FIN after what was written. If the connection is then closed, the close sends it.
func (w *Worker) finish(l *line, closed bool) {
	l.fin, l.shut = true, l.shut || closed
	if l.tls != nil {
		_ = l.tls.CloseWrite() // fails only after a TLS error, which the FIN does not hide from the peer
	}
	_ = w.push(l)
}

// end closes a connection and discards what is pending.
func (l *line) end(reset bool) {
	if l.tls != nil {
		l.tls.Close()
		l.tls = nil
	}
	if reset {
		closeFD(l.fd)
	} else {
		finFD(l.fd)
	}
	l.fd = -1
}
