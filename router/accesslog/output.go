package accesslog

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"baton/router/config"
)

const (
	flushEvery  = 500 * time.Millisecond // a record is written at the latest after a second
	wakeAt      = 64 << 10               // bytes that are worth a write
	firstPause  = 500 * time.Millisecond // after a failure, doubled with each
	longestWait = 8 * time.Second
	lossesEvery = time.Minute // how often losses are logged while nothing else fails
)

// sink is where an output's records go. One goroutine uses it.
type sink interface {
	// deliver is done with records of the batch from its next one on. What is left when it fails is tried again, unless it gave it up.
	deliver(ctx context.Context, b *batch) error
	// refresh looks whether the destination is still the one that is meant; it opens it again in any case when it is told to.
	refresh(reopen bool) error
	close() error
}

// later is a failure whose cause has said when to try again.
type later struct {
	error
	after time.Duration
}

// Stats is what has become of the records of an output.
type Stats struct {
	Output  string // "file /var/log/baton/access.log"
	Written uint64
	Skipped uint64 // not in the sample
	Lost    map[string]uint64
	Waiting int   // bytes
	Err     error // why nothing is written now; nil: it is
}

// output is one destination with its queue.
type output struct {
	cfg    config.AccessLog
	name   string
	format format
	sink   sink
	log    *slog.Logger

	mu      sync.Mutex
	filling *batch // what comes; the sink has the other one meanwhile
	closed  bool
	written uint64
	skipped uint64
	lost    [reasons]uint64
	err     error

	wake     chan struct{}
	reopen   atomic.Bool
	stop     chan struct{}
	done     chan struct{}
	cancel   context.CancelFunc
	pause    time.Duration
	retry    time.Time
	reported uint64 // losses that were logged
	lastLoss time.Time
}

func newOutput(cfg config.AccessLog, f format, s sink, log *slog.Logger) *output {
	ctx, cancel := context.WithCancel(context.Background())
	o := &output{
		cfg: cfg, name: nameOf(&cfg), format: f, sink: s, log: log,
		filling: new(batch), wake: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}), cancel: cancel,
	}
	go o.run(ctx)
	return o
}

func nameOf(cfg *config.AccessLog) string {
	switch cfg.To {
	case config.LogToFile:
		return "file " + cfg.Path
	case config.LogToSyslog:
		return "syslog " + cfg.Address.String()
	case config.LogToOTLP:
		return "otlp " + cfg.Endpoint.Scheme + "://" + cfg.Endpoint.Host + cfg.Endpoint.Path // a query may hold a key
	}
	return string(cfg.To)
}

// takes tells whether the record is in the sample.
func (o *output) takes(r *Record) bool {
	return o.cfg.Sample >= 1 || o.cfg.Errors && r.Error() || r.share() < o.cfg.Sample
}

// add puts records into the queue. It never waits for the sink.
func (o *output) add(records []Record, logged func(*Record) bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range records {
		r := &records[i]
		switch {
		case !logged(r):
		case !o.takes(r):
			o.skipped++
		case o.closed:
			o.lost[LostClosing]++
		case len(o.filling.data) >= o.cfg.Queue:
			o.lost[LostQueue]++
		default:
			o.filling.add(o.format, r)
		}
	}
	if len(o.filling.data) >= wakeAt {
		o.wakeUp()
	}
}

func (o *output) wakeUp() {
	select {
	case o.wake <- struct{}{}:
	default:
	}
}

func (o *output) stats() Stats {
	o.mu.Lock()
	defer o.mu.Unlock()
	s := Stats{Output: o.name, Written: o.written, Skipped: o.skipped, Lost: make(map[string]uint64), Waiting: len(o.filling.data), Err: o.err}
	for r, n := range o.lost {
		s.Lost[Reason(r).String()] = n
	}
	return s
}

// run writes until the output is closed.
func (o *output) run(ctx context.Context) {
	defer close(o.done)
	tick := time.NewTicker(flushEvery)
	defer tick.Stop()
	sending := new(batch)
	for {
		select {
		case <-o.stop:
			o.finish(ctx, sending)
			return
		case <-tick.C:
			o.refresh()
		case <-o.wake:
			if o.reopen.Load() {
				o.flush(ctx, &sending) // what was logged before belongs into the old file
				o.refresh()
			}
		}
		o.flush(ctx, &sending)
		o.reportLosses(time.Now())
	}
}

