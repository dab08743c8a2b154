package forwarder

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"baton/api"
	"baton/daemon"
	"baton/document"
	"baton/exporter"
	"baton/forwarder/config"
)

// starting is how many forwarders start at the same time: loading a program mostly waits for the kernel.
const starting = 8

// Several are the forwarders of one process: each has its own tables, ports and controllers, and they share a control socket and metrics.
type Several struct {
	cfg     *config.Config // as of the start: Reload may have changed the datapaths since
	version string
	log     *slog.Logger
	load    func() (*config.Config, error)
	began   time.Time

	reloads, reloadsFailed atomic.Uint64

	reloading sync.Mutex
	ctx       context.Context // of Run, for forwarders that a reload adds

	mu      sync.Mutex
	members map[string]*Forwarder // by name
}

// NewSeveral returns forwarders to be started with Run. The configuration has datapaths.
func NewSeveral(o Options) *Several {
	return &Several{
		cfg: o.Config, version: o.Version, log: o.Log, load: o.Load, began: time.Now(), members: make(map[string]*Forwarder),
	}
}

// Run runs the forwarders until ctx ends, as Forwarder.Run does. If one cannot start none runs: those that have started leave their flow entries
// working.
func (s *Several) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	listeners, err := daemon.Listen(s.cfg.Control, s.cfg.Metrics)
	if err != nil {
		return fmt.Errorf("%s: %w", s.cfg.File, err)
	}
	s.ctx = ctx
	if err := s.start(s.cfg.Datapaths); err != nil {
		return errors.Join(err, s.close(), listeners.Close())
	}
	s.log.Info("all forwarders are up", "name", s.cfg.Name, "datapaths", len(s.cfg.Datapaths), "after", time.Since(s.began).Round(time.Millisecond))
	listeners.Serve(ctx, s.backend(), metricsHandler(s.version, s.status, s.series), s.log)
	<-ctx.Done()
	return s.close()
}

// start starts forwarders and returns when all are up, or have been given up. The first starts alone: it makes what all need, such as the mount
// of the BPF file system.
func (s *Several) start(list []*config.Config) error {
	if len(list) == 0 {
		return nil
	}
	if err := s.startOne(list[0]); err != nil {
		return err
	}
	var (
		mu    sync.Mutex
		errs  []error
		tasks sync.WaitGroup
		turns = make(chan struct{}, starting)
	)
	for _, cfg := range list[1:] {
		tasks.Go(func() {
			turns <- struct{}{}
			defer func() { <-turns }()
			if err := s.startOne(cfg); err != nil {
				mu.Lock()
				errs = append(errs, err)
				mu.Unlock()
			}
		})
	}
	tasks.Wait()
	return errors.Join(errs...)
}

func (s *Several) startOne(cfg *config.Config) error {
	f := New(Options{Config: cfg, Version: s.version, Log: s.log.With("datapath", cfg.Name)})
	ctx, stop := context.WithCancel(s.ctx)
	f.stop = stop
	if err := f.start(ctx); err != nil {
		stop()
		return fmt.Errorf("datapath %s: %w", cfg.Name, errors.Join(err, f.close(false)))
	}
	f.sayUp()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members[cfg.Name] = f
	return nil
}

// close ends all forwarders, whose flow entries keep working.
func (s *Several) close() error {
	s.mu.Lock()
	list := slices.Collect(maps.Values(s.members))
	s.mu.Unlock()
	var (
		tasks sync.WaitGroup
		errs  = make([]error, len(list))
	)
	for i, f := range list {
		tasks.Go(func() {
			f.stop()
			errs[i] = f.close(true)
		})
	}
	tasks.Wait()
	return errors.Join(errs...)
}

// all are the forwarders by name.
func (s *Several) all() []*Forwarder {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.SortedFunc(maps.Values(s.members), func(a, b *Forwarder) int { return strings.Compare(a.cfg.Name, b.cfg.Name) })
}

// backend is what the control socket serves.
func (s *Several) backend() api.Backend {
	return api.Backend{
		Part: api.ForwarderBackend{
			Status: func(context.Context) (api.ForwarderStatus, error) { return s.status() },
			Trace:  func(_ context.Context, r api.ForwarderTraceRequest) (api.ForwarderTrace, error) { return s.trace(r) },
		},
		Reload:   func(context.Context) (api.ReloadResult, error) { return s.Reload() },
		Counters: daemon.Counters(s.status, s.series),
	}
}

func (s *Several) status() (api.ForwarderStatus, error) {
	out := api.ForwarderStatus{Process: daemon.Process("forwarder", s.version, s.began)}
	out.Name, out.Config, out.Loaded = s.cfg.Name, s.cfg.File, s.began
	out.Reloads, out.ReloadsFailed = s.reloads.Load(), s.reloadsFailed.Load()
	for _, f := range s.all() {
		one, err := f.status()
		if errors.Is(err, errEnding) {
			continue // a reload has removed it
		}
		if err != nil {
			return out, fmt.Errorf("datapath %s: %w", f.cfg.Name, err)
		}
		out.Entries.Used += one.Entries.Used
		out.Entries.Limit += one.Entries.Limit
		out.Datapaths = append(out.Datapaths, one)
	}
	return out, nil
}

