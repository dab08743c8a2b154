package probe

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"baton/relay/plan"
)

// KeeperOptions are the options of a Keeper. A zero field means its default.
type KeeperOptions struct {
	Targets []Target
	Every   time.Duration // interval between measurements of a target; default 30 s, ± 10 %
	First   int           // SYNs of a target's first measurement; default 20
	Count   int           // of each later one; default 5
	AtOnce  int           // targets measured in parallel; default 8
}

func (o KeeperOptions) withDefaults() KeeperOptions {
	if o.Every == 0 {
		o.Every = 30 * time.Second
	}
	o.First, o.Count, o.AtOnce = cmp.Or(o.First, 20), cmp.Or(o.Count, 5), cmp.Or(o.AtOnce, 8)
	return o
}

// Measured is the state of a target.
type Measured struct {
	Target
	RTT  time.Duration // minimum of the last measurements; 0: unknown, or unanswered twice in a row
	Last Result        // of the last measurement
	At   time.Time     // when it ended; zero: none
	Err  error         // why the last measurement could not be made, nil if it was
}

// Keeper keeps the round-trip times of many targets up to date. Its methods may be called from any goroutine.
type Keeper struct {
	options KeeperOptions
	measure func(context.Context, Target, Options) (Result, error)
	cancel  context.CancelFunc
	poke    chan struct{} // capacity 1: the schedule has changed
	wg      sync.WaitGroup

	mu       sync.Mutex
	schedule *schedule
	known    map[Target]*history
}

// NewKeeper starts to measure. The caller owns the Keeper and closes it.
func NewKeeper(o KeeperOptions) (*Keeper, error) {
	return newKeeper(o, func(ctx context.Context, t Target, o Options) (Result, error) { return RTT(ctx, t.Address, o) })
}

func newKeeper(o KeeperOptions, measure func(context.Context, Target, Options) (Result, error)) (*Keeper, error) {
	o = o.withDefaults()
	if o.Every < 0 || o.AtOnce < 0 {
		return nil, errors.New("keep round-trip times: intervals and numbers must be positive")
	}
	for _, n := range []int{o.First, o.Count} {
		if err := (Options{Count: n}).check(); err != nil {
			return nil, fmt.Errorf("keep round-trip times: %w", err)
		}
	}
	k := &Keeper{
		options: o, measure: measure, poke: make(chan struct{}, 1),
		schedule: newSchedule(o.Every, o.AtOnce, rand.Float64), known: make(map[Target]*history),
	}
	if err := k.Update(o.Targets); err != nil {
		return nil, err
	}
	var ctx context.Context
	ctx, k.cancel = context.WithCancel(context.Background())
	k.wg.Go(func() { k.run(ctx) })
	return k, nil
}

// Close ends all measurements. When it returns, no goroutine of the Keeper remains; results can still be read.
func (k *Keeper) Close() {
	k.cancel()
	k.wg.Wait()
}

// Update replaces the targets. Unchanged ones keep their measurements; a new address starts anew.
func (k *Keeper) Update(targets []Target) error {
	names := make(map[string]bool, len(targets))
	for _, t := range targets {
		switch {
		case names[t.Name]:
			return fmt.Errorf("keep round-trip times: target %q appears twice", t.Name)
		case !t.Address.IsValid() || t.Address.Port() == 0:
			return fmt.Errorf("keep round-trip times: target %q has no address and port", t.Name)
		}
		names[t.Name] = true
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.schedule.set(time.Now(), targets)
	before := k.known
	k.known = make(map[Target]*history, len(targets))
	for _, t := range targets {
		k.known[t] = cmp.Or(before[t], &history{})
	}
	k.changed()
	return nil
}

func (k *Keeper) changed() {
	select {
	case k.poke <- struct{}{}:
	default:
	}
}

// run starts measurements when they are due.
func (k *Keeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		timer.Stop()
		if at, ok := k.begin(ctx); ok {
			timer.Reset(time.Until(at))
		}
		select {
		case <-ctx.Done():
			return
		case <-k.poke:
		case <-timer.C:
		}
	}
}

// begin starts due measurements, and returns when the next one is due.
func (k *Keeper) begin(ctx context.Context) (time.Time, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for {
		t, ok := k.schedule.next(time.Now())
		if !ok {
			return k.schedule.wake()
		}
		count := k.options.Count
		if k.known[t].rounds == 0 {
			count = k.options.First
		}
		k.wg.Go(func() {
			r, err := k.measure(ctx, t, Options{Count: count})
			if ctx.Err() == nil {
				k.finish(t, r, err)
			}
		})
	}
}

func (k *Keeper) finish(t Target, r Result, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := time.Now()
	if k.schedule.done(now, t) {
		k.known[t].add(now, r, err)
	}
	k.changed()
}

// Measured returns the state of each target, ordered by name.
func (k *Keeper) Measured() []Measured {
	k.mu.Lock()
	defer k.mu.Unlock()
	out := make([]Measured, 0, len(k.known))
	for t, h := range k.known {
		out = append(out, Measured{Target: t, RTT: h.rtt(time.Now(), k.options.Every), Last: h.last, At: h.at, Err: h.err})
	}
	slices.SortFunc(out, func(a, b Measured) int { return a.compare(b.Target) })
	return out
}

// Fill sets the known round-trip times from this host, by its name in the matrix, to the targets.
func (k *Keeper) Fill(m plan.Matrix, from string) {
	for _, t := range k.Measured() {
		if t.RTT > 0 {
			m.Set(from, t.Name, t.RTT)
		}
	}
}
