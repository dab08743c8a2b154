// Package health determines which surrogates can take new sessions: by active checks, by failed connections of the router, and by
// the operator who drains them. Failures that a client can cause do not count against a surrogate.
//
// The state machine is pure (machine.go); Checker feeds it events from the network and the clock.
package health

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/netip"
	"reflect"
	"slices"
	"sync"
	"time"

	"baton/router/certs"
	"baton/router/config"
	"baton/router/proxyheader"
)

// ErrUnknown: the surrogate is not in the configuration.
var ErrUnknown = errors.New("unknown surrogate")

// Target is a surrogate to watch. Names are unique.
type Target struct {
	Name    string
	Address netip.AddrPort
	Check   *config.Health      // nil: no active checks
	Pool    string              // members of a pool replace each other
	Reserve bool                // gets no new sessions (weight 0)
	Names   []certs.Ask         // the check makes TLS handshakes with these names; nil: it is of plain HTTP
	Header  proxyheader.Version // a check's connection begins with it
	QUIC    bool                // the check is of QUIC
}

// Transition is a change of a surrogate's phase or of its draining flag.
type Transition struct {
	Surrogate string
	From, To  State
}

// Options of a Checker.
type Options struct {
	Targets []Target
	Passive Passive
	Ports   PortRange // for the checks' connections; nil: the kernel's choice
	// OnChange is called for each transition, serially and in order, from the goroutine that caused it. It may call the
	// Checker's methods, except Close.
	OnChange func(Transition)
	// OnCheck is called for each active check and probe, from many goroutines; err is nil for success.
	OnCheck func(surrogate string, took time.Duration, err error)
	// OnSeen is called when a surrogate has shown another certificate, from many goroutines. It must not block.
	OnSeen func()
	Log    *slog.Logger // nil: slog.Default
}

// Checker watches surrogates. Its methods may be called from any goroutine.
type Checker struct {
	passive  Passive
	probe    func(ctx context.Context, t Target) error // of targets with a check
	connect  func(ctx context.Context, t Target) error // of the others
	secure   *secureProbe                              // of targets with a check and names
	quic     func(ctx context.Context, t Target) error // of those of QUIC
	onChange func(Transition)
	onCheck  func(string, time.Duration, error)
	onSeen   func()
	log      *slog.Logger
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup // one goroutine for each target

	mu        sync.Mutex
	watched   map[string]*watched
	pending   []Transition
	notifying bool
	closed    bool
}

type watched struct {
	target  Target
	machine *machine
	stop    context.CancelFunc
	poke    chan struct{} // capacity 1: the machine's next event has moved
	turn    turn          // owned by the target's goroutine
	seen    []certs.Seen  // of each name asked for so far, in no order
}

