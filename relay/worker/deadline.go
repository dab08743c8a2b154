package worker

import "time"

// wait is what something may be waiting for with a deadline.
type wait uint8

const (
	waitHeader  wait = iota // what a flow begins with
	waitConnect             // the server, a trunk that is opened
	waitAccept              // the client of an early SYN
	waitYoung               // a flow that has just begun to move: most are over before it is worth to look after their peers
	waitLook                // a look at whether bytes still move, and peers still answer
	waitEnd                 // the peer's acknowledgement of what is in front of an RST; its FIN behind ours
	waitKinds
)

// timed is what waits.
type timed interface {
	expired(w *Worker, for_ wait)
}

// deadlines are those who wait, in the order in which they began to, all for the same time: the first is the first to expire.
type deadlines struct {
	after       time.Duration // 0: for ever
	first, last *waiter
}

// waiter is a place in one list.
type waiter struct {
	of         timed
	prev, next *waiter
	since      time.Duration // on the worker's clock
	wait       wait
	waiting    bool
}

// next is how long it is until the first one expires.
func (d *deadlines) next(now time.Duration) time.Duration {
	if d.first == nil || d.after == 0 {
		return longestPause
	}
	return max(0, d.first.since+d.after-now)
}

// startWait has someone wait for one thing, and no other any more.
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

// expire ends what has waited too long.
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
