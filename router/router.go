package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/daemon"
	"baton/datapath"
	kernel "baton/datapath/router"
	"baton/router/accesslog"
	"baton/router/certs"
	"baton/router/config"
	"baton/router/discover"
	"baton/router/fallback"
	"baton/router/health"
	"baton/router/legs"
	"baton/router/metrics"
	"baton/router/outcome"
	"baton/router/policies"
	"baton/router/quic"
	"baton/router/route"
	"baton/router/sources"
	"baton/router/state"
	"baton/router/upcall"
	"baton/router/vips"
)

// Options of a Router.
type Options struct {
	Config  *config.Config
	Load    func() (*config.Config, error) // for reloads
	Version string
	Log     *slog.Logger
}

// Router is a running request router. It makes its parts, starts them, applies configurations to them, and closes them; none
// of them knows it.
type Router struct {
	o       Options
	log     *slog.Logger
	started time.Time
	closing sync.Once

	kernel     *kernel.Router
	tap        *datapath.Tap
	wire       *legs.RawWire
	legs       *legs.Manager
	health     *health.Checker
	metrics    *metrics.Metrics
	access     *accesslog.Writer
	records    *accesslog.KernelRecords
	addresses  *vips.Addresses
	oldSockets vips.TimeWaits
	servers    *vips.Servers
	decider    *upcall.Decider
	quic       *quic.Service
	sources    *sources.Sources
	policies   *policies.Policies
	certs      *certs.Watcher

	clock   clock
	queued  int   // capacity for idle legs per surrogate and class
	noPorts error // why there are no ports for legs

	snapshot               atomic.Pointer[state.Snapshot]
	loaded                 atomic.Int64 // unix nanoseconds
	reloads, reloadsFailed atomic.Uint64
	changed                chan struct{} // the kernel's tables are to be updated

	reloading sync.Mutex // held while the configuration in force is changed
	mtu       int        // smallest of the clients' interfaces; guarded by reloading once running

	// spawn starts a task that ends with Run, whose error ends Run. Run sets it, under reloading.
	spawn func(task func(ctx context.Context) error)
}

