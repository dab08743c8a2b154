// Package controller is the SDN controller of the paper: it makes one network of OpenFlow 1.3 switches, Baton's forwarders and others, and serves a
// northbound interface. See docs/controller.md.
package controller

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/controller/config"
	"baton/controller/network"
	"baton/controller/northbound"
	"baton/controller/store"
	"baton/controller/switches"
	"baton/controller/topology"
	"baton/daemon"
	"baton/openflow"
	"baton/packet"
)

// Options make a Controller.
type Options struct {
	Config  *config.Config
	Version string
	Log     *slog.Logger
	Load    func() (*config.Config, error) // for a reload
	Page    http.Handler                   // of the northbound; nil: none
}

// Controller is a running controller. Its methods may be called from any goroutine.
type Controller struct {
	o         Options
	log       *slog.Logger
	started   time.Time
	switches  *switches.Server
	network   *network.Network
	store     *store.Store
	hub       *northbound.Hub
	cdn       *cdn               // nil: only a network
	north     *northbound.Server // nil: none
	listeners daemon.Listeners
	openflow  []net.Listener
	web       net.Listener // of the northbound
	encrypted *tls.Config  // of the northbound; nil: not

	reloads, reloadsFailed atomic.Uint64
	news                   chan struct{} // the topology has changed
	terms                  chan struct{} // the store's term has changed
	edits                  chan struct{} // another controller has changed records of the store

	mu     sync.Mutex // guards what is below
	cfg    *config.Config
	loaded time.Time
	edges  map[topology.Point]bool
	known  map[uint64]switches.Known
	moved  map[packet.MAC]topology.Host // hosts whose records are to be written
	left   map[packet.MAC]bool          // hosts whose records are to be removed
}

// New opens the store and the listeners. Run starts the controller; Close is for one that is not run.
func New(ctx context.Context, o Options) (*Controller, error) {
	c := &Controller{
		o: o, log: o.Log, started: time.Now(), hub: northbound.NewHub(), news: make(chan struct{}, 1), terms: make(chan struct{}, 1),
		edits: make(chan struct{}, 1),
		moved: map[packet.MAC]topology.Host{}, left: map[packet.MAC]bool{},
	}
	c.use(o.Config)
	c.switches = switches.New(switches.Options{
		Log: o.Log, TLS: func() *tls.Config { return c.config().Identity }, Stale: c.stale,
		Known: func() (map[uint64]switches.Known, bool) {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.known, c.cfg.Only
		},
	})
	c.network = network.New(c.switches, network.Options{
		Log: o.Log, Key: o.Config.Key, Interval: o.Config.Discovery.Interval, Cache: o.Config.Paths.Cache, Spread: o.Config.Paths.Spread,
		Edge: func(at topology.Point) bool {
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.edges[at]
		},
	})
	c.network.OnChange(c.changed)
	c.switches.Watch(func(switches.Event) { wake(c.news) })
	// Behind the network's first handler, which has refused what is forged, and before its last, which sends on what nobody has taken.
	err := c.serveCDN()
	c.switches.Handle(c.network.Forward)
	if err == nil {
		err = c.open(ctx)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", o.Config.File, err), c.Close())
	}
	return c, nil
}

// open opens the store and the listeners.
func (c *Controller) open(ctx context.Context) (err error) {
	cfg := c.o.Config
	settings, err := cfg.Store.Config()
	if err != nil {
		return err
	}
	settings.Name, settings.Log = cfg.Name, c.log
	settings.Mastered = func(store.Term) { wake(c.terms) }
	settings.Changed = func(string) { wake(c.edits) }
	if c.store, err = store.Open(ctx, settings); err != nil {
		return err
	}
	c.network.Remember(c.remembered())
	c.cdn.changed()
	if c.listeners, err = daemon.Listen(cfg.Listen.Control, cfg.Listen.Metrics); err != nil {
		return err
	}
	for _, e := range cfg.Listen.OpenFlow {
		l, err := c.switches.Listen(ctx, e.Method, e.Address)
		if err != nil {
			return fmt.Errorf("listen.openflow: %s: %w", e, err)
		}
		c.openflow = append(c.openflow, l)
	}
	if cfg.Northbound == nil {
		return nil
	}
	access, encrypted, err := cfg.Northbound.Load()
	if err != nil {
		return fmt.Errorf("northbound: %w", err)
	}
	c.encrypted = encrypted
	if c.web, err = new(net.ListenConfig).Listen(ctx, "tcp", cfg.Northbound.Listen.String()); err != nil {
		return fmt.Errorf("northbound: %w", err)
	}
	c.north = northbound.New(northbound.Config{
		Source: c.source(), Calls: c.cdn.calls(), Hub: c.hub, Access: access, Names: cfg.Northbound.Names, Origins: cfg.Northbound.Origins,
		Page: c.o.Page, Version: c.o.Version, Log: c.log,
	})
	return nil
}

