package worker

import "time"

// wait is what a flow may be waiting for with a deadline.
type wait uint8

const (
	waitHeader  wait = iota // what the flow begins with
	waitConnect             // the server
	waitAccept              // the client of an early SYN
	waitBytes               // any
	waitAbort               // the peer's acknowledgement of what is in front of an RST
	waitKinds
)

// deadlines are flows in the order in which they began to wait, all for the same time; so the first is the first to expire.
type deadlines struct {
	after       time.Duration // 0: for ever
	first, last *split
}

// links are a flow's place in one list.
type links struct {
	earlier, later *split
	since          time.Duration // on the worker's clock
	waiting        bool
}

// next is how long it is until the first one expires.
func (d *deadlines) next(now time.Duration) time.Duration {
	if d.first == nil || d.after == 0 {
		return patience
	}
	return max(0, d.first.links.since+d.after-now)
}

// await has a flow wait for one thing, and no other any more.
func (w *Worker) await(s *split, kind wait) {
	if s.links.waiting {
		w.ease(s)
	}
	d := &w.waits[kind]
	s.wait = kind
	s.links = links{earlier: d.last, since: w.now, waiting: true}
	if d.last != nil {
		d.last.links.later = s
	} else {
		d.first = s
	}
	d.last = s
}

// ease ends a flow's wait.
func (w *Worker) ease(s *split) {
	if !s.links.waiting {
		return
	}
	d := &w.waits[s.wait]
	if s.links.earlier != nil {
		s.links.earlier.links.later = s.links.later
	} else {
		d.first = s.links.later
	}
	if s.links.later != nil {
		s.links.later.links.earlier = s.links.earlier
	} else {
		d.last = s.links.earlier
	}
	s.links = links{}
}

// expire ends flows that have waited too long.
func (w *Worker) expire() {
	for kind := range w.waits {
		d := &w.waits[kind]
		for d.after > 0 && d.first != nil && d.first.links.since+d.after <= w.now {
			s := d.first
			if wait(kind) == waitBytes && s.moved+d.after > w.now { // bytes have moved since: no list work for them
				w.ease(s)
				w.await(s, waitBytes)
				s.links.since = s.moved
				continue
			}
			w.expired(s, wait(kind))
		}
	}
}
