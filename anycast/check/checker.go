// Package check measures the health and the load of a site. Probing the network, programs and the kernel is in probe.go and measure.go;
// evaluating the results is pure (verdict.go, rate.go).
package check

import (
	"context"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"baton/anycast/config"
	"baton/anycast/level"
)

// Options make a Checker.
type Options struct {
	Checks   []config.Check
	Measures []config.Measure
	Stale    time.Duration // older measurements are ignored
	Changed  func()        // called, from any goroutine, when the health has changed; may be nil
}

// Checker checks a site. Its methods may be called from any goroutine.
type Checker struct {
	o      Options
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu       sync.Mutex
	verdicts []verdict
	samples  []Sample
}

// State is the health of a site.
type State struct {
	Health level.Health
	Cause  string // of a health that is not Up: "check web: connection refused"
	Checks []Result
}

// Result is the result of one check.
type Result struct {
	Name   string
	Health level.Health
	Last   string // the last failure, "" when the last check was a success
	At     time.Time
}

// Sample is the latest value of a measurement.
type Sample struct {
	Name  string
	Share float64 // of the capacity; negative before there is any
	At    time.Time
	Error string // of the last attempt, "" if it succeeded
}

// New starts the checks. The caller closes the Checker.
func New(o Options) *Checker {
	ctx, cancel := context.WithCancel(context.Background())
	c := &Checker{o: o, cancel: cancel}
	for _, k := range o.Checks {
		c.verdicts = append(c.verdicts, newVerdict(k.Rise, k.Fall))
	}
	for _, m := range o.Measures {
		c.samples = append(c.samples, Sample{Name: m.Name, Share: -1})
	}
	for i := range o.Checks {
		c.wg.Go(func() { c.check(ctx, i) })
	}
	for i := range o.Measures {
		c.wg.Go(func() { c.measure(ctx, i) })
	}
	return c
}

// Close stops the checks. When it returns, none of their goroutines and programs runs.
func (c *Checker) Close() {
	c.cancel()
	c.wg.Wait()
}

// every calls f at once, and then at the interval ± 10 %, so that sites started together do not probe together.
func every(ctx context.Context, interval time.Duration, f func()) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		started := time.Now()
		f()
		timer.Reset(max(0, time.Duration(float64(interval)*(0.9+0.2*rand.Float64()))-time.Since(started)))
	}
}

func (c *Checker) check(ctx context.Context, i int) {
	k := &c.o.Checks[i]
	probe := newProbe(k)
	every(ctx, k.Interval, func() {
		bounded, cancel := context.WithTimeout(ctx, k.Timeout)
		err := probe(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		changed := c.verdicts[i].record(err, time.Now())
		c.mu.Unlock()
		if changed && c.o.Changed != nil {
			c.o.Changed()
		}
	})
}

func (c *Checker) measure(ctx context.Context, i int) {
	m := &c.o.Measures[i]
	read := newMeasure(m)
	var last rate
	every(ctx, m.Interval, func() {
		bounded, cancel := context.WithTimeout(ctx, m.Timeout)
		value, err := read(bounded)
		cancel()
		if ctx.Err() != nil {
			return
		}
		at, ready := time.Now(), true
		if err == nil && (m.Rate || m.Device != "") {
			value, ready, err = last.add(value, at)
		}
		if err == nil && ready {
			err = plausible(value)
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		s := &c.samples[i]
		switch s.Error = ""; {
		case err != nil:
			s.Error = err.Error()
		case ready:
			s.Share, s.At = min(value/m.Capacity, mostShare), at
		}
	})
}

// mostShare limits the load of a site; beyond it larger values make no difference.
const mostShare = 1000

// Health combines all checks: down if one of them is down, unknown until all have a result.
func (c *Checker) Health() State {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := State{Health: level.Up, Checks: make([]Result, 0, len(c.verdicts))}
	var causes []string
	for i := range c.verdicts {
		v := &c.verdicts[i]
		r := Result{Name: c.o.Checks[i].Name, Health: v.health, Last: v.last, At: v.at}
		s.Checks = append(s.Checks, r)
		switch {
		case r.Health == level.Down:
			s.Health = level.Down
			causes = append(causes, "check "+r.Name+": "+v.fault)
		case r.Health == level.Unknown && s.Health == level.Up:
			s.Health = level.Unknown
		}
	}
	s.Cause = strings.Join(causes, "; ")
	return s
}

// Load returns the greatest fresh measurement, or a negative number without any.
func (c *Checker) Load(now time.Time) (float64, []Sample) {
	c.mu.Lock()
	defer c.mu.Unlock()
	most := -1.0
	for _, s := range c.samples {
		if s.Share >= 0 && now.Sub(s.At) < c.o.Stale {
			most = math.Max(most, s.Share)
		}
	}
	return most, append([]Sample(nil), c.samples...)
}