func (o *output) refresh() {
	reopen := o.reopen.Swap(false)
	if reopen {
		o.retry = time.Time{} // somebody has seen to it
	}
	if err := o.sink.refresh(reopen); err != nil {
		o.rest(err)
	}
}

// flush writes what waits, unless the pause after a failure is not over.
func (o *output) flush(ctx context.Context, sending **batch) {
	if time.Now().Before(o.retry) {
		return
	}
	if (*sending).left() == 0 {
		*sending = o.swap(*sending)
	}
	if (*sending).left() == 0 {
		return
	}
	err := o.sink.deliver(ctx, *sending)
	o.account(*sending)
	switch {
	case err == nil:
		o.works()
	case (*sending).left() == 0:
		o.fails(err) // it has given records up: a pause would cost others
	default:
		o.rest(err)
	}
}

// swap takes what has come and leaves an empty batch for what comes.
func (o *output) swap(empty *batch) *batch {
	empty.reset()
	o.mu.Lock()
	defer o.mu.Unlock()
	full := o.filling
	o.filling = empty
	return full
}

// account counts what a delivery was done with.
func (o *output) account(b *batch) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.written += b.written
	for i, n := range b.lost {
		o.lost[i] += n
	}
	b.written, b.lost = 0, [reasons]uint64{}
}

// rest begins a pause after a failure, a longer one after each.
func (o *output) rest(err error) {
	o.pause = min(max(2*o.pause, firstPause), longestWait)
	wait := o.pause
	if l := (later{}); errors.As(err, &l) {
		wait = max(wait, l.after)
	}
	o.retry = time.Now().Add(wait)
	o.fails(err)
}

// fails says what is wrong when all was well before.
func (o *output) fails(err error) {
	o.mu.Lock()
	first := o.err == nil
	o.err = err
	o.mu.Unlock()
	if first {
		o.log.Warn("access log is not written", "to", o.name, "err", err)
	}
}

func (o *output) works() {
	o.pause, o.retry = 0, time.Time{}
	o.mu.Lock()
	was := o.err
	o.err = nil
	o.mu.Unlock()
	if was != nil {
		o.log.Info("access log is written again", "to", o.name, "lost", o.losses())
	}
}

func (o *output) losses() (n uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, lost := range o.lost {
		n += lost
	}
	return n
}

// reportLosses logs from time to time that records are lost.
func (o *output) reportLosses(now time.Time) {
	if n := o.losses(); n > o.reported && now.Sub(o.lastLoss) >= lossesEvery {
		o.log.Warn("access log has lost records", "to", o.name, "records", n-o.reported)
		o.reported, o.lastLoss = n, now
	}
}

// finish writes what is left, as long as that works at once.
func (o *output) finish(ctx context.Context, sending *batch) {
	o.retry = time.Time{}
	for range 2 { // what was on its way, and what has come meanwhile
		o.flush(ctx, &sending)
		if sending.left() > 0 {
			break
		}
	}
	last := o.swap(new(batch))
	for _, b := range []*batch{sending, last} {
		b.lose(b.left(), LostClosing)
		o.account(b)
	}
	if err := o.sink.close(); err != nil {
		o.log.Warn("access log is not closed", "to", o.name, "err", err)
	}
	if n := o.losses(); n > o.reported {
		o.log.Warn("access log has lost records", "to", o.name, "records", n-o.reported)
	}
}

// shut takes no more records and has the others written, for a grace at most. A sink that does not return is left behind.
func (o *output) shut(grace time.Duration) {
	o.mu.Lock()
	o.closed = true
	o.mu.Unlock()
	close(o.stop)
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-o.done:
	case <-timer.C:
		o.cancel()
		select {
		case <-o.done:
		case <-time.After(grace):
			o.log.Warn("access log does not end", "to", o.name)
		}
	}
	o.cancel()
}
