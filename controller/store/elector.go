package store

import (
	"context"
	"crypto/rand"
	"log/slog"
	"sync"
	"time"
)

// elector carries out an election in etcd.
type elector struct {
	cluster *etcd
	changed func() // the term may be another
	log     *slog.Logger
	poke    chan struct{}

	mu       sync.Mutex
	election *election
	last     Term // as last logged
}

func newElector(c *etcd, name string, t Timing, changed func(), log *slog.Logger) *elector {
	if t == (Timing{}) {
		t = DefaultTiming
	}
	// A process that starts again does not take its predecessor's claim for its own: that one may be alive.
	me := name + " " + rand.Text()[:8]
	return &elector{cluster: c, changed: changed, log: log, poke: make(chan struct{}, 1), election: newElection(me, t)}
}

// run takes part until the context ends.
func (l *elector) run(ctx context.Context) {
	var working sync.WaitGroup
	defer working.Wait()
	working.Go(func() { l.observing(ctx) })
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-l.poke:
		}
		l.mu.Lock()
		a, next := l.election.tick(time.Now())
		l.mu.Unlock()
		l.announce()
		if a.kind != doNothing {
			working.Go(func() { l.carryOut(ctx, a) })
		}
		timer.Reset(time.Until(next))
	}
}

func (l *elector) carryOut(ctx context.Context, a action) {
	ctx, cancel := context.WithTimeout(ctx, l.election.timing.Stop) // an answer after it is of no use
	defer cancel()
	written, o, err := l.cluster.carryOut(ctx, a, l.election.me)
	if err != nil {
		l.log.Debug("the election has no answer of the store", "err", err)
	}
	l.mu.Lock()
	l.election.done(time.Now(), a, written, o, err)
	l.mu.Unlock()
	wake(l.poke)
}

func (l *elector) observing(ctx context.Context) {
	for ctx.Err() == nil {
		err := l.cluster.observe(ctx, writeTimeout, func(o observation) {
			l.mu.Lock()
			l.election.observe(time.Now(), o)
			l.mu.Unlock()
			wake(l.poke)
		})
		l.log.Debug("the election is not watched", "err", err)
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// announce tells the store about another term.
func (l *elector) announce() {
	now := l.now()
	l.mu.Lock()
	before := l.last
	l.last = now
	l.mu.Unlock()
	if now == before {
		return
	}
	switch {
	case now.Master:
		l.log.Info("this controller is the master", "generation", now.Generation)
	case before.Master:
		l.log.Warn("this controller is not the master any more", "why", now.Why)
	}
	l.changed()
}

// now returns the term at this moment: also after a pause of the process, before anything else has run.
func (l *elector) now() Term {
	l.mu.Lock()
	defer l.mu.Unlock()
	e := l.election
	if e.is(time.Now()) {
		return Term{Master: true, Generation: e.term, Holder: e.me}
	}
	why := e.why
	if e.master {
		why = "the store did not answer in time"
	}
	return Term{Generation: e.seen.Generation, Holder: e.seen.Holder, Why: why}
}

// fence returns the revision of the master's claim, or false if this is not the master.
func (l *elector) fence() (int64, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.election.seen.revision, l.election.is(time.Now())
}

func (l *elector) raise(above uint64) {
	l.mu.Lock()
	l.election.raise(above)
	l.mu.Unlock()
	wake(l.poke)
}

// resign lets another controller become the master without waiting.
func (l *elector) resign(ctx context.Context) {
	l.mu.Lock()
	held, is := l.election.seen, l.election.is(time.Now())
	l.election.lose("it has resigned")
	l.mu.Unlock()
	if !is {
		return
	}
	if err := l.cluster.resign(ctx, held); err != nil {
		l.log.Warn("the mastership could not be given up: another controller waits for its end", "err", err)
	}
}
