package anycast

import (
	"context"
	"sync"
	"time"

	"baton/anycast/config"
	"baton/anycast/exchange"
)

// others is the state of the sites that announce the same prefixes.
type others struct {
	stale  time.Duration
	cancel context.CancelFunc
	wg     sync.WaitGroup
	stir   func()

	mu    sync.Mutex
	known []other
}

// other is the state of one of them.
type other struct {
	name   string
	report exchange.Report
	at     time.Time // of the report; zero: there was none
	err    string    // of the last poll, "" if it succeeded
}

// watchOthers starts polling. stir is called when a site comes up or goes down. The caller closes it.
func watchOthers(cfg *config.Site, identity *exchange.Identity, stir func()) *others {
	ctx, cancel := context.WithCancel(context.Background())
	o := &others{stale: cfg.Stale, cancel: cancel, stir: stir, known: make([]other, len(cfg.Others))}
	for i, s := range cfg.Others {
		o.known[i].name = s.Name
		o.wg.Go(func() { o.poll(ctx, i, exchange.NewClient(identity, s.Name, s.URL), cfg.Poll) })
	}
	return o
}

func (o *others) poll(ctx context.Context, i int, client *exchange.Client, every time.Duration) {
	defer client.Close()
	beat := time.NewTicker(every)
	defer beat.Stop()
	for {
		bounded, cancel := context.WithTimeout(ctx, every)
		report, err := client.Report(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		o.record(i, report, err, time.Now())
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
		}
	}
}

func (o *others) record(i int, report exchange.Report, err error, at time.Time) {
	o.mu.Lock()
	k := &o.known[i]
	before := o.alive(k, at)
	if err != nil {
		k.err = err.Error()
	} else {
		k.report, k.at, k.err = report, at, ""
	}
	changed := o.alive(k, at) != before
	o.mu.Unlock()
	if changed {
		o.stir()
	}
}

func (o *others) alive(k *other, now time.Time) bool {
	return !k.at.IsZero() && now.Sub(k.at) < o.stale && k.report.Alive()
}

// headroomBelow is the load, as a share of the capacity, below which a site can take over what another one sheds.
const headroomBelow = 0.8

// state reports whether other sites are configured, how many of them are known to be up and announcing, and whether one has headroom. An
// unknown load counts as headroom.
func (o *others) state(now time.Time) (any bool, alive int, headroom bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i := range o.known {
		k := &o.known[i]
		if o.alive(k, now) {
			alive++
			headroom = headroom || k.report.Load < headroomBelow && k.report.Instruction == ""
		}
	}
	return len(o.known) > 0, alive, headroom
}

// all returns the state of each.
func (o *others) all() []other {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]other(nil), o.known...)
}

func (o *others) close() {
	o.cancel()
	o.wg.Wait()
}
