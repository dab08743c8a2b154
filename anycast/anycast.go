// Package anycast announces a service's addresses from several sites, and moves load between them step by step: each site follows its own
// health and load, an operator's instructions and a planner's proposals; a planner sees all sites. See docs/anycast.md.
package anycast

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

	"baton/anycast/config"
	"baton/anycast/exchange"
	"baton/anycast/metrics"
	"baton/daemon"
)

// Options make an Anycast.
type Options struct {
	Config  *config.Config
	Version string
	Log     *slog.Logger
	Load    func() (*config.Config, error) // for a reload
}

// Anycast is a running site, planner or both. Its methods may be called from any goroutine.
type Anycast struct {
	o        Options
	log      *slog.Logger
	started  time.Time
	cfg      atomic.Pointer[config.Config] // in force
	loaded   atomic.Int64                  // when it was read, ns since 1970
	identity exchange.Identity
	site     *site     // nil: there is none
	planning *planning // nil: there is none

	listeners daemon.Listeners
	reports   net.Listener // nil without listen.sites

	changing         sync.Mutex // held during a reload
	reloads, refused atomic.Uint64
}

// New prepares a site or planner: it starts the checks and the BGP sessions, but announces nothing before Run. Run must be called. The error
// wraps api.ErrInUse when another daemon has the control socket.
func New(o Options) (_ *Anycast, err error) {
	a := &Anycast{o: o, log: o.Log, started: time.Now()}
	a.cfg.Store(o.Config)
	a.loaded.Store(time.Now().UnixNano())
	if o.Config.TLS != (config.TLS{}) {
		if err := a.identity.Load(o.Config.TLS); err != nil {
			return nil, fmt.Errorf("%s: tls: %w", o.Config.File, err)
		}
	}
	if err := a.listen(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.unlisten())
		}
	}()
	if o.Config.Site != nil {
		if a.site, err = newSite(o.Config, &a.identity, o.Log); err != nil {
			return nil, err
		}
	}
	if o.Config.Planner != nil {
		if a.planning, err = newPlanning(o.Config, &a.identity, o.Log); err != nil {
			if a.site != nil {
				err = errors.Join(err, a.site.close())
			}
			return nil, err
		}
	}
	return a, nil
}

// listen opens the listeners.
func (a *Anycast) listen() (err error) {
	cfg := a.o.Config
	if a.listeners, err = daemon.Listen(cfg.Listen.Control, cfg.Listen.Metrics); err != nil {
		return fmt.Errorf("%s: %w", cfg.File, err)
	}
	if cfg.Listen.Sites == "" {
		return nil
	}
	if a.reports, err = net.Listen("tcp", cfg.Listen.Sites); err != nil {
		return errors.Join(fmt.Errorf("%s: listen.sites: %w", cfg.File, err), a.listeners.Close())
	}
	return nil
}

// unlisten closes the listeners after a failed start; otherwise the servers close them.
func (a *Anycast) unlisten() error {
	err := a.listeners.Close()
	if a.reports != nil {
		err = errors.Join(err, a.reports.Close())
	}
	return err
}

// Run announces and plans until the context is done. Then the site drains for site.stop, withdraws and closes its sessions; a planner leaves
// everything as it is.
func (a *Anycast) Run(ctx context.Context) error {
	serving, done := context.WithCancel(context.Background())
	defer done()
	var answering, working errgroup.Group
	a.serve(serving, &answering)
	if a.planning != nil {
		working.Go(func() error { return a.planning.run(ctx) })
	}
	if a.site != nil {
		working.Go(func() error { return a.site.run(ctx) })
	}
	cfg := a.current()
	a.log.Info("ready", "name", cfg.Name, "site", cfg.Site != nil, "planner", cfg.Planner != nil)
	err := working.Wait()
	done()
	_ = answering.Wait() // the servers have logged their errors
	return err
}

// serve runs the servers on the listeners until ctx ends.
func (a *Anycast) serve(ctx context.Context, answering *errgroup.Group) {
	answering.Go(func() error {
		a.listeners.Serve(ctx, a.backend(), metrics.Handler(a.o.Version, a.Status), a.log)
		return nil
	})
	if a.reports != nil {
		answering.Go(func() error {
			if err := exchange.Serve(ctx, a.reports, &a.identity, a.site.handlers()); err != nil {
				a.log.Error("other sites and the planner cannot connect any more", "err", err)
			}
			return nil
		})
	}
}

func (a *Anycast) current() *config.Config { return a.cfg.Load() }