// New starts checking. The caller owns the Checker and closes it.
func New(o Options) (*Checker, error) {
	c := &Checker{
		passive: o.Passive, onChange: o.OnChange, onCheck: o.OnCheck, onSeen: o.OnSeen, log: o.Log,
		probe: newProbe(o.Ports), connect: newConnect(o.Ports), quic: newQUIC(o.Ports), secure: &secureProbe{proxyheader.Own(Dialer(o.Ports).DialContext, headerOf)}, watched: make(map[string]*watched),
	}
	if c.onSeen == nil {
		c.onSeen = func() {}
	}
	if c.onChange == nil {
		c.onChange = func(Transition) {}
	}
	if c.onCheck == nil {
		c.onCheck = func(string, time.Duration, error) {}
	}
	if c.log == nil {
		c.log = slog.Default()
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	if err := c.Update(o.Targets); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// Close stops the checks and waits for the Checker's goroutines; the last states can still be read.
func (c *Checker) Close() {
	c.mu.Lock()
	c.closed = true
	c.mu.Unlock()
	c.cancel()
	c.wg.Wait()
}

// Update replaces the targets at a reload. A target with the same address that is up stays up, until its check, which may be
// another by now, says otherwise; if nothing is changed it keeps all of its state. Others start afresh, but stay drained. A
// removed target is dropped without a transition.
func (c *Checker) Update(targets []Target) error {
	wanted := make(map[string]Target, len(targets))
	for _, t := range targets {
		if _, twice := wanted[t.Name]; twice {
			return fmt.Errorf("update health checks: surrogate %q appears twice", t.Name)
		}
		if t.Check != nil && (t.Check.Interval <= 0 || t.Check.Timeout <= 0) {
			return fmt.Errorf("update health checks: surrogate %q: interval and timeout must be positive", t.Name)
		}
		wanted[t.Name] = t
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return errors.New("update health checks: checker is closed")
	}
	was := make(map[string]State)
	for name, w := range c.watched {
		was[name] = w.machine.state
		if wanted[name].Address != w.target.Address {
			was[name] = State{Draining: w.machine.state.Draining}
		}
		if t, ok := wanted[name]; ok && t.alike(&w.target) {
			w.target.Pool, w.target.Reserve = t.Pool, t.Reserve
			delete(wanted, name)
			continue
		}
		w.stop()
		delete(c.watched, name)
	}
	for _, name := range slices.Sorted(maps.Keys(wanted)) {
		c.watchTarget(wanted[name], was[name])
	}
	return nil
}

// alike reports whether another target is checked in the same way.
func (t *Target) alike(o *Target) bool {
	return t.Address == o.Address && t.Header == o.Header && t.QUIC == o.QUIC && slices.Equal(t.Names, o.Names) && reflect.DeepEqual(t.Check, o.Check)
}

// watchTarget starts a target, whose server was in this state; c.mu is held.
func (c *Checker) watchTarget(t Target, was State) {
	w := &watched{target: t, poke: make(chan struct{}, 1)}
	rise, fall := 1, 1
	if t.Check != nil {
		check := *t.Check
		w.target.Check = &check
		rise, fall = check.Rise, check.Fall
	}
	w.machine = newMachine(t.Check != nil, rise, fall, c.passive, time.Now())
	w.machine.continueFrom(was)
	var ctx context.Context
	ctx, w.stop = context.WithCancel(c.ctx)
	c.watched[t.Name] = w
	t = w.target
	c.wg.Go(func() { c.loop(ctx, w, t) })
}

// loop checks a surrogate at once and then at each interval ± 10 %, so that routers started together do not synchronize. Without
// checks, it waits for the surrogate's backoff. In between it makes early probes.
func (c *Checker) loop(ctx context.Context, w *watched, t Target) {
	var check time.Time // the next; zero: none
	if t.Check != nil {
		check = time.Now()
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		c.mu.Lock()
		next := w.machine.next()
		c.mu.Unlock()
		if next.IsZero() || !check.IsZero() && check.Before(next) {
			next = check
		}
		if next.IsZero() {
			timer.Stop()
		} else {
			timer.Reset(time.Until(next))
		}
		select {
		case <-ctx.Done():
			return
		case <-w.poke:
			continue
		case <-timer.C:
		}
		started := time.Now()
		early := false
		c.apply(ctx, w, func(m *machine) {
			m.tick(started)
			early = m.begin(started)
		})
		if regular := !check.IsZero() && !started.Before(check); early || regular {
			c.check(ctx, w, t, started, early && !regular)
			if regular {
				check = started.Add(time.Duration(float64(t.Check.Interval) * (0.9 + 0.2*rand.Float64())))
			}
		}
	}
}

// check checks a surrogate once.
func (c *Checker) check(ctx context.Context, w *watched, t Target, started time.Time, early bool) {
	var err error
	var seen []certs.Seen
	switch {
	case t.Check == nil:
		err = c.connect(ctx, t)
	case t.QUIC:
		err = c.quic(ctx, t)
	case t.Names != nil:
		seen, err = c.secure.check(ctx, t, &w.turn)
	default:
		err = c.probe(ctx, t)
	}
	if ctx.Err() != nil {
		return
	}
	c.onCheck(t.Name, time.Since(started), err)
	c.keepSeen(w, seen)
	failure := ""
	if err != nil {
		failure = err.Error()
	}
	c.apply(ctx, w, func(m *machine) {
		if early {
			m.probed(failure, started, time.Now())
		} else {
			m.checked(failure, started, time.Now())
		}
	})
}

// apply feeds an event to a machine and reports a transition.
func (c *Checker) apply(ctx context.Context, w *watched, event func(*machine)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ctx.Err() == nil {
		c.change(w, event)
	}
}

// change is apply with c.mu held. One goroutine at a time reports until the queue is empty: that keeps the order, and OnChange
// may itself cause a change.
func (c *Checker) change(w *watched, event func(*machine)) {
	from, due := w.machine.state, w.machine.next()
	event(w.machine)
	to := w.machine.state
	if !w.machine.next().Equal(due) {
		select {
		case w.poke <- struct{}{}:
		default:
		}
	}
	if from.Phase == to.Phase && from.Draining == to.Draining {
		return
	}
	c.pending = append(c.pending, Transition{w.target.Name, from, to})
	if c.notifying {
		return
	}
	c.notifying = true
	for len(c.pending) > 0 {
		t := c.pending[0]
		c.pending = c.pending[1:]
		c.mu.Unlock()
		c.tell(t)
		c.mu.Lock()
	}
	c.notifying = false
}

func (c *Checker) tell(t Transition) {
	level := slog.LevelInfo
	if t.To.Phase == Down && t.From.Phase != Down {
		level = slog.LevelWarn
	}
	c.log.Log(context.Background(), level, "surrogate changed", "surrogate", t.Surrogate,
		"from", t.From.Phase, "to", t.To.Phase, "draining", t.To.Draining, "error", t.To.LastError)
	c.onChange(t)
}

// State returns a surrogate's state; the zero State for an unknown one, which is not up.
func (c *Checker) State(surrogate string) State {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.watched[surrogate]; ok {
		return w.machine.state
	}
	return State{}
}

// States returns all surrogates' states.
func (c *Checker) States() map[string]State {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make(map[string]State, len(c.watched))
	for name, w := range c.watched {
		out[name] = w.machine.state
	}
	return out
}

// ReportFailure reports that a connection of the router to a surrogate was refused or not answered; only failures that no client
// can cause may be reported. Enough of them within Passive.Window take the surrogate down until the next successful check, or for
// a backoff without checks; but never the last usable one of its pool (lastUsable), which is probed instead. Unknown surrogates
// are ignored: a reload may have removed them.
func (c *Checker) ReportFailure(surrogate, kind string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.watched[surrogate]; ok && !c.closed {
		c.change(w, func(m *machine) { m.failed(kind, lastUsable(c.others(w)), time.Now()) })
	}
}

// Suspect reports a failure that the client may have caused: a session or request that ended without a response. It schedules an
// early probe of the surrogate: its check, or a connection if there is none. At most one a second.
func (c *Checker) Suspect(surrogate string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if w, ok := c.watched[surrogate]; ok && !c.closed {
		c.change(w, func(m *machine) { m.suspected(time.Now()) })
	}
}

// others are the states of the pool's other members. c.mu is held.
func (c *Checker) others(of *watched) []State {
	var out []State
	for _, w := range c.watched {
		if w != of && w.target.Pool == of.target.Pool && !w.target.Reserve {
			out = append(out, w.machine.state)
		}
	}
	return out
}

// Drain sets or clears the draining flag. It returns ErrUnknown for an unknown surrogate.
func (c *Checker) Drain(surrogate string, on bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	w, ok := c.watched[surrogate]
	if !ok {
		return fmt.Errorf("drain %q: %w", surrogate, ErrUnknown)
	}
	c.change(w, func(m *machine) { m.drain(on) })
	return nil
}