// New adopts the data path or creates one. Nothing is attached or answered before Run. Close undoes it.
func New(o Options) (_ *Router, err error) {
	r := &Router{
		o: o, log: o.Log, started: time.Now(), metrics: metrics.New(), certs: certs.NewWatcher(), changed: make(chan struct{}, 1),
	}
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	cfg := o.Config
	if err := Check(cfg); err != nil { // before touching the state
		return nil, err
	}
	if r.access, err = accesslog.Open(cfg, o.Version, o.Log); err != nil {
		return nil, err
	}
	ports, err := r.openHost(cfg)
	if err != nil {
		return nil, err
	}
	r.makeLegs(ports)
	r.makeDeciders()
	c, err := r.compileFirst(cfg)
	if err != nil {
		return nil, err
	}
	r.health, err = health.New(health.Options{
		Targets: targets(c.Config), OnChange: r.healthChanged, OnCheck: r.metrics.Checked, OnSeen: r.certs.LookAgain, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	if err := drain(r.health, c); err != nil {
		return nil, err
	}
	r.snapshot.Store(r.policies.Snapshot(c))
	r.loaded.Store(time.Now().UnixNano())
	return r, nil
}

// openHost opens what the router has of this host: the data path, the tap and raw sockets. It returns the ports for legs.
func (r *Router) openHost(cfg *config.Config) (ports legs.PortRange, err error) {
	r.queued = queueSize(cfg)
	if r.mtu, err = checkHost(cfg); err != nil {
		return ports, err
	}
	ports, r.noPorts = legs.FreePorts()
	if err := needsPorts(cfg, r.noPorts); err != nil {
		return ports, err
	}
	r.kernel, err = kernel.Open(kernel.Options{
		State: cfg.Listen.State, Sessions: cfg.Limits.Sessions, Pending: cfg.Limits.Pending, Legs: r.queued, Hosts: route.RoomFor(cfg).Hosts,
	})
	if err != nil {
		return ports, err
	}
	if r.clock, err = setClock(r.kernel, r.mtu); err != nil {
		return ports, err
	}
	if r.wire, err = legs.OpenWire(r.kernel); err != nil {
		return ports, err
	}
	if r.tap, err = datapath.OpenTap("baton%d"); err != nil {
		return ports, err
	}
	r.addresses = &vips.Addresses{Tap: r.tap.Ifindex}
	return ports, nil
}

func (r *Router) makeLegs(ports legs.PortRange) {
	r.legs = legs.New(legs.Options{
		Kernel: r.kernel, Wire: r.wire, Routes: legs.Netlink{}, Ports: ports,
		Now: time.Now, Timestamp: r.clock.timestamp, MSS: r.clock.mss, Log: r.log,
		Failed:  func(surrogate, kind string) { r.health.ReportFailure(surrogate, kind) },
		Doubted: func(surrogate string) { r.health.Suspect(surrogate) },
		Changed: r.notify,
		Event:   r.metrics.LegEvent,
	})
}

// makeDeciders makes the parts that decide about clients, and what they decide by.
func (r *Router) makeDeciders() {
	stateOf := func(surrogate string) health.State { return r.health.State(surrogate) }
	sessions := func(id uint16) uint64 { return countSessions(r.kernel, id) }
	r.policies = policies.New(policies.Options{
		Log: r.log, Snapshot: r.current, Health: stateOf, Sessions: sessions, Changed: r.notify, Decided: r.metrics.PolicyDecided,
		QUICSessions: func(surrogate netip.AddrPort) int { return r.quic.Sessions(surrogate) },
	})
	r.quic = quic.NewService(quic.ServiceOptions{
		Access: r.access, Log: r.log, Snapshot: r.current, Sessions: sessions,
		AddAddress: r.addresses.Add, RemoveAddress: r.addresses.Remove, Spawn: r.start,
		Pick: func(p *state.Pool, q *state.Question, both func(id uint16) uint64) (state.Choice, bool) {
			return r.policies.Pick(p, q, nil, policies.ByHandoff, both)
		},
	})
	r.sources = sources.New(r.o.Config, sources.Options{
		Log: r.log, Lock: &r.reloading, Snapshot: r.current, Describe: config.Differences, Health: stateOf, Count: r.legs.Count,
		QUICSessions: r.quic.Sessions,
		Replace: func(next *config.Config, changes discover.Changes) error {
			return r.replaceLocked(next, changes, r.mtu)
		},
	})
	r.servers = vips.New(vips.Options{
		Addresses: r.addresses, Access: r.access, Metrics: r.metrics, Log: r.log, Snapshot: r.current,
		TakeChosen:   func(client, vip netip.AddrPort) string { return r.decider.TakeChosen(client, vip) },
		TakeReason:   func(client, vip netip.AddrPort) outcome.Outcome { return r.decider.TakeReason(client, vip) },
		ForgetClient: r.kernel.ForgetClient, Spawn: r.start, Attached: r.kernel.Attached,
		Blame: func(surrogate string, kind fallback.FailureKind) { blame(r.health, surrogate, kind) },
		Pick: func(p *state.Pool, q *state.Question, exclude []string, method string) (state.Choice, bool) {
			return r.policies.Pick(p, q, exclude, method, sessions)
		},
	})
	r.decider = upcall.New(upcall.Options{
		Kernel: r.kernel, Legs: r.legs, Tap: r.tap, MSS: r.clock.mss, Log: r.log, Snapshot: r.current,
		Verdicts: r.servers.Verdicts, EndOldSocket: r.oldSockets.EndOldSocket, Decided: r.metrics.Decided, HandedOff: r.metrics.HandedOff,
		Pick: func(p *state.Pool, q *state.Question, exclude []string) (state.Choice, bool) {
			return r.policies.Pick(p, q, exclude, policies.ByHandoff, sessions)
		},
	})
	r.records = accesslog.NewKernelRecords(r.kernel, r.access, r.log)
}

// compileFirst compiles the file with what an earlier process has saved.
func (r *Router) compileFirst(cfg *config.Config) (*state.Compiled, error) {
	numbers, err := numbersInForce(r.kernel, nil)
	if err != nil {
		return nil, err
	}
	changes := r.sources.Recall()
	r.reloading.Lock()
	defer r.reloading.Unlock()
	merged, left := r.sources.MergeLocked(cfg, changes)
	r.sources.KeepLeftOut(left)
	c, err := state.Compile(merged, numbers, changes)
	if err != nil {
		return nil, err
	}
	r.warnLeftOut(c, func() []string { return Warnings(cfg) }) // which the check has logged, for a new data path
	if err := storeNumbers(r.kernel, c); err != nil {
		return nil, err
	}
	if err := forgetSurrogates(r.kernel, c.Fresh); err != nil {
		return nil, err
	}
	return c, r.records.LearnNames(c)
}

// warnLeftOut logs for which hosts the data path has no room, unless these lines have been logged before.
func (r *Router) warnLeftOut(c *state.Compiled, before func() []string) {
	lines := c.Kernel.Warnings(c.Config)
	if len(lines) == 0 || slices.Equal(lines, before()) {
		return
	}
	for _, line := range lines {
		r.log.Warn(line)
	}
}

// current is the snapshot in force; nil before the first.
func (r *Router) current() *state.Snapshot { return r.snapshot.Load() }

// start starts a task that ends with Run, whose error ends Run.
func (r *Router) start(task func(ctx context.Context) error) { r.spawn(task) }

// Run serves until ctx is done. Spliced sessions continue in the kernel afterwards.
func (r *Router) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	group, ctx := errgroup.WithContext(ctx)
	r.reloading.Lock()
	r.spawn = func(task func(ctx context.Context) error) { group.Go(func() error { return task(ctx) }) }
	r.reloading.Unlock()
	defer r.tap.Close()
	failed := r.startAll(ctx)
	if failed != nil {
		cancel()
	}
	group.Go(func() error {
		<-ctx.Done()
		r.servers.Stop() // ends the group's servers
		return nil
	})
	err = group.Wait()
	if err := r.kernel.SetConfig(r.clock.config(kernel.Config{Closed: true})); err != nil { // existing sessions continue
		r.log.Error("cannot refuse new sessions", "err", err)
	}
	if failed != nil {
		return failed
	}
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// startAll starts all tasks. After an error, the end of ctx ends those already started.
func (r *Router) startAll(ctx context.Context) error {
	s := r.current()
	if err := r.kernel.AttachReplay(r.tap.Ifindex); err != nil {
		return err
	}
	if err := r.kernel.ForgetLocal(); err != nil {
		return err
	}
	if err := r.startServing(); err != nil {
		return err
	}
	r.sources.Start(ctx)
	r.start(endless(r.sources.Run))
	r.start(endless(func(ctx context.Context) {
		sweep(ctx, r.kernel, func() config.Timeouts { return r.current().Config.Timeouts }, r.log)
	}))
	r.start(endless(r.updateTables))
	r.start(endless(func(ctx context.Context) {
		r.certs.Run(ctx, func() (*config.Config, *route.Table) { return r.current().Config, r.current().Routes }, r.health.Seen, r.log)
	}))
	r.start(endless(r.policies.Run))
	listeners, err := daemon.Listen(s.Config.Listen.Control, s.Config.Listen.Metrics)
	if err != nil {
		return fmt.Errorf("%s: %w", s.Config.File, err)
	}
	r.start(endless(func(ctx context.Context) {
		listeners.Serve(ctx, r.backend(), r.metrics.Handler(r.o.Version, r.Status), r.log)
	}))
	warnNotForwarding(s.Config, r.log)
	r.log.Info("ready", "vips", len(s.Config.VIPs), "adopted", r.kernel.Adopted())
	return nil
}

// startServing starts what serves clients.
func (r *Router) startServing() error {
	r.reloading.Lock()
	defer r.reloading.Unlock()
	s := r.current()
	r.start(r.decider.Run)
	if err := r.legs.Update(splicedSurrogates(s.Compiled), r.mtu); err != nil {
		return err
	}
	if err := r.legs.Adopt(); err != nil {
		return err
	}
	s = r.refreshLocked(s.Compiled)
	events, err := r.kernel.Events()
	if err != nil {
		return err
	}
	r.start(endless(func(ctx context.Context) { r.legs.Run(ctx, events) }))
	return r.open(s)
}

// endless is a task that only ends with its context.
func endless(f func(ctx context.Context)) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		f(ctx)
		return nil
	}
}

// ReopenLogs opens the files of the access log again, by their names.
func (r *Router) ReopenLogs() { r.access.Reopen() }

// Live counts the sessions that continue in the kernel after Run. If there are none, it closes the idle legs too.
func (r *Router) Live() (int, error) {
	n := 0
	err := r.kernel.EachSplice(func(s kernel.Splice) error {
		if s.State == kernel.Active || s.State == kernel.Closing {
			n++
		}
		return nil
	})
	if n == 0 && err == nil {
		r.legs.Retire()
	}
	quics, failed := r.quic.Live()
	return n + quics, errors.Join(err, failed)
}

// Close releases everything but the pinned sessions. A second call does nothing.
func (r *Router) Close() {
	r.closing.Do(func() {
		if r.records != nil {
			r.records.Close()
		}
		if r.access != nil {
			r.access.Close()
		}
		if r.health != nil {
			r.health.Close()
		}
		if r.wire != nil {
			r.wire.Close()
		}
		if r.quic != nil {
			r.quic.Close()
		}
		if r.tap != nil {
			r.tap.Close()
		}
		r.oldSockets.Close()
		if r.kernel != nil {
			if err := r.kernel.Close(); err != nil {
				r.log.Error("cannot close data path", "err", err)
			}
		}
	})
}
