package scale

import (
	"context"
	"fmt"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// task is something that every one of a number of clients is to do.
type task struct {
	begin  func(client int, now time.Duration) error
	next   func(now time.Duration) (client int, ok bool) // whose turn it is; not ok: nobody's any more
	atOnce int
}

// done is what came of a task.
type done struct {
	answered int
	took     time.Duration
	times    *hdrhistogram.Histogram // of an answer, ns
	counts   counts
}

// drive has clients do a task. Nobody else uses the crowd and the socket meanwhile.
func (c *crowd) drive(ctx context.Context, s *socket, t task) (done, error) {
	began := time.Now()
	before := c.counts
	d := done{times: hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)}
	buffer := make([]byte, maxFrame)
	var in segment
	var looked time.Duration
	more := true
	for {
		now := time.Since(c.epoch)
		for more && len(c.waiting) < t.atOnce {
			var i int
			if i, more = t.next(now); !more {
				break
			}
			if err := t.begin(i, now); err != nil {
				return d, err
			}
		}
		if len(c.waiting) == 0 {
			break
		}
		ok, err := s.receive(&in, buffer)
		if err != nil {
			return d, err
		}
		now = time.Since(c.epoch)
		if ok {
			if err := c.take(&in, now); err != nil {
				return d, err
			}
			c.settle(c.number(in.to), now, &d)
		}
		if now-looked >= patience {
			looked = now
			if err := ctx.Err(); err != nil {
				return d, err
			}
			if err := c.repeat(now); err != nil {
				return d, err
			}
		}
	}
	d.took = time.Since(began)
	d.counts = c.counts.since(before)
	return d, nil
}

// settle ends a client's wait when that is over.
func (c *crowd) settle(i int, now time.Duration, d *done) {
	w, waits := c.waiting[i]
	if !waits {
		return
	}
	switch c.clients[i].state {
	case idle:
		d.answered++
		_ = d.times.RecordValue(int64(now - w.since)) // over a minute: counted as repeated
		delete(c.waiting, i)
	case ended:
		delete(c.waiting, i)
	}
}

// connectAll has every client connect, ask, and be answered.
func (c *crowd) connectAll(ctx context.Context, s *socket, atOnce int) (done, error) {
	i := -1
	d, err := c.drive(ctx, s, task{begin: c.connect, atOnce: atOnce, next: func(time.Duration) (int, bool) {
		i++
		return i, i < len(c.clients)
	}})
	if err == nil && d.answered < len(c.clients) {
		err = fmt.Errorf("%d of %d sessions were answered: %+v", d.answered, len(c.clients), d.counts)
	}
	return d, err
}

// askAny has clients ask that are drawn by lot, for a time, or until hardly any has a session.
func (c *crowd) askAny(ctx context.Context, s *socket, atOnce int, d time.Duration) (done, error) {
	end := time.Since(c.epoch) + d
	const draws = 1000 // enough when one in a hundred is idle
	return c.drive(ctx, s, task{begin: c.ask, atOnce: atOnce, next: func(now time.Duration) (int, bool) {
		for range draws {
			if i := c.random.IntN(len(c.clients)); c.clients[i].state == idle {
				return i, now < end
			}
		}
		return 0, false
	}})
}

func (c counts) since(before counts) counts {
	return counts{c.Repeated - before.Repeated, c.Ended - before.Ended, c.Foreign - before.Foreign, c.Silent - before.Silent}
}

// serve answers for the farm until stop is closed.
func (f *farm) serve(s *socket, stop <-chan struct{}) error {
	buffer := make([]byte, maxFrame)
	began := time.Now()
	var in segment
	for {
		select {
		case <-stop:
			return nil
		default:
		}
		ok, err := s.receive(&in, buffer)
		if err != nil {
			return err
		}
		if !ok {
			continue
		}
		if out, ok := f.answer(&in, clock(time.Since(began))); ok {
			if err := s.send(&out); err != nil {
				return err
			}
		}
	}
}
