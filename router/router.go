package router

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
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
	"baton/router/fallback"
	"baton/router/health"
	"baton/router/legs"
	"baton/router/metrics"
	"baton/router/proxyheader"
)

// Options of a Router.
type Options struct {
	Config  *config.Config
	Load    func() (*config.Config, error) // for reloads
	Version string
	Log     *slog.Logger
}

// Router is a running request router.
type Router struct {
	o       Options
	log     *slog.Logger
	started time.Time
	closing sync.Once

	dp      *kernel.Router
	tap     *datapath.Tap
	quic    atomic.Pointer[quicPath]
	legs    *legs.Manager
	wire    *legs.RawWire
	health  *health.Checker
	metrics *metrics.Metrics
	access  *accesslog.Writer
	spliced splicedLog
	upcalls *upcalls
	mss     []uint16
	offset  uint32 // of the timestamp clock
	queued  int    // capacity for idle legs per surrogate and class
	noPorts error  // why there are no ports for legs
	mtu     int    // smallest of the clients' interfaces; under reloading once running

	state                  atomic.Pointer[state]
	loaded                 atomic.Int64 // unix nanoseconds
	reloading              sync.Mutex   // serializes reloads
	reloads, reloadsFailed atomic.Uint64
	changed                chan struct{}

	shown        chan struct{} // surrogates have shown other certificates, or the configuration is another one
	certificates atomic.Pointer[certs.Report]

	mu      sync.Mutex
	servers map[netip.AddrPort]*vipServer
	group   *errgroup.Group
	ctx     context.Context

	addresses addresses
	discovery discovery
	shared    shared
}

// New adopts the data path or creates one. Nothing is attached or answered before Run. Close undoes it.
func New(o Options) (_ *Router, err error) {
	r := &Router{
		o: o, log: o.Log, started: time.Now(),
		servers: make(map[netip.AddrPort]*vipServer),
		changed: make(chan struct{}, 1), shown: make(chan struct{}, 1),
		metrics: metrics.New(), shared: newShared(),
	}
	r.discovery.prepare(o.Config)
	defer func() {
		if err != nil {
			r.Close()
		}
	}()
	cfg := o.Config
	if err := Check(cfg); err != nil { // before touching the state
		return nil, err
	}
	r.spliced.r = r
	if r.access, err = accesslog.Open(cfg, o.Version, o.Log); err != nil {
		return nil, err
	}
	r.queued = queueSize(cfg)
	if r.mtu, err = checkHost(cfg); err != nil {
		return nil, err
	}
	var free legs.PortRange
	free, r.noPorts = legs.FreePorts()
	if err := needsPorts(cfg, r.noPorts); err != nil {
		return nil, err
	}
	r.dp, err = kernel.Open(kernel.Options{
		State: cfg.Listen.State, Sessions: cfg.Limits.Sessions, Pending: cfg.Limits.Pending, Legs: r.queued,
	})
	if err != nil {
		return nil, err
	}
	if err := r.clock(); err != nil {
		return nil, err
	}
	if r.wire, err = legs.OpenWire(r.dp); err != nil {
		return nil, err
	}
	r.legs = legs.New(legs.Options{
		Kernel: r.dp, Wire: r.wire, Routes: legs.Netlink{}, Ports: free,
		Now: time.Now, Timestamp: func() uint32 { return datapath.Clock() + r.offset }, MSS: r.mss, Log: o.Log,
		Failed:  func(surrogate, kind string) { r.health.ReportFailure(surrogate, kind) },
		Doubted: func(surrogate string) { r.health.Suspect(surrogate) },
		Changed: r.notify,
		Event:   func(surrogate, event string) { r.metrics.LegEvent(surrogate, event) },
	})
	n, err := (&state{}).numbers(r.dp) // nothing is in force yet: only sessions carry numbers
	if err != nil {
		return nil, err
	}
	changes := r.recall()
	merged, left := r.merged(cfg, changes)
	r.discovery.keep(left)
	s, err := newState(merged, n)
	if err != nil {
		return nil, err
	}
	s.changes = changes
	if err := s.keepNumbers(r.dp); err != nil {
		return nil, err
	}
	if err := r.spliced.learn(s); err != nil {
		return nil, err
	}
	r.health, err = health.New(health.Options{
		Targets: targets(merged), OnChange: r.healthChanged, OnCheck: r.metrics.Checked, OnSeen: r.lookAgain, Log: o.Log,
	})
	if err != nil {
		return nil, err
	}
	if err := r.drainAll(s); err != nil {
		return nil, err
	}
	r.choose(s)
	r.state.Store(s)
	r.loaded.Store(time.Now().UnixNano())
	return r, nil
}

