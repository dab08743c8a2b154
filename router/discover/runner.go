package discover

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"baton/router/config"
)

// Key names a source of a pool.
type Key struct {
	Pool   string `json:"pool"`
	Source string `json:"source"`
}

// State is a source and what it had last.
type State struct {
	Key

	Set      *Set                   // nil: none so far
	Success  time.Time              // of the last outcome without a failure; zero: none yet
	Due      time.Time              // of the next lookup; zero: unknown
	Err      string                 // of the last outcome; "" for success
	Failures map[FailureKind]uint64 // so far
	Updates  uint64                 // sets that differed from the one before
}

// Options of a Runner.
type Options struct {
	// Make makes a source; nil: the pool's changes by API are all that there is.
	Make func(config.Discover) Source
	// Changed is called when a set differs from the one before. It must not block.
	Changed func()
	Log     *slog.Logger
}

// Runner runs the sources of a configuration, and keeps what they had last. Its methods may be called from any goroutine.
type Runner struct {
	o   Options
	ctx context.Context
	wg  sync.WaitGroup

	mu      sync.Mutex
	running map[Key]*running
	order   []Key // as in the configuration
}

type running struct {
	state State
	of    config.Discover
	stop  context.CancelFunc
}

// NewRunner makes a Runner whose sources end with ctx. saved are the sets of an earlier process.
func NewRunner(ctx context.Context, o Options) *Runner {
	return &Runner{o: o, ctx: ctx, running: make(map[Key]*running)}
}

// Update starts the sources of a configuration and stops all others. A source that has changed keeps its set until it has another one;
// one that has not goes on.
func (r *Runner) Update(cfg *config.Config, saved map[Key]Set) {
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.running
	r.running, r.order = make(map[Key]*running), nil
	for i := range cfg.Pools {
		for _, of := range cfg.Pools[i].Discover {
			if of.Kind == config.DiscoverAPI {
				continue
			}
			key := Key{cfg.Pools[i].Name, of.String()}
			r.order = append(r.order, key)
			have := old[key]
			if have != nil && sameSource(&have.of, &of) {
				r.running[key] = have
				delete(old, key)
				continue
			}
			r.start(key, of, have, saved)
		}
	}
	for _, gone := range old {
		gone.stop()
	}
}

func sameSource(a, b *config.Discover) bool {
	x, y := *a, *b
	x.Resolvers, y.Resolvers = nil, nil
	return slices.Equal(a.Resolvers, b.Resolvers) && a.Controller.String() == b.Controller.String() && x.String() == y.String() && x.Prefix == y.Prefix && x.Weight == y.Weight && x.Family == y.Family &&
		x.MinTTL == y.MinTTL && x.MaxTTL == y.MaxTTL && x.Hold == y.Hold && x.RemoveAbsent == y.RemoveAbsent
}

// start starts a source; r.mu is held.
func (r *Runner) start(key Key, of config.Discover, before *running, saved map[Key]Set) {
	n := &running{of: of, state: State{Key: key, Failures: make(map[FailureKind]uint64)}}
	if before != nil && before.of.Prefix == of.Prefix {
		n.state = before.state
		n.state.Failures = maps.Clone(before.state.Failures)
	} else if set, ok := saved[key]; ok {
		n.state.Set = &set
	}
	var ctx context.Context
	ctx, n.stop = context.WithCancel(r.ctx)
	r.running[key] = n
	if source := r.o.Make(of); source != nil {
		r.wg.Go(func() { source.Run(ctx, func(o Outcome) { r.report(ctx, n, o) }) })
	}
}

// report takes an outcome of a source.
func (r *Runner) report(ctx context.Context, n *running, o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if ctx.Err() != nil {
		return // it was stopped
	}
	s := &n.state
	s.Due = o.Due
	before := s.Err
	s.Err = ""
	if o.Err != nil {
		s.Err = o.Err.Error()
		kind := Other
		var f *Failure
		if errors.As(o.Err, &f) {
			kind = f.Kind
		}
		s.Failures[kind]++
	} else {
		s.Success = time.Now()
	}
	if s.Err != before {
		r.log(s, before)
	}
	if o.Set == nil {
		return
	}
	set := *o.Set
	if len(set.Zones) == 0 && s.Set != nil { // a controller that has just begun knows no clients yet
		set.Zones = s.Set.Zones
	}
	if s.Set != nil && s.Set.same(&set) {
		return
	}
	s.Set = &set
	s.Updates++
	r.o.Changed()
}

func (r *Runner) log(s *State, before string) {
	have := 0
	if s.Set != nil {
		have = len(s.Set.Surrogates)
	}
	if s.Err == "" {
		r.o.Log.Info("the source of surrogates works again", "pool", s.Pool, "source", s.Source, "before", before)
		return
	}
	r.o.Log.Warn("the source of surrogates has failed: what it had stays", "pool", s.Pool, "source", s.Source, "surrogates", have, "err", s.Err)
}

// Sets returns the last set of each source that has one.
func (r *Runner) Sets() map[Key]Set {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make(map[Key]Set)
	for key, n := range r.running {
		if n.state.Set != nil {
			out[key] = *n.state.Set
		}
	}
	return out
}

// States returns the sources, in the order of the configuration.
func (r *Runner) States() []State {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := make([]State, 0, len(r.order))
	for _, key := range r.order {
		s := r.running[key].state
		s.Failures = maps.Clone(s.Failures)
		out = append(out, s)
	}
	return out
}

// Close stops the sources and waits for them.
func (r *Runner) Close() {
	r.mu.Lock()
	for _, n := range r.running {
		n.stop()
	}
	r.mu.Unlock()
	r.wg.Wait()
}
