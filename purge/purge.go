// Package purge ends connections of a server whose client has moved away, and resets the client: the server side of
// anycast-aware transport (Al-Qudah et al., WWW 2009, sections 3.1.2 and 3.1.3). See docs/purge.md.
package purge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/daemon"
	"baton/datapath"
	kernel "baton/datapath/purge"
	"baton/purge/config"
	"baton/purge/metrics"
	"baton/purge/reset"
	"baton/sockdiag"
)

// Options make a Purge.
type Options struct {
	Config  *config.Config
	Version string
	Log     *slog.Logger
	Load    func() (*config.Config, error) // for a reload
}

// Purge is a running purge. Its methods may be called from any goroutine.
type Purge struct {
	o         Options
	log       *slog.Logger
	started   time.Time
	dp        *kernel.Purge
	diags     []*sockdiag.Conn // one for each goroutine that ends connections
	resets    *reset.Sender    // nil: no CAP_NET_RAW
	listeners daemon.Listeners

	features                 []api.Feature
	reloads, reloadsFailed   atomic.Uint64
	resetsSent, resetsFailed atomic.Uint64
	failure                  atomic.Pointer[error] // the last one of ending a connection
	wake                     chan struct{}         // the head of the queue may have changed

	mu                sync.Mutex // guards what is below
	notFull           *sync.Cond // the queue
	queue             *queue
	closed            bool
	cfg               *config.Config // in force
	loaded            time.Time
	lastID, lastCount uint32            // of policies
	names             map[uint32]string // of policies, by the ID that the kernel knows
	rules             map[string]rule   // by the policies' names; replaced, never changed
	missing           []string          // control groups that do not exist; replaced, never changed
}

// mostEnders bounds how many goroutines end connections, so that servers have processors left.
const mostEnders = 4

// New loads and attaches everything. Run starts it, and Close ends it.
func New(o Options) (_ *Purge, err error) {
	p := &Purge{
		o: o, log: o.Log, started: time.Now(), wake: make(chan struct{}, 1), queue: newQueue(), names: make(map[uint32]string),
	}
	p.notFull = sync.NewCond(&p.mu)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if err := datapath.Require("purge", Needs); err != nil {
		return nil, err
	}
	for range min(runtime.GOMAXPROCS(0), mostEnders) {
		c, err := sockdiag.Open()
		if err != nil {
			return nil, err
		}
		p.diags = append(p.diags, c)
	}
	var lacks error
	if p.resets, lacks = reset.Open(); lacks != nil {
		lacks = fmt.Errorf("a client that misses the last bytes sent is reset only by the host that gets its challenge ACK: %w", lacks)
	}
	p.feature("resets", lacks)
	orphans := p.feature("orphans", p.diags[0].ProbeOrphans())
	if p.dp, err = kernel.Load(kernel.Options{Marks: o.Config.Limits.Marks, Orphans: orphans}); err != nil {
		return nil, err
	}
	if p.listeners, err = daemon.Listen(o.Config.Control, o.Config.Metrics); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Config.File, err)
	}
	if err := p.setPolicies(o.Config); err != nil {
		return nil, err
	}
	if _, err := p.attach(); err != nil {
		return nil, fmt.Errorf("%s: cgroups: %w", o.Config.File, err)
	}
	return p, nil
}

// feature records whether an optional feature is available. lacks is nil, or why not.
func (p *Purge) feature(name string, lacks error) bool {
	f := api.Feature{Name: name, Used: lacks == nil}
	if lacks != nil {
		f.Reason = lacks.Error()
		p.log.Warn("without "+name, "err", lacks)
	}
	p.features = append(p.features, f)
	return f.Used
}

// Close detaches everything, and leaves connections as they are.
func (p *Purge) Close() error {
	errs := []error{p.listeners.Close()}
	if p.resets != nil {
		errs = append(errs, p.resets.Close())
	}
	for _, c := range p.diags {
		errs = append(errs, c.Close())
	}
	if p.dp != nil {
		errs = append(errs, p.dp.Close())
	}
	return errors.Join(errs...)
}

// Run watches until the context is done.
func (p *Purge) Run(ctx context.Context) error {
	marks, err := p.dp.Marks()
	if err != nil {
		return err
	}
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return p.read(marks) })
	running.Go(func() error { return p.end(ctx) })
	running.Go(func() error { p.report(ctx); return nil })
	running.Go(func() error {
		p.listeners.Serve(ctx, p.backend(), metrics.Handler(p.o.Version, p.Status), p.log)
		return nil
	})
	running.Go(func() error {
		<-ctx.Done()
		p.mu.Lock()
		p.closed = true
		p.notFull.Broadcast()
		p.mu.Unlock()
		return marks.Close()
	})
	p.arm()
	running.Go(func() error { p.follow(ctx); return nil })
	p.log.Info("ready", "policies", len(p.current().Policies), "cgroups", p.o.Config.Cgroups)
	return running.Wait()
}

func (p *Purge) current() *config.Config {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cfg
}

// arm watches existing connections. New ones are watched in any case.
func (p *Purge) arm() {
	if err := p.dp.Arm(); err != nil {
		p.log.Error("existing connections are not watched", "err", err)
	}
}

// read queues the kernel's marks. While the queue is full they wait in the kernel; those dropped there are made again at the next timeout.
func (p *Purge) read(marks *kernel.Marks) error {
	some := make([]kernel.Mark, 256)
	for {
		n, err := marks.Next(some)
		p.put(some[:n], time.Now())
		if errors.Is(err, datapath.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// put queues marks, and waits while the queue is full.
func (p *Purge) put(marks []kernel.Mark, now time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range marks {
		m := &marks[i]
		for p.queue.len() >= p.o.Config.Limits.Marks && !p.closed {
			p.awake() // a new entry may be due first
			p.notFull.Wait()
		}
		name := p.names[m.Policy]
		c := p.rules[name]
		if c.counters == nil {
			continue // its policy was removed two reloads ago
		}
		c.marked.Add(1)
		if m.Found {
			c.found.Add(1)
		}
		p.queue.add(&waiting{mark: *m, policy: name, due: now.Add(m.Within)})
	}
	p.awake()
}

// awake wakes end, which then checks the queue.
func (p *Purge) awake() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