// clock chooses the leg classes and the timestamp offset, or keeps those of existing sessions. The kernel must have them before
// the first leg opens, as it validates and acknowledges SYN-ACKs by that clock.
func (r *Router) clock() error {
	have, err := r.dp.Config()
	if err != nil {
		return err
	}
	r.mss, r.offset = have.MSS, have.TSOffset
	if r.dp.Adopted() && len(r.mss) > 0 {
		return nil
	}
	r.mss, r.offset = mssClasses(r.mtu), legs.RandomOffset()
	return r.dp.SetConfig(kernel.Config{MSS: r.mss, TSOffset: r.offset, Closed: true})
}

// queueSize is fixed at start, hence the reserve for larger pools after a reload.
func queueSize(cfg *config.Config) int {
	most := 4096
	for _, p := range cfg.Pools {
		most = max(most, p.Legs.Max)
	}
	return 2 * most // dead entries stay in the queues for a while
}

func targets(cfg *config.Config) []health.Target {
	var out []health.Target
	for i := range cfg.Pools {
		var names []certs.Ask
		if cfg.Pools[i].Encrypted {
			names = certs.Names(cfg, &cfg.Pools[i])
		}
		for _, s := range cfg.Pools[i].Surrogates {
			out = append(out, health.Target{
				Name: s.Name, Address: s.Address, Check: cfg.Pools[i].Health, Pool: cfg.Pools[i].Name, Reserve: s.Weight == 0, Names: names, Header: proxyheader.Of(&cfg.Pools[i]),
				QUIC: cfg.Pools[i].QUICOnly,
			})
		}
	}
	return out
}

func (r *Router) current() *state { return r.state.Load() }

// Run serves until ctx is done. Spliced sessions continue in the kernel afterwards.
func (r *Router) Run(ctx context.Context) (err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r.group, r.ctx = errgroup.WithContext(ctx)
	if r.tap, err = datapath.OpenTap("baton%d"); err != nil {
		return err
	}
	defer r.tap.Close()
	failed := r.start(r.ctx)
	if failed != nil {
		cancel()
	}
	r.group.Go(func() error {
		<-r.ctx.Done()
		r.stopListeners() // ends the group's servers
		return nil
	})
	err = r.group.Wait()
	r.refuseNew()
	if failed != nil {
		return failed
	}
	if errors.Is(err, context.Canceled) {
		err = nil
	}
	return err
}

