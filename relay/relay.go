// Package relay splits TCP connections. A flow enters at one relay, may pass others over pre-opened trunks, and leaves the last one towards
// its server. Each part has its own windows, loss recovery and congestion control. See docs/relay.md.
package relay

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
	kernel "baton/datapath/relay"
	"baton/relay/config"
	"baton/relay/metrics"
	"baton/relay/secure"
	"baton/relay/worker"
)

// Options make a Relay.
type Options struct {
	Config  *config.Config
	Version string
	Log     *slog.Logger
	Load    func() (*config.Config, error) // for a reload
}

// Relay is a running relay. Its methods may be called from any goroutine.
type Relay struct {
	o          Options
	log        *slog.Logger
	started    time.Time
	cfg        atomic.Pointer[config.Config] // in force
	loaded     atomic.Int64                  // when it was read, ns since 1970
	applied    atomic.Bool                   // the initial configuration is applied, in the kernel too
	workers    []*worker.Worker
	identities secure.Identities // of TLS trunks
	kernel     *programs         // nil: not available, and not required
	kernelErr  error             // why kernel is nil

	features         atomic.Pointer[[]api.Feature]
	reloads, refused atomic.Uint64 // reloads that were applied, and that were refused
	listeners        daemon.Listeners

	changing sync.Mutex // held while a configuration is applied; guards the fields below
	open     open
	stopping bool

	planning   sync.Mutex    // held while a plan is made
	nextProber atomic.Uint64 // selects the worker of the next probe
	choosing   *choosing
	ending     sync.Once
	ended      chan struct{} // closed when it is to stop
}

// New prepares a relay. Run must be called to start it. The error wraps api.ErrInUse if another daemon has the control socket.
func New(o Options) (_ *Relay, err error) {
	r := &Relay{o: o, log: o.Log, started: time.Now(), ended: make(chan struct{})}
	r.cfg.Store(o.Config)
	r.loaded.Store(time.Now().UnixNano())
	if err := r.identities.Load(o.Config); err != nil {
		return nil, err
	}
	// Listen before loading programs: another relay may be running.
	if r.listeners, err = daemon.Listen(o.Config.Control, o.Config.Metrics); err != nil {
		return nil, fmt.Errorf("%s: %w", o.Config.File, err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.abandon())
		}
	}()
	count := o.Config.Workers
	if count == 0 {
		count = runtime.NumCPU()
	}
	k, err := openPrograms(o.Config, count, o.Log)
	if err != nil {
		if why := unmet(o.Config, err); why != "" {
			return nil, fmt.Errorf("%s: %s: %w", o.Config.File, why, err)
		}
		o.Log.Warn("no kernel programs: trunks use the system's initial window, and early SYN is off", "err", err)
	}
	r.kernel, r.kernelErr = k, err
	r.choosing = newChoosing(r)
	r.choosing.configure(o.Config)
	for i := range count {
		options := worker.Options{Index: i, Of: count, Log: o.Log, Identities: &r.identities, Routes: r.choosing.routes}
		if k != nil {
			options.SYNs, options.Settle, options.Measured, options.Mark = k.syns(i), k.Settle, k.turbo.Measured, kernel.Mark
			options.Outgrown, options.Listeners = k.turbo.Outgrown, &worker.Listeners{FD: k.dp.ListenersFD(), Set: k.dp.SetListener}
		}
		w, err := worker.New(options, o.Config)
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, w)
	}
	return r, nil
}

// abandon releases the resources of a failed New.
func (r *Relay) abandon() error {
	err := r.listeners.Close()
	if r.kernel != nil {
		err = errors.Join(err, r.kernel.close())
	}
	return err
}

// Run runs the relay until the context is done or Stop is called, and then until all flows have ended or timeouts.stop has passed.
func (r *Relay) Run(ctx context.Context) error {
	runtime.GOMAXPROCS(len(r.workers) + 2) // each worker keeps a thread
	var running, serving errgroup.Group
	failed := make(chan error, len(r.workers))
	for _, w := range r.workers {
		running.Go(func() error {
			err := w.Run()
			if err != nil {
				failed <- err
			}
			return err
		})
	}
	r.checkFeatures(r.current())
	asked, done := context.WithCancel(context.Background())
	defer done()
	serving.Go(func() error {
		r.listeners.Serve(asked, r.backend(), metrics.Handler(r.o.Version, r.Status), r.log)
		return nil
	})
	serving.Go(func() error { r.choosing.run(asked); return nil })
	if r.kernel != nil {
		r.kernel.start()
	}
	err := r.apply(r.current())
	if err == nil {
		r.applied.Store(true)
		r.log.Info("ready", "name", r.current().Name, "entries", len(r.current().Entries), "peers", len(r.current().Peers), "workers", len(r.workers))
		select {
		case <-ctx.Done():
			r.Stop()
			r.finish()
		case <-r.ended:
			r.finish()
		case err = <-failed:
		}
	}
	for _, w := range r.workers {
		w.Close()
	}
	done()
	_ = serving.Wait() // errors were logged
	err = errors.Join(err, running.Wait())
	if r.kernel != nil {
		err = errors.Join(err, r.kernel.close())
	}
	return err
}

func (r *Relay) current() *config.Config { return r.cfg.Load() }

// Live is the number of flows.
func (r *Relay) Live() (n int) {
	for _, w := range r.workers {
		n += int(w.Counters().Live.Load())
	}
	return n
}

// finish closes the listeners and waits for the remaining flows.
func (r *Relay) finish() {
	cfg := r.current()
	r.changing.Lock()
	r.stopping = true
	err := r.open.change(r.workers, &config.Config{})
	r.changing.Unlock()
	if err != nil {
		r.log.Error("stop", "err", err)
	}
	r.log.Info("stopping", "flows", r.Live(), "at most", cfg.Timeouts.Stop)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(cfg.Timeouts.Stop); r.Live() > 0 && time.Now().Before(end); {
		<-tick.C
	}
	if n := r.Live(); n > 0 {
		r.log.Warn("flows are reset", "flows", n)
	}
}
