package worker

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// mostTLSHandshakes limits the TLS handshakes of incoming trunks. One more ends the oldest: a legitimate one needs two round trips.
const mostTLSHandshakes = 256

var (
	errEnded             = errors.New("the connection ended")
	errTooManyHandshakes = errors.New("too many TLS handshakes")
)

// tlsHandshaker is a trunk, opened or incoming, during its TLS handshake.
type tlsHandshaker interface {
	tlsDone(w *Worker, err error) // the handshake is over
}

// startTLS starts the handshake of a connection.
func (w *Worker) startTLS(l *line, s tlsHandshaker) {
	conn := l.tls
	conn.Begin(w.gate, func() {
		_ = w.post(func(w *Worker) {
			if l.tls == conn && conn.Handshaking() {
				w.continueTLS(l, s)
			}
		})
	})
}

// continueTLS exchanges the messages of a handshake.
func (w *Worker) continueTLS(l *line, s tlsHandshaker) {
	for {
		over, err := l.tls.Established()
		errno := w.push(l)
		switch {
		case over:
			s.tlsDone(w, err)
			return
		case errno != 0 && errno != unix.EAGAIN:
			s.tlsDone(w, errno)
			return
		}
		limit := l.tls.FeedLimit(0)
		if limit == 0 {
			return // the goroutine notifies when it has consumed its input
		}
		n, errno := read(l.fd, w.sealed[:min(len(w.sealed), limit)])
		switch {
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			s.tlsDone(w, errno)
			return
		case n == 0:
			s.tlsDone(w, errEnded)
			return
		}
		l.tls.Feed(w.sealed[:n])
	}
}

// continueTLS continues the TLS handshake of an incoming trunk. It starts with the client's first bytes, so an idle connection costs no
// goroutine.
func (a *handshake) continueTLS(w *Worker) {
	if !a.tls.Begun() {
		if len(w.tlsHandshakes) >= mostTLSHandshakes {
			w.tlsHandshakes[0].tlsDone(w, errTooManyHandshakes)
		}
		w.tlsHandshakes = append(w.tlsHandshakes, a)
		w.startTLS(&a.line, a)
	}
	w.continueTLS(&a.line, a)
}

// tlsDone sends the hello after the handshake.
func (a *handshake) tlsDone(w *Worker, err error) {
	if err != nil {
		w.count.BadHandshakes.Add(1)
		w.o.Log.Debug("trunk refused", "from", a.from, "err", err)
		w.abortHandshake(a, false) // after TLS's alert
		return
	}
	w.removeTLS(a)
	w.stopWait(&a.waiter)
	if !w.sendHello(a) {
		w.abortHandshake(a, true)
		return
	}
	a.ready(w, unix.EPOLLIN) // for what followed the handshake
}

// removeTLS removes an incoming trunk from the TLS handshakes.
func (w *Worker) removeTLS(a *handshake) {
	if i := slices.Index(w.tlsHandshakes, a); i >= 0 {
		w.tlsHandshakes = slices.Delete(w.tlsHandshakes, i, i+1)
	}
}