// start starts all tasks. After an error, the group's context ends those already started.
func (r *Router) start(ctx context.Context) error {
	s := r.current()
	if err := r.dp.AttachReplay(r.tap.Ifindex); err != nil {
		return err
	}
	if err := r.dp.ForgetLocal(); err != nil {
		return err
	}
	r.upcalls = &upcalls{
		r: r, tap: r.tap, log: r.log,
		clients: make(map[clientKey]*pending), holding: newHolding(heldBytes), leaving: make(chan leaving, maxLeaving),
	}
	r.group.Go(func() error { return r.upcalls.run(ctx) })

	if err := r.legs.Update(r.surrogates(s)); err != nil {
		return err
	}
	if err := r.legs.Adopt(); err != nil {
		return err
	}
	r.applyHealth(s)
	events, err := r.dp.Events()
	if err != nil {
		return err
	}
	r.group.Go(func() error {
		r.legs.Run(ctx, events)
		return nil
	})
	if err := r.open(s); err != nil {
		return err
	}
	r.discovery.run(r, ctx)
	r.group.Go(func() error { return r.sweep(ctx) })
	r.group.Go(func() error { return r.follow(ctx) })
	r.group.Go(func() error { return r.watchCertificates(ctx) })
	r.group.Go(func() error { return r.shared.follow(ctx, r) })
	listeners, err := daemon.Listen(s.cfg.Listen.Control, s.cfg.Listen.Metrics)
	if err != nil {
		return fmt.Errorf("%s: %w", s.cfg.File, err)
	}
	r.group.Go(func() error {
		listeners.Serve(ctx, r.backend(), r.metrics.Handler(r.o.Version, r.Status), r.log)
		return nil
	})
	warnNotForwarding(s.cfg, r.log)
	r.log.Info("ready", "vips", len(s.cfg.VIPs), "adopted", r.dp.Adopted())
	return nil
}

// refuseNew makes the data path refuse new sessions; existing ones continue.
func (r *Router) refuseNew() {
	if err := r.dp.SetConfig(kernel.Config{MSS: r.mss, TSOffset: r.offset, Closed: true}); err != nil {
		r.log.Error("cannot refuse new sessions", "err", err)
	}
}

// open writes a state to the kernel, tables last: from then on they apply to clients.
func (r *Router) open(s *state) error {
	if err := r.attach(s); err != nil {
		return err
	}
	if err := r.dp.Refuse(s.handedOff()); err != nil { // else their listeners proxy first clients, for as long as these stay
		return err
	}
	if err := r.listen(s); err != nil {
		return err
	}
	if err := r.openQUIC(s); err != nil {
		return err
	}
	if err := r.dp.Put(kernel.Config{Tap: r.tap.Ifindex, MSS: r.mss, TSOffset: r.offset}, r.tables(s)); err != nil {
		return err
	}
	return r.spliced.start()
}