// use makes a configuration the present one.
func (c *Controller) use(cfg *config.Config) {
	edges, known := map[topology.Point]bool{}, map[uint64]switches.Known{}
	for _, s := range cfg.Switches {
		known[s.ID] = switches.Known{Name: s.Name, Core: s.Core}
		for _, p := range s.Edge {
			edges[topology.Point{Switch: s.ID, Port: p}] = true
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cfg, c.loaded, c.edges, c.known = cfg, time.Now(), edges, known
}

func (c *Controller) config() *config.Config {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cfg
}

// Run runs the controller until the context ends. Flow entries stay at the switches.
func (c *Controller) Run(ctx context.Context) error {
	defer func() {
		if err := c.store.Close(); err != nil {
			c.log.Error("close the store", "err", err)
		}
	}()
	c.follow(ctx) // no switch before the role is known
	networked, stop := context.WithCancel(context.WithoutCancel(ctx))
	ran := make(chan struct{})
	go func() { c.network.Run(networked); close(ran) }()
	running, ctx := errgroup.WithContext(ctx)
	running.Go(func() error { return c.switches.Serve(ctx, c.openflow...) })
	running.Go(func() error { c.publish(ctx); return nil })
	running.Go(func() error { c.cdn.run(ctx); return nil })
	running.Go(func() error {
		c.listeners.Serve(ctx, c.backend(), c.metrics().Handler(c.o.Version), c.log)
		return nil
	})
	if c.north != nil {
		running.Go(func() error { return c.north.Serve(ctx, c.web, c.encrypted) })
	}
	c.log.Info("ready", "listen", endpoints(c.o.Config), "name", c.o.Config.Name)
	err := running.Wait()
	stop() // behind the last switch, whose packets start its work
	<-ran
	return err
}

// Close releases what New has opened if Run was never called.
func (c *Controller) Close() error {
	var errs []error
	for _, l := range c.openflow {
		errs = append(errs, l.Close())
	}
	if c.web != nil {
		errs = append(errs, c.web.Close())
	}
	if c.cdn != nil && c.cdn.manager != nil {
		c.cdn.manager.Close()
	}
	if c.store != nil {
		errs = append(errs, c.store.Close())
	}
	return errors.Join(append(errs, c.listeners.Close())...)
}

func endpoints(cfg *config.Config) []string {
	var all []string
	for _, e := range cfg.Listen.OpenFlow {
		all = append(all, e.String())
	}
	return all
}

// follow takes the role of the store's term at all switches.
func (c *Controller) follow(ctx context.Context) {
	term := c.store.Term()
	role := openflow.RoleSlave
	if term.Master {
		role = openflow.RoleMaster
		c.network.Remember(c.remembered()) // also what another master has recorded since the start
		c.renewHosts(time.Now())
		c.cdn.restore()
	}
	c.log.Info("role", "master", term.Master, "generation", term.Generation, "holder", term.Holder, "why", term.Why)
	ctx, cancel := context.WithTimeout(ctx, roleTime)
	defer cancel()
	if err := c.switches.SetRole(ctx, role, term.Generation); err != nil {
		c.log.Error("a switch has not taken the role", "err", err)
	}
	switch {
	case term.Master:
		c.cdn.follow(ctx)
	case c.north != nil:
		c.north.Dismiss("this controller is not the master any more")
	}
}

// roleTime bounds the change of roles at all switches.
const roleTime = 10 * time.Second

// stale asks the store for a generation above one that a switch has seen.
func (c *Controller) stale(_, seen uint64) {
	if !c.store.Term().Master {
		return
	}
	if err := c.store.Raise(seen); err != nil {
		c.log.Error("cannot raise the generation", "err", err)
	}
}

func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
