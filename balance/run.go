package balance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/balance/alive"
	"baton/balance/config"
	"baton/balance/controller"
	"baton/balance/host"
	"baton/balance/links"
	"baton/balance/metrics"
)

const (
	// startWithin bounds how long the switch may take to start and to get its tables.
	startWithin = 30 * time.Second
	// setWithin bounds a change of a connected switch's tables. One that is not connected gets them when it connects.
	setWithin = 5 * time.Second
	// refreshEvery is how many counts pass until new control groups are looked for: one second.
	refreshEvery = 5
	// again is how soon to restart a switch that has ended.
	again = 500 * time.Millisecond
)

// Run balances until ctx ends, and restores the host, also if the start fails.
func (b *Balance) Run(ctx context.Context) error {
	running, ctx := errgroup.WithContext(ctx)
	b.publish()
	running.Go(func() error {
		b.listeners.Serve(ctx, b.backend(), metrics.Handler(b.o.Version, b.Status), b.log)
		return nil
	})
	running.Go(func() error { return b.live(ctx) })
	return running.Wait()
}

// live keeps the switch running after ctx, until nothing is routed to it any more.
func (b *Balance) live(ctx context.Context) error {
	work, end := context.WithCancel(context.WithoutCancel(ctx))
	b.ctx = work
	err := b.start(ctx)
	if err == nil {
		b.log.Info("ready", "name", b.state.cfg.Name, "datapath", b.state.cfg.Datapath, "method", b.state.cfg.Method, "links", len(b.state.cfg.Links))
		b.up.Store(true)
		err = b.loop(ctx)
	}
	return errors.Join(err, b.stop(end))
}

// start sets up the links, then the host's side, which has no effect yet, then the switch, and finally diverts new connections.
func (b *Balance) start(ctx context.Context) (err error) {
	if b.host.Left() {
		b.log.Info("taking over from a previous process")
	}
	if err := b.fits(); err != nil {
		return err
	}
	if err := errors.Join(b.openMeasuring(), b.metered()); err != nil {
		return err
	}
	if err := b.watch(); err != nil {
		return err
	}
	b.hear()
	b.count()
	b.plan = host.Make(b.state.internal())
	switch err := b.host.Prepare(b.plan); {
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("missing capability: CAP_NET_ADMIN: %w", err)
	case err != nil:
		return err
	}
	if b.channel != nil {
		b.accepting.Go(func() error { return b.controller.Accept(b.ctx, b.channel) })
	}
	b.startSwitch()
	limited, cancel := context.WithTimeout(ctx, startWithin)
	defer cancel()
	decisions := b.state.decide()
	b.lost.Step(monotonic(), decisions)
	b.inForce = b.state.tables(decisions, b.plan.MTU, b.plan.IPv6)
	if err := b.controller.Set(limited, b.inForce); err != nil && !errors.Is(err, controller.ErrNoSwitch) {
		return err
	}
	if err := b.untilReady(limited); err != nil {
		return err
	}
	if err := b.host.Divert(); err != nil {
		return err
	}
	b.publish()
	return nil
}

// untilReady waits for a switch that has its tables, or for an error of one that cannot start.
func (b *Balance) untilReady(ctx context.Context) error {
	ready := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { ready <- b.controller.Ready(ctx) }()
	select {
	case err := <-ready:
		return err
	case err := <-b.switchEnded:
		return err
	}
}

// fits refuses a configuration that cannot work on this host.
func (b *Balance) fits() error {
	r, err := check(b.state.cfg, b.host.Left())
	if err != nil {
		return err
	}
	var errs []error
	for _, f := range r.Findings {
		if f.Level == links.Wrong {
			errs = append(errs, errors.New(f.In(b.state.cfg.File)))
		}
	}
	return errors.Join(errs...)
}

// stop undoes start in reverse order.
func (b *Balance) stop(end func()) error {
	var errs []error
	if b.watcher != nil {
		b.watcher.Close()
		b.prober.Close()
		b.endAll()
	}
	errs = append(errs, b.closeMeasuring())
	close(b.ended)
	errs = append(errs, b.host.Close())
	b.host = nil
	if b.watcher != nil {
		b.endAll() // connections that were opened meanwhile
	}
	if b.stopSwitch != nil {
		b.stopSwitch()
	}
	if b.state.cfg.Datapath == config.Baton {
		errs = append(errs, b.o.Unload(b.state.cfg.Name))
	}
	end()
	if err := b.accepting.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// loop is the goroutine that owns the state.
func (b *Balance) loop(ctx context.Context) error {
	tick := time.NewTicker(countEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-b.inbox.wake:
			b.hear()
		case <-tick.C:
			b.look()
		}
		b.carryOut()
		b.publish()
	}
}

// hear handles queued events.
func (b *Balance) hear() {
	for _, happened := range b.inbox.take() {
		happened()
	}
}