// attach attaches the data path to the clients' interfaces.
func (r *Router) attach(s *state) error {
	for _, v := range s.cfg.VIPs {
		if v.Protocol == config.QUIC {
			continue
		}
		for _, name := range v.Interfaces {
			dev, err := net.InterfaceByName(name)
			if err != nil {
				return fmt.Errorf("%s:%d: vips.interfaces: no interface %q on this host", s.cfg.File, v.Line, name)
			}
			if err := r.dp.Attach(dev.Index); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (r *Router) tables(s *state) kernel.Tables {
	return s.tables(r.mtu, r.legs.Facts, func(name string) bool { return r.local(s, name) })
}

// surrogates lists those that sessions of some VIP may be spliced to.
func (r *Router) surrogates(s *state) []legs.Surrogate {
	var out []legs.Surrogate
	for _, p := range s.pools {
		for i := range p.cfg.Surrogates {
			sg := &p.cfg.Surrogates[i]
			if slices.ContainsFunc(s.cfg.VIPs, func(v config.VIP) bool { return splices(&v, p.cfg.Name, sg) }) {
				out = append(out, legs.Surrogate{ID: p.ids[i], Name: sg.Name, Address: sg.Address, Legs: p.cfg.Legs, Reuse: p.cfg.Reuse})
			}
		}
	}
	return out
}

// handsOff reports whether the kernel splices sessions of a VIP.
func handsOff(v *config.VIP) bool { return v.Mode == config.Handoff && v.Protocol != config.QUIC }

func splices(v *config.VIP, pool string, sg *config.Surrogate) bool {
	return handsOff(v) && config.Unspliced(v, sg) == "" &&
		slices.ContainsFunc(v.Routes, func(route config.Route) bool { return route.Pool == pool })
}

// local reports whether a surrogate is on this host, so that packets to it leave by no interface.
func (r *Router) local(s *state, surrogate string) bool { return r.legs.Local(s.ids[surrogate]) }

// notify schedules an update of the kernel's tables.
func (r *Router) notify() {
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *Router) healthChanged(t health.Transition) {
	r.metrics.SurrogateChanged(t)
	s := r.current()
	if s == nil {
		return
	}
	if t.From.Up && !t.To.Up {
		if id, ok := s.ids[t.Surrogate]; ok {
			if n, err := r.dp.Abandon(id); err != nil {
				r.log.Error("cannot move waiting sessions to other surrogates", "surrogate", t.Surrogate, "err", err)
			} else if n > 0 {
				r.log.Info("waiting sessions move to other surrogates", "surrogate", t.Surrogate, "sessions", n)
			}
		}
	}
	r.notify()
}

// applyHealth applies the surrogates' health to the choices and the leg pools.
func (r *Router) applyHealth(s *state) {
	r.choose(s)
	for name, id := range s.ids {
		r.legs.SetUsable(id, r.health.State(name).Usable())
	}
}

// follow updates the kernel's tables when something has changed.
func (r *Router) follow(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.changed:
			r.reloading.Lock()
			s := r.current()
			r.applyHealth(s)
			if err := r.dp.UpdateTables(r.tables(s)); err != nil {
				r.log.Error("cannot update the kernel's tables", "err", err)
			}
			r.reloading.Unlock()
		}
	}
}

// refusalGrace is how much longer than timeouts.handshake the kernel keeps a client, so that it can be answered (408).
const refusalGrace = 5 * time.Second

// sweep ends what has timed out.
func (r *Router) sweep(ctx context.Context) error {
	tick := time.NewTicker(kernel.SweepEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := r.current().cfg.Timeouts
		t := kernel.Timeouts{Handshake: now.Handshake, Idle: now.Idle, Closing: now.Closing}
		if _, err := r.dp.Sweep(t); err != nil {
			r.log.Error("cannot sweep sessions", "err", err)
		}
		t.Handshake += refusalGrace
		if err := r.dp.SweepClients(t); err != nil {
			r.log.Error("cannot sweep clients", "err", err)
		}
	}
}

// sessions counts a surrogate's live sessions.
func (r *Router) sessions(id uint16) uint64 {
	s, err := r.dp.Surrogate(id)
	if err != nil {
		return 0
	}
	return uint64(s.Active)
}

// Close releases everything but the pinned sessions. A second call does nothing.
func (r *Router) Close() { r.closing.Do(r.close) }

func (r *Router) close() {
	r.spliced.close()
	if r.access != nil {
		r.access.Close()
	}
	if r.health != nil {
		r.health.Close()
	}
	if r.wire != nil {
		r.wire.Close()
	}
	r.closeQUIC()
	if r.dp != nil {
		if err := r.dp.Close(); err != nil {
			r.log.Error("cannot close data path", "err", err)
		}
	}
}

// Live counts the sessions that continue in the kernel after Run. If there are none, it closes the idle legs too.
func (r *Router) Live() (int, error) {
	n := 0
	err := r.dp.EachSplice(func(s kernel.Splice) error {
		if s.State == kernel.Active || s.State == kernel.Closing {
			n++
		}
		return nil
	})
	if n == 0 && err == nil {
		r.legs.Retire()
	}
	quics, failed := r.liveQUIC()
	return n + quics, errors.Join(err, failed)
}

// verdicts are the answers decided for clients of a VIP before its server accepts them.
func (r *Router) verdicts(vip netip.AddrPort) *fallback.Verdicts {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l := r.servers[vip]; l != nil {
		return l.verdicts
	}
	return fallback.NewVerdicts(1, time.Second)
}
