package worker

import "time"

// wait is the kind of a wait with a deadline.
type wait uint8

const (
	waitHeader  wait = iota // for a header
	waitConnect             // for the server, or for a trunk
	waitAccept              // for the client of an early SYN
	waitYoung               // a new flow: most end before keepalive is worth setting up
	waitLook                // the next check that bytes move and peers answer
	waitEnd                 // for the acknowledgement of bytes in front of an RST, or the peer's FIN after ours
	waitKinds
)

// timed is anything that waits.
type timed interface {
	expired(w *Worker, for_ wait)
}

// deadlines are the waiters of one kind, oldest first. All have the same timeout, so the first expires first.
type deadlines struct {
	after       time.Duration // 0: never
	first, last *waiter
}

// waiter is an element of one list.
type waiter struct {
	of         timed
	prev, next *waiter
	since      time.Duration // on the worker's clock
	wait       wait
	waiting    bool
}

// next is the time until the first waiter expires.
func (d *deadlines) next(now time.Duration) time.Duration {
	if d.first == nil || d.after == 0 {
		return longestPause
	}
	return max(0, d.first.since+d.after-now)
}

// startWait starts a wait, and ends any other of the same waiter.
func (w *Worker) startWait(p *waiter, kind wait) {
	w.stopWait(p)
	d := &w.waits[kind]
	p.prev, p.next, p.since, p.wait, p.waiting = d.last, nil, w.now, kind, true
	if d.last != nil {
		d.last.next = p
	} else {
		d.first = p
	}
	d.last = p
}

// stopWait ends a wait.
func (w *Worker) stopWait(p *waiter) {
	if !p.waiting {
		return
	}
	d := &w.waits[p.wait]
	if p.prev != nil {
		p.prev.next = p.next
	} else {
		d.first = p.next
	}
	if p.next != nil {
		p.next.prev = p.prev
	} else {
		d.last = p.prev
	}
	p.prev, p.next, p.waiting = nil, nil, false
}

// expire expires all waiters that are due.
func (w *Worker) expire() {
	for kind := range w.waits {
		d := &w.waits[kind]
		for d.after > 0 && d.first != nil && d.first.since+d.after <= w.now {
			p := d.first
			w.stopWait(p)
			p.of.expired(w, wait(kind))
		}
	}
}
