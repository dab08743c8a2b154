package worker

import (
	"errors"
	"slices"

	"golang.org/x/sys/unix"
)

// mostHandshakes bounds the arrivals of a worker whose TLS handshakes go on. When one more begins, the one that has gone on for longest
// ends: who means it needs two round trips.
const mostHandshakes = 256

var (
	errCut     = errors.New("the connection ended")
	errCrowded = errors.New("too many handshakes go on")
)

// shaking is whose TLS handshake goes on: a trunk on its way, or an arrival.
type shaking interface {
	shaken(w *Worker, err error) // it is over
}

// beginShake begins the handshake of a connection.
func (w *Worker) beginShake(l *line, s shaking) {
	conn := l.tls
	conn.Begin(w.gate, func() {
		_ = w.post(func(w *Worker) {
			if l.tls == conn && conn.Handshaking() {
				w.shake(l, s)
			}
		})
	})
}

// shake passes on what both sides of a handshake have said.
func (w *Worker) shake(l *line, s shaking) {
	for {
		over, err := l.tls.Established()
		errno := w.push(l)
		switch {
		case over:
			s.shaken(w, err)
			return
		case errno != 0 && errno != unix.EAGAIN:
			s.shaken(w, errno)
			return
		}
		room := l.tls.Room(0)
		if room == 0 {
			return // the handshake will tell when it has looked at what is here
		}
		n, errno := read(l.fd, w.sealed[:min(len(w.sealed), room)])
		switch {
		case errno == unix.EAGAIN:
			return
		case errno != 0:
			s.shaken(w, errno)
			return
		case n == 0:
			s.shaken(w, errCut)
			return
		}
		l.tls.Feed(w.sealed[:n])
	}
}

// shake goes on with an arrival's handshake. It begins with the client's first bytes: who says nothing costs no goroutine.
func (a *arrival) shake(w *Worker) {
	if !a.tls.Begun() {
		if len(w.shaking) >= mostHandshakes {
			w.shaking[0].shaken(w, errCrowded)
		}
		w.shaking = append(w.shaking, a)
		w.beginShake(&a.line, a)
	}
	w.shake(&a.line, a)
}

// shaken says hello behind the handshake.
func (a *arrival) shaken(w *Worker, err error) {
	if err != nil {
		w.count.BadHandshakes.Add(1)
		w.o.Log.Debug("trunk refused", "from", a.from, "err", err)
		w.sendAway(a, false) // behind TLS's alert
		return
	}
	w.unlist(a)
	w.ease(&a.waiter)
	if !w.sayHello(a) {
		w.sendAway(a, true)
		return
	}
	a.ready(w, unix.EPOLLIN) // for what came behind the handshake
}

// unlist takes an arrival off those whose handshakes go on.
func (w *Worker) unlist(a *arrival) {
	if i := slices.Index(w.shaking, a); i >= 0 {
		w.shaking = slices.Delete(w.shaking, i, i+1)
	}
}
