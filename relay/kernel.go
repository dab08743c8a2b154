package relay

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	kernel "baton/datapath/relay"
	"baton/relay/config"
	"baton/relay/worker"
)

// programs are the relay's programs in the kernel. They report SYNs early, steer intercepted packets to the listeners, and set the initial
// windows of trunks. Workers have descriptors of their own, so they receive events through shared memory and leave settlements to a
// goroutine here.
type programs struct {
	log     *slog.Logger
	dp      *kernel.Relay
	events  []*kernel.Events // per worker
	turbo   *turbo
	running errgroup.Group

	mu      sync.Mutex
	names   map[uint32]string // of entries, by the ids in events
	ids     uint32            // assigned so far
	settle  []settlement
	wake    chan struct{}
	stopped bool

	attached  map[string]int // ifindex by name
	trunksErr error          // why initial windows are not set; nil: they are
}

type settlement struct {
	event kernel.Event
	what  worker.Settlement
}

// needs returns the setting for which a configuration requires the programs, "" if there is none.
func needs(c *config.Config) string {
	if len(c.Return) > 0 {
		return "return_interfaces"
	}
	for _, e := range c.Entries {
		switch {
		case e.EarlySYN == config.Optimistic || e.EarlySYN == config.ConnectFirst:
			return fmt.Sprintf("entry %s: early_syn", e.Name)
		case e.Intercept != nil:
			return fmt.Sprintf("entry %s: intercept", e.Name)
		}
	}
	return ""
}

// unmet returns a setting that cannot be applied without what openPrograms failed to get.
func unmet(c *config.Config, err error) string {
	if !errors.Is(err, kernel.ErrInUse) {
		return needs(c)
	}
	for _, e := range c.Entries {
		if e.Intercept != nil {
			return fmt.Sprintf("entry %s: intercept", e.Name)
		}
	}
	return "return_interfaces"
}

// steers reports whether packets to other hosts are steered to the relay's sockets.
func steers(c *config.Config) bool {
	return len(c.Return) > 0 || slices.ContainsFunc(c.Entries, func(e config.Entry) bool { return e.Intercept != nil })
}

// openPrograms loads the programs before the workers run.
func openPrograms(c *config.Config, workers int, log *slog.Logger) (_ *programs, err error) {
	o := kernel.Options{
		Early: c.Limits.Early, PerSource: c.Limits.PerSource, Expire: c.Timeouts.Connect + c.Timeouts.Early, Readers: workers,
	}
	if steers(c) {
		o.Mark, o.Table = kernel.Mark, kernel.Table
	}
	k := &programs{log: log, names: make(map[uint32]string), wake: make(chan struct{}, 1), attached: make(map[string]int)}
	if k.dp, err = kernel.Load(o); err != nil {
		return nil, err
	}
	for i := range workers {
		events, err := k.dp.Events(i)
		if err != nil {
			return nil, errors.Join(err, k.closeEvents(), k.dp.Close())
		}
		k.events = append(k.events, events)
	}
	if k.trunksErr = k.dp.AttachOwnCgroup(); k.trunksErr != nil {
		log.Warn("trunks use the system's initial window", "err", k.trunksErr)
	}
	k.turbo = newTurbo(k.dp, log)
	if err := k.turbo.configure(c); err != nil { // before the workers open trunks
		return nil, errors.Join(err, k.close())
	}
	return k, nil
}

// start runs the goroutines.
func (k *programs) start() {
	k.running.Go(k.settleAll)
	k.running.Go(k.turbo.run)
}

// close is called when the workers have ended.
func (k *programs) close() error {
	k.mu.Lock()
	k.stopped = true
	k.mu.Unlock()
	k.nudge()
	k.turbo.stop()
	return errors.Join(k.closeEvents(), k.running.Wait(), k.dp.Close())
}

func (k *programs) closeEvents() (err error) {
	for _, e := range k.events {
		err = errors.Join(err, e.Close())
	}
	return err
}

// syns is where a worker receives SYNs.
func (k *programs) syns(index int) *worker.SYNs {
	events, heard := k.events[index], make([]kernel.Event, 64)
	return &worker.SYNs{FD: events.FD(), Take: func(each func(worker.SYN, bool)) error {
		for {
			n, err := events.Take(heard)
			for _, e := range heard[:n] {
				each(k.syn(e), e.Cancelled)
			}
			if n < len(heard) || err != nil {
				return err
			}
		}
	}}
}

func (k *programs) syn(e kernel.Event) worker.SYN {
	k.mu.Lock()
	defer k.mu.Unlock()
	return worker.SYN{Client: e.Client, Server: e.Server, ISN: e.ISN, Entry: k.names[e.Entry], Held: e.Frame != nil, Handle: e}
}