// watch follows and probes the links.
func (b *Balance) watch() (err error) {
	opened := make(chan struct{})
	defer close(opened)
	b.prober = alive.New(b.ctx, alive.Options{
		Log: b.log.With("part", "alive"), Report: func(list []alive.Verdict) { b.inbox.put(func() { b.answered(list) }) },
		Ask: func(link string) {
			<-opened
			b.watcher.Probe(link)
		},
		Heard: b.heardOf,
	})
	b.watcher, err = links.Open(b.ctx, links.Options{
		Links: b.state.cfg.Links, Log: b.log.With("part", "links"), Answered: b.prober.Answered,
		Report: func(list []links.Link) { b.inbox.put(func() { b.changed(list) }) },
	})
	return err
}

// changed records the current links.
func (b *Balance) changed(list []links.Link) {
	cfg := b.state.cfg
	same := func(l links.Link, c config.Link) bool { return l.Name == c.Name && l.Interface == c.Interface }
	if !slices.EqualFunc(list, cfg.Links, same) {
		return // of the previous configuration; the next list follows
	}
	for _, l := range list {
		i := b.state.placeOf(l.Interface)
		p := &b.state.places[i]
		if elsewhere(p.now.V4, l.V4) || elsewhere(p.now.V6, l.V6) {
			b.measuring.forget(i)
		}
		p.now = l
	}
	b.prober.Update(cfg, list)
}

// elsewhere reports whether a link leads to another network than before.
func elsewhere(before, now links.Family) bool {
	return before.Gateway.IsValid() && now.Gateway.IsValid() && before.Gateway != now.Gateway
}

// answered records the results of probes, in the configuration's order.
func (b *Balance) answered(list []alive.Verdict) {
	if len(list) != len(b.state.cfg.Links) {
		return // of the previous configuration
	}
	for i, v := range list {
		p := &b.state.places[b.state.placeOf(b.state.cfg.Links[i].Interface)]
		if v.State == alive.Portal && p.verdict.State != alive.Portal {
			b.log.Warn("captive portal: sign in over this link", "link", p.cfg.Name, "url", v.URL)
		}
		p.verdict = v
	}
}

// look does the periodic work.
func (b *Balance) look() {
	b.count()
	b.endStalled()
	if b.looked++; b.looked%refreshEvery != 0 {
		return
	}
	missing, err := b.host.Refresh()
	b.report("cannot mark the sockets of a control group", err)
	if !slices.Equal(missing, b.missing) {
		b.log.Info("control groups of applications do not exist", "groups", missing)
		b.missing = missing
	}
}

// carryOut applies the state to the switch and the host. Failures are retried at the next event or tick.
func (b *Balance) carryOut() {
	wanted := b.state.internal()
	wanted.KeepIPv6 = b.plan.IPv6
	plan, decisions := host.Make(wanted), b.state.decide()
	next := b.state.tables(decisions, plan.MTU, plan.IPv6)
	if !reflect.DeepEqual(next, b.inForce) {
		limited, cancel := context.WithTimeout(b.ctx, setWithin)
		err := b.controller.Set(limited, next)
		cancel()
		if errors.Is(err, controller.ErrNoSwitch) {
			err = nil // it gets them when it connects
		}
		b.report("cannot update the switch's tables", err)
		if err == nil {
			b.inForce = next
		}
	}
	if ends, _ := b.lost.Step(monotonic(), decisions); len(ends) > 0 { // after new flows have other links
		b.endLost(ends)
	}
	if !reflect.DeepEqual(plan, b.plan) {
		err := b.host.Prepare(plan)
		b.report("cannot update the host's side", err)
		if err == nil {
			b.plan = plan
		}
	}
}

// report logs a failure once, until it changes or is over.
func (b *Balance) report(what string, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	if text != "" && text != b.reported[what] {
		b.log.Error(what, "err", err)
	}
	b.reported[what] = text
}

// startSwitch keeps a controller channel to the switch, until stopSwitch is called.
func (b *Balance) startSwitch() {
	ctx, cancel := context.WithCancel(b.ctx)
	var switches errgroup.Group
	if b.state.cfg.Datapath == config.Baton {
		wanted := b.switchConfig()
		switches.Go(func() error { return b.runSwitch(ctx, wanted) })
	} else {
		path := management(host.BridgeName(b.state.cfg.Internal.Interface))
		switches.Go(func() error {
			return b.controller.Connect(ctx, func(ctx context.Context) (net.Conn, error) {
				var d net.Dialer
				return d.DialContext(ctx, "unix", path)
			})
		})
	}
	b.stopSwitch = func() {
		cancel()
		if err := switches.Wait(); err != nil && !errors.Is(err, context.Canceled) {
			b.log.Error("the switch has ended", "err", err)
		}
	}
}

// runSwitch runs Baton's forwarder, and restarts it if it ends by itself.
func (b *Balance) runSwitch(ctx context.Context, s Switch) error {
	for {
		err := b.o.Switch(ctx, s)
		if ctx.Err() != nil {
			return err
		}
		select {
		case b.switchEnded <- err: // start may be waiting for it
			return nil
		default:
		}
		b.log.Error("the switch has ended and is restarted", "err", err)
		if !pause(ctx, again) {
			return nil
		}
	}
}

// pause waits, and reports false if ctx ends meanwhile.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
