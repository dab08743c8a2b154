package worker

import (
	"io"

	"golang.org/x/sys/unix"

	"baton/relay/secure"
)

// line is a connection as a worker reads and writes it: in the clear, or through TLS. What TLS has encrypted and the kernel has not taken
// is part of it, as what is in the kernel's buffers is.
type line struct {
	fd       int32        // -1: none
	tls      *secure.Conn // nil: in the clear
	readable bool         // as far as is known
	writable bool
	short    bool // the last read has taken all that had come
	fin      bool // our FIN was said, or is due behind what is still to be sent
	shut     bool // it was said
}

// read takes what the peer has said. 0 bytes are its end; a FIN in front of which TLS has not said the end cuts what it said, and is a
// reset (RFC 8446, section 6.1).
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
			_ = w.push(l) // what TLS answers by itself; a fault will be met again
			switch {
			case err == io.EOF:
				return 0, 0
			case err != nil:
				w.o.Log.Debug("trunk is broken", "err", err)
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

// write sends bytes, as many as are taken. All that TLS takes is encrypted at once; nothing more is taken until that is sent.
func (w *Worker) write(l *line, b []byte) (int, unix.Errno) {
	if l.tls == nil {
		return write(l.fd, b)
	}
	if errno := w.push(l); errno != 0 {
		return 0, errno
	}
	n := min(len(b), secure.Most)
	if err := l.tls.Write(b[:n]); err != nil {
		w.o.Log.Debug("trunk is broken", "err", err)
		return 0, unix.EPROTO
	}
	if errno := w.push(l); errno != 0 && errno != unix.EAGAIN {
		return 0, errno
	}
	return n, 0
}

// push sends what TLS has encrypted, and then the FIN that is due. EAGAIN: the kernel will tell when it takes more.
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

// pending is how many bytes wait for the kernel.
func (l *line) pending() int {
	if l.tls == nil {
		return 0
	}
	return len(l.tls.Pending())
}

// unsent is how many bytes the peer has not acknowledged, a FIN included.
func (l *line) unsent() int { return l.pending() + unsent(l.fd) }

// finish says a FIN behind what was written. Of a connection that is closed then, the close says it.
func (w *Worker) finish(l *line, closed bool) {
	l.fin, l.shut = true, l.shut || closed
	if l.tls != nil {
		_ = l.tls.CloseWrite() // fails if TLS itself has: no FIN hides that from the peer
	}
	_ = w.push(l)
}

// end closes a connection, whatever is under way.
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