// Settle is called by workers.
func (k *programs) Settle(syn worker.SYN, what worker.Settlement) {
	k.mu.Lock()
	k.settle = append(k.settle, settlement{syn.Handle.(kernel.Event), what})
	k.mu.Unlock()
	k.nudge()
}

func (k *programs) nudge() {
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// settleAll applies the workers' decisions about SYNs, and settles SYNs that have expired.
func (k *programs) settleAll() error {
	sweep := time.NewTicker(time.Second)
	defer sweep.Stop()
	for {
		select {
		case <-k.wake:
		case <-sweep.C:
			if _, err := k.dp.Sweep(); err != nil {
				k.log.Error("sweep SYNs", "err", err)
			}
		}
		k.mu.Lock()
		all, stopped := k.settle, k.stopped
		k.settle = nil
		k.mu.Unlock()
		if stopped {
			return nil
		}
		var taken []kernel.SYN
		for _, s := range all {
			var err error
			switch s.what {
			case worker.Release:
				if s.event.Frame != nil {
					err = k.dp.Release(s.event)
				}
			case worker.Refuse:
				err = k.dp.Refuse(s.event)
			case worker.Done:
				taken = append(taken, s.event.SYN)
			}
			if err != nil && !errors.Is(err, kernel.ErrNotHeld) {
				k.log.Error("settle a SYN: its client will resend it", "client", s.event.Client, "err", err)
			}
		}
		if len(taken) > 0 {
			if _, err := k.dp.Settle(taken...); err != nil {
				k.log.Error("settle SYNs", "err", err)
			}
		}
	}
}

// configure applies a configuration's entries and trunks.
func (k *programs) configure(c *config.Config) error {
	var entries []kernel.Entry
	names := make(map[uint32]string)
	interfaces := make(map[string]bool)
	own, err := ownAddresses()
	if err != nil {
		return err
	}
	for i := range c.Entries {
		e := &c.Entries[i]
		if needs(&config.Config{Entries: []config.Entry{*e}}) == "" {
			continue
		}
		k.ids++
		names[k.ids] = e.Name
		entries = append(entries, kernelEntry(e, k.ids, own))
		for _, name := range e.Interfaces {
			interfaces[name] = true
		}
	}
	k.mu.Lock()
	k.names = names
	k.mu.Unlock()
	for name, ifindex := range k.attached {
		if !interfaces[name] {
			if err := k.dp.Detach(ifindex); err != nil {
				return err
			}
			delete(k.attached, name)
		}
	}
	if err := k.dp.SetEntries(entries); err != nil {
		return err
	}
	for _, name := range c.Return {
		interfaces[name] = true
	}
	for name := range interfaces {
		if _, ok := k.attached[name]; ok {
			continue
		}
		dev, err := net.InterfaceByName(name)
		if err != nil {
			return fmt.Errorf("interface %s: %w", name, err)
		}
		k.attached[name] = dev.Index
		if err := k.dp.Attach(dev.Index); err != nil {
			return err
		}
		if slices.Contains(c.Return, name) {
			if err := k.dp.AttachReturn(dev.Index); err != nil {
				return err
			}
		}
	}
	return k.turbo.configure(c)
}

func kernelEntry(e *config.Entry, id uint32, own []netip.Prefix) kernel.Entry {
	out := kernel.Entry{ID: id, Listen: e.Listen}
	switch e.EarlySYN {
	case config.Optimistic:
		out.Early = kernel.EarlyOptimistic
	case config.ConnectFirst:
		out.Early = kernel.EarlyConnectFirst
	}
	if e.Intercept != nil {
		out.Intercept, out.Destinations, out.Except = true, e.Intercept.Destinations, own
		for _, p := range e.Intercept.Ports {
			out.Ports = append(out.Ports, kernel.Ports(p))
		}
		return out
	}
	out.Ports = []kernel.Ports{{First: e.Listen.Port(), Last: e.Listen.Port()}}
	if a := e.Listen.Addr(); !a.IsUnspecified() {
		out.Destinations = []netip.Prefix{netip.PrefixFrom(a, a.BitLen())}
		return out
	}
	for _, p := range own {
		if p.Addr().Is4() == e.Listen.Addr().Is4() {
			out.Destinations = append(out.Destinations, p)
		}
	}
	return out
}

// ownAddresses are this host's addresses, as host prefixes.
func ownAddresses() (all []netip.Prefix, err error) {
	addrs, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list this host's addresses: %w", err)
	}
	for _, a := range addrs {
		p, err := netip.ParsePrefix(a.String())
		if err == nil {
			all = append(all, netip.PrefixFrom(p.Addr().Unmap(), p.Addr().Unmap().BitLen()))
		}
	}
	return all, nil
}
