package worker

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// mostTLSHandshakes bounds the arrivals of a worker whose TLS handshakes go on. When one more begins, the one that has gone on for longest
// ends: who means it needs two round trips.
const mostTLSHandshakes = 256

var (
	errEnded             = errors.New("the connection ended")
	errTooManyHandshakes = errors.New("too many handshakes go on")
)

// tlsHandshaker is whose TLS handshake goes on: a trunk on its way, or an arrival.
type tlsHandshaker interface {
	tlsDone(w *Worker, err error) // it is over
}

// startTLS begins the handshake of a connection.
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

// continueTLS passes on what both sides of a handshake have said.
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
			return // the handshake will tell when it has looked at what is here
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

// continueTLS goes on with an arrival's handshake. It begins with the client's first bytes: who says nothing costs no goroutine.
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

// tlsDone says hello behind the handshake.
func (a *handshake) tlsDone(w *Worker, err error) {
	if err != nil {
		w.count.BadHandshakes.Add(1)
		w.o.Log.Debug("trunk refused", "from", a.from, "err", err)
		w.abortHandshake(a, false) // behind TLS's alert
		return
	}
	w.removeTLS(a)
	w.stopWait(&a.waiter)
	if !w.sendHello(a) {
		w.abortHandshake(a, true)
		return
	}
	a.ready(w, unix.EPOLLIN) // for what came behind the handshake
}

// removeTLS takes an arrival off those whose handshakes go on.
func (w *Worker) removeTLS(a *handshake) {
	if i := slices.Index(w.tlsHandshakes, a); i >= 0 {
		w.tlsHandshakes = slices.Delete(w.tlsHandshakes, i, i+1)
	}
}
