// Package relay splits TCP: a flow comes in at one relay, passes perhaps others over trunks that are ready, and leaves the last one for
// its server, each part with windows, losses and congestion control of its own. See docs/relay.md.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/datapath"
	"baton/relay/config"
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
	workers    []*worker.Worker
	identities secure.Identities // of TLS trunks
	kernel     *kernel           // nil: it could not be had, and nothing needs it

	changing sync.Mutex // held while listeners are opened and closed
}

// New prepares a relay. Run starts it.
func New(o Options) (*Relay, error) {
	r := &Relay{o: o, log: o.Log, started: time.Now()}
	r.cfg.Store(o.Config)
	r.loaded.Store(time.Now().UnixNano())
	if err := r.identities.Load(o.Config); err != nil {
		return nil, err
	}
	k, err := openKernel(o.Config, o.Log)
	if err != nil {
		if why := needs(o.Config); why != "" {
			return nil, fmt.Errorf("%s: %w", why, err)
		}
		o.Log.Warn("trunks begin as the system has it, and SYNs are not seen", "err", err)
	}
	r.kernel = k
	count := o.Config.Workers
	if count == 0 {
		count = runtime.NumCPU()
	}
	for i := range count {
		options := worker.Options{Index: i, Of: count, Log: o.Log, Identities: &r.identities}
		if k != nil {
			options.Settle, options.Measured, options.Mark = k.Settle, k.turbo.Measured, datapath.RelayMark
		}
		w, err := worker.New(options, o.Config)
		if err != nil {
			return nil, err
		}
		r.workers = append(r.workers, w)
	}
	return r, nil
}

// Run relays until the context is done, and then for as long as flows are left and timeouts.stop allows.
func (r *Relay) Run(ctx context.Context) error {
	runtime.GOMAXPROCS(len(r.workers) + 2) // workers keep a thread each
	var running errgroup.Group
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
	err := r.open(&config.Config{}, r.current())
	if r.kernel != nil {
		r.kernel.start(r.workers)
		if err == nil {
			err = r.kernel.configure(r.current())
		}
	}
	if err == nil {
		r.log.Info("ready", "name", r.current().Name, "entries", len(r.current().Entries), "peers", len(r.current().Peers), "workers", len(r.workers))
		select {
		case <-ctx.Done():
			r.stop()
		case err = <-failed:
		}
	}
	for _, w := range r.workers {
		w.Close()
	}
	if r.kernel != nil {
		err = errors.Join(err, r.kernel.close())
	}
	return errors.Join(err, running.Wait())
}

func (r *Relay) current() *config.Config { return r.cfg.Load() }

// open closes the listeners that a configuration has no more, and opens those that are new. Of each, the workers open theirs in their
// order: see worker.Listen.
func (r *Relay) open(old, next *config.Config) error {
	r.changing.Lock()
	defer r.changing.Unlock()
	before := make(map[string]*config.Entry)
	for i := range old.Entries {
		before[old.Entries[i].Name] = &old.Entries[i]
	}
	var opened []*config.Entry
	for i := range next.Entries {
		e := &next.Entries[i]
		if b := before[e.Name]; b == nil || !same(b, e) {
			opened = append(opened, e)
		} else {
			delete(before, e.Name)
		}
	}
	for name := range before {
		if err := r.each(func(w *worker.Worker) error { return w.Unlisten(name) }); err != nil {
			return err
		}
	}
	docks := func(c *config.Config) (all []netip.AddrPort) {
		if c.Trunks != nil {
			all = c.Trunks.Listen
		}
		return all
	}
	if old.Trunks == nil || next.Trunks == nil || !reflect.DeepEqual(old.Trunks, next.Trunks) {
		for _, at := range docks(old) {
			if err := r.each(func(w *worker.Worker) error { return w.Undock(at) }); err != nil {
				return err
			}
		}
		for _, at := range docks(next) {
			if err := r.each(func(w *worker.Worker) error { return w.Dock(at, next.Trunks) }); err != nil {
				return err
			}
		}
	}
	for _, e := range opened {
		if err := r.each(func(w *worker.Worker) error { return w.Listen(e) }); err != nil {
			return err
		}
	}
	return nil
}

// same tells whether an entry is as it was, wherever it stands in the file.
func same(a, b *config.Entry) bool {
	x, y := *a, *b
	x.Line, y.Line = 0, 0
	return reflect.DeepEqual(x, y)
}

// each does something with all workers, one after the other.
func (r *Relay) each(do func(*worker.Worker) error) error {
	for _, w := range r.workers {
		if err := do(w); err != nil {
			return err
		}
	}
	return nil
}

// Live is how many flows there are.
func (r *Relay) Live() (n int) {
	for _, w := range r.workers {
		n += int(w.Counters().Live.Load())
	}
	return n
}

// stop takes no new flows, and waits for those that are left.
func (r *Relay) stop() {
	cfg := r.current()
	if err := r.open(cfg, &config.Config{}); err != nil {
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

// Reload reads the configuration again and puts it in force, when it is right. Flows are kept.
func (r *Relay) Reload() error {
	err := r.reload()
	if err != nil {
		r.log.Error("reload: the old configuration stays in force", "err", err)
	} else {
		r.log.Info("reloaded")
	}
	return err
}

func (r *Relay) reload() error {
	next, err := r.o.Load()
	if err != nil {
		return err
	}
	old := r.current()
	if fixed := config.Changed(old, next); len(fixed) > 0 {
		return fmt.Errorf("%s: %s takes effect at a restart only", next.File, strings.Join(fixed, ", "))
	}
	if err := r.identities.Load(next); err != nil {
		return fmt.Errorf("%s: %w", next.File, err)
	}
	if err := r.each(func(w *worker.Worker) error { return w.Configure(next) }); err != nil {
		return err
	}
	r.cfg.Store(next)
	r.loaded.Store(time.Now().UnixNano())
	if err := r.open(old, next); err != nil || r.kernel == nil {
		return err
	}
	return r.kernel.configure(next)
}