// series are the metrics of each forwarder, with its name as a label.
func (s *Several) series(status *api.ForwarderStatus) []exporter.Number {
	tallies := make(map[string]*tally)
	for _, f := range s.all() {
		tallies[f.cfg.Name] = &f.tally
	}
	var out []exporter.Number
	for i := range status.Datapaths {
		one := &status.Datapaths[i]
		t := tallies[one.Name]
		if t == nil {
			continue // a reload has removed it
		}
		for _, n := range t.own(one) {
			labels := map[string]string{"datapath": one.Name}
			maps.Copy(labels, n.Labels)
			n.Labels = labels
			out = append(out, n)
		}
	}
	return append(out, configuration(status)...)
}

func (s *Several) trace(r api.ForwarderTraceRequest) (api.ForwarderTrace, error) {
	var names []string
	for _, f := range s.all() {
		if f.cfg.Name == r.Datapath {
			return f.trace(r)
		}
		names = append(names, f.cfg.Name)
	}
	return api.ForwarderTrace{}, fmt.Errorf("%w: there is no datapath %q (%s)", api.ErrInvalid, r.Datapath, document.Meant(r.Datapath, names))
}

// Reload reads the configuration again: it starts and removes forwarders, and changes the controllers and listeners of those that stay. If one of
// these has other changes, nothing changes.
func (s *Several) Reload() (api.ReloadResult, error) {
	s.reloading.Lock()
	defer s.reloading.Unlock()
	result, err := s.reload()
	if err != nil {
		s.reloadsFailed.Add(1)
		s.log.Error("reload: what could not be changed is unchanged", "err", err)
		return result, api.Refused(err)
	}
	s.reloads.Add(1)
	s.log.Info("reloaded", "changed", strings.Join(result.Changed, "; "))
	return result, nil
}

// plan is what a reload does.
type plan struct {
	added   []*config.Config
	removed []*Forwarder
	kept    map[*Forwarder]*config.Config
}

// reload is Reload without logging. The caller holds reloading.
func (s *Several) reload() (api.ReloadResult, error) {
	if s.load == nil {
		return api.ReloadResult{}, errors.New("they have no configuration file of their own")
	}
	next, err := s.load()
	if err != nil {
		return api.ReloadResult{}, err
	}
	for _, w := range next.Warnings {
		s.log.Warn(w)
	}
	p, err := s.planned(next)
	if err != nil {
		return api.ReloadResult{}, err
	}
	result := api.ReloadResult{Config: next.File, Changed: []string{}}
	for _, f := range p.removed { // first: an added one may have its ports
		if err := s.remove(f); err != nil {
			return result, err
		}
		result.Changed = append(result.Changed, "datapath "+f.cfg.Name+" has been removed")
	}
	if err := s.start(p.added); err != nil {
		return result, err
	}
	for _, cfg := range p.added {
		result.Changed = append(result.Changed, "datapath "+cfg.Name+" has been added")
	}
	for _, f := range s.all() {
		cfg := p.kept[f]
		if cfg == nil {
			continue
		}
		changed, err := f.adopt(cfg)
		if err != nil {
			return result, fmt.Errorf("datapath %s: %w", cfg.Name, err)
		}
		for _, c := range changed {
			result.Changed = append(result.Changed, "datapath "+cfg.Name+": "+c)
		}
	}
	return result, nil
}

// planned compares a configuration with the forwarders that run.
func (s *Several) planned(next *config.Config) (p plan, err error) {
	if next.Datapaths == nil {
		return p, fmt.Errorf("%w: the file has a single forwarder", daemon.RestartError(next.File, "datapaths"))
	}
	var keys []string
	for _, k := range []struct {
		key       string
		old, next string
	}{{"name", s.cfg.Name, next.Name}, {"metrics", s.cfg.Metrics, next.Metrics}, {"control", s.cfg.Control, next.Control}} {
		if k.old != k.next {
			keys = append(keys, k.key)
		}
	}
	p.kept = make(map[*Forwarder]*config.Config)
	left := make(map[string]*Forwarder)
	for _, f := range s.all() {
		left[f.cfg.Name] = f
	}
	for _, cfg := range next.Datapaths {
		f := left[cfg.Name]
		if f == nil {
			p.added = append(p.added, cfg)
			continue
		}
		delete(left, cfg.Name)
		p.kept[f] = cfg
		for _, key := range fixed(f.cfg, cfg) {
			keys = append(keys, key+" of datapath "+cfg.Name)
		}
	}
	if err := daemon.RestartError(next.File, keys...); err != nil {
		return p, err
	}
	p.removed = slices.SortedFunc(maps.Values(left), func(a, b *Forwarder) int { return strings.Compare(a.cfg.Name, b.cfg.Name) })
	return p, nil
}

// remove ends a forwarder and takes away what it has in the kernel.
func (s *Several) remove(f *Forwarder) error {
	s.mu.Lock()
	delete(s.members, f.cfg.Name)
	s.mu.Unlock()
	f.stop()
	err := f.close(true)
	if _, removed := Remove(f.cfg); err == nil {
		err = removed
	}
	if err != nil {
		return fmt.Errorf("remove datapath %s: %w", f.cfg.Name, err)
	}
	return nil
}
