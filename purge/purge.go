// Package purge ends the connections of a server's host whose client has moved away, and tells the client: the server side of
// anycast-aware transport (Al-Qudah et al., WWW 2009, sections 3.1.2 and 3.1.3). See docs/purge.md.
package purge

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/datapath"
	"baton/purge/config"
	"baton/purge/diag"
	"baton/purge/reset"
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
	o       Options
	log     *slog.Logger
	started time.Time
	dp      *datapath.Purge
	diag    *diag.Conn    // of the goroutine that ends connections
	resets  *reset.Sender // nil: it could not be had
	control net.Listener

	features                 []api.Feature
	reloads, reloadsFailed   atomic.Uint64
	resetsSent, resetsFailed atomic.Uint64
	wake                     chan struct{} // the earliest of the queue may be another one

	mu                sync.Mutex // guards what is below
	room              *sync.Cond // in the queue
	queue             *queue
	closed            bool
	cfg               *config.Config // in force
	loaded            time.Time
	lastID, lastCount uint32            // of policies
	names             map[uint32]string // of policies, by the ID that the kernel knows
	counters          map[string]*counters
}

// New loads and attaches everything. Run starts it, and Close ends it.
func New(o Options) (_ *Purge, err error) {
	p := &Purge{
		o: o, log: o.Log, started: time.Now(), wake: make(chan struct{}, 1), queue: newQueue(), names: make(map[uint32]string),
		counters: make(map[string]*counters),
	}
	p.room = sync.NewCond(&p.mu)
	defer func() {
		if err != nil {
			err = errors.Join(err, p.Close())
		}
	}()
	if p.dp, err = datapath.LoadPurge(o.Config.Limits.Marks); err != nil {
		return nil, err
	}
	if p.diag, err = diag.Open(); err != nil {
		return nil, err
	}
	if err := p.diag.Probe(); err != nil {
		return nil, err
	}
	if p.resets, err = reset.Open(); err != nil {
		p.feature("resets", fmt.Errorf("a client that lacks what was sent last is told by whoever gets its challenge ACK alone: %w", err))
		p.resets = nil
	} else {
		p.feature("resets", nil)
	}
	if p.control, err = api.Listen(o.Config.Control); err != nil {
		return nil, fmt.Errorf("%s: control: %w", o.Config.File, err)
	}
	if err := p.setPolicies(o.Config); err != nil {
		return nil, err
	}
	for _, group := range o.Config.Cgroups {
		if err := p.dp.AttachCgroup(group); err != nil {
			return nil, fmt.Errorf("%s: cgroups: %w", o.Config.File, err)
		}
	}
	return p, nil
}

// Close detaches everything, and leaves connections as they are.
func (p *Purge) Close() error {
	var errs []error
	if p.control != nil {
		errs = append(errs, ignoreClosed(p.control.Close()))
	}
	if p.resets != nil {
		errs = append(errs, p.resets.Close())
	}
	if p.diag != nil {
		errs = append(errs, p.diag.Close())
	}
	if p.dp != nil {
		errs = append(errs, p.dp.Close())
	}
	return errors.Join(errs...)
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

func (p *Purge) feature(name string, lacks error) {
	f := api.Feature{Name: name, Used: lacks == nil}
	if lacks != nil {
		f.Reason = lacks.Error()
		p.log.Warn("without "+name, "err", lacks)
	}
	p.features = append(p.features, f)
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
	running.Go(func() error { return api.Serve(ctx, p.control, p.backend()) })
	running.Go(func() error {
		<-ctx.Done()
		p.mu.Lock()
		p.closed = true
		p.room.Broadcast()
		p.mu.Unlock()
		return marks.Close()
	})
	if err := p.dp.Arm(); err != nil {
		p.log.Error("connections of before are not watched", "err", err)
	}
	p.log.Info("ready", "policies", len(p.current().Policies), "cgroups", p.o.Config.Cgroups)
	return running.Wait()
}

func (p *Purge) current() *config.Config {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cfg
}

// read puts the kernel's marks into the queue. While that is full, marks wait in the kernel, and then are made again at the next timeout.
func (p *Purge) read(marks *datapath.PurgeMarks) error {
	some := make([]datapath.PurgeMark, 256)
	for {
		n, err := marks.Next(some)
		now := time.Now()
		p.mu.Lock()
		for _, m := range some[:n] {
			for p.queue.len() >= p.o.Config.Limits.Marks && !p.closed {
				p.room.Wait()
			}
			name := p.names[m.Policy]
			c := p.counters[name]
			if c == nil {
				continue // policies are only added
			}
			c.marked.Add(1)
			if m.Found {
				c.found.Add(1)
			}
			p.queue.add(&waiting{mark: m, policy: name, due: now.Add(m.Within)})
		}
		p.mu.Unlock()
		select {
		case p.wake <- struct{}{}:
		default:
		}
		if errors.Is(err, datapath.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}
