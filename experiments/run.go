package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"baton/lab"
)

// Setup is what Build gets.
type Setup struct {
	Lab     *lab.Lab
	Options Options // complete

	servers  []*lab.Process
	versions map[string]string
}

// Serves registers a server that all contenders share, so that its CPU time and its version ("nginx/1.22.1") are recorded.
func (s *Setup) Serves(p *lab.Process, version string) {
	s.servers = append(s.servers, p)
	s.Uses(version)
}

// Uses registers a program.
func (s *Setup) Uses(version string) {
	if name, number, ok := strings.Cut(version, "/"); ok {
		s.versions[name] = number
	}
}

// Turn is a contender's turn in a case: from Start until all measures are taken.
type Turn[T any] struct {
	*Setup
	Topology T
	Case     Case

	processes []*lab.Process
	ends      []func() error
}

// Runs registers a process of the contender, so that its CPU time and its version are recorded.
func (t *Turn[T]) Runs(p *lab.Process, version string) {
	t.processes = append(t.processes, p)
	t.Uses(version)
}

// Processes returns the registered processes.
func (t *Turn[T]) Processes() []*lab.Process { return t.processes }

// OnEnd registers a function to call when the turn ends, also after a failure, in reverse order.
func (t *Turn[T]) OnEnd(f func() error) { t.ends = append(t.ends, f) }

func (t *Turn[T]) end() error {
	var errs []error
	for i := len(t.ends) - 1; i >= 0; i-- {
		errs = append(errs, t.ends[i]())
	}
	return errors.Join(errs...)
}

// ended returns an error if a process of the contender has ended, which explains most other errors.
func (t *Turn[T]) ended() error {
	for _, p := range t.processes {
		select {
		case <-p.Done():
			return fmt.Errorf("a process of the contender (%d) has ended by itself", p.Pid())
		default:
		}
	}
	return nil
}

// run is a running experiment.
type run[T any] struct {
	Experiment[T] // with the selected contenders and measures
	kept          []Case
	o             Options
	results       *Results
	progress      *progress
	place         string // current place in the run, for errors
}

// Check returns what is wrong with the options.
func (e Experiment[T]) Check(o Options) error {
	_, err := e.prepare(o)
	return err
}

func (e Experiment[T]) prepare(o Options) (*run[T], error) {
	about := e.About()
	r := &run[T]{Experiment: e, kept: about.Cases, o: o}
	var err error
	switch {
	case o.IPv6 && !e.IPv6:
		return nil, fmt.Errorf("--ipv6: %s runs over IPv4 only", e.Name)
	case o.Rounds < 0:
		return nil, fmt.Errorf("--rounds %d: want 1 or more", o.Rounds)
	case o.Connections < 0:
		return nil, fmt.Errorf("--connections %d: want 1 or more", o.Connections)
	case o.Duration < 0:
		return nil, fmt.Errorf("--duration %v: want more than 0", o.Duration)
	}
	if o.Quick && len(o.Cases) == 0 {
		r.kept = quickCases(about.Cases)
	}
	if r.kept, err = choose("--case", r.kept, o.Cases, func(c Case) string { return c.Name }); err != nil {
		return nil, err
	}
	if r.Contenders, err = choose("--contender", e.Contenders, o.Contenders, func(c Contender[T]) string { return c.Name }); err != nil {
		return nil, err
	}
	if r.Measures, err = choose("--measure", e.Measures, o.Measures, func(m Measure[T]) string { return m.Name }); err != nil {
		return nil, err
	}
	r.complete()
	r.results = &Results{
		Schema: schema, Experiment: e.Name, Question: e.Question, Parameters: e.Parameters, Cases: r.kept,
		Versions: map[string]string{},
		Options: RunOptions{Rounds: r.o.Rounds, Duration: r.o.Duration.Seconds(), Defaults: o.Rounds == 0 && o.Duration == 0,
			Quick: o.Quick, IPv6: o.IPv6, Seed: o.Seed, Connections: o.Connections, Cases: o.Cases, Contenders: o.Contenders, Measures: o.Measures},
	}
	chosen := r.About()
	r.results.Contenders, r.results.Measures = chosen.Contenders, chosen.Measures
	steps := 0
	for _, c := range r.kept {
		rounds := r.o.Rounds
		if c.Once {
			rounds = 1
		}
		for _, k := range r.Contenders {
			steps += rounds * len(k.measures(c, r.Measures))
		}
	}
	r.progress = newProgress(r.o.Progress, steps)
	return r, nil
}

// complete fills in the defaults.
func (r *run[T]) complete() {
	rounds, duration := r.Rounds, r.Duration
	if rounds == 0 {
		rounds = 5
	}
	if duration == 0 {
		duration = 3 * time.Second
	}
	if r.o.Quick {
		rounds, duration = 1, min(duration, 500*time.Millisecond)
	}
	if r.o.Rounds == 0 {
		r.o.Rounds = rounds
	}
	if r.o.Duration == 0 {
		r.o.Duration = duration
	}
}

// Run runs the experiment in a lab of its own, which is removed at the end.
func (e Experiment[T]) Run(ctx context.Context, o Options) (*Results, error) {
	r, err := e.prepare(o)
	if err != nil {
		return nil, err
	}
	if err := r.describe(ctx); err != nil {
		return nil, fmt.Errorf("%s: %w", e.Name, err)
	}
	done := false
	began := time.Now()
	r.results.Began = began.UTC().Truncate(time.Second)
	err = lab.Run(r.progress, func(l *lab.Lab) error {
		err := r.all(ctx, l)
		done = err == nil
		if ctx.Err() != nil {
			return nil // logs of an interrupted run are not interesting
		}
		return err
	})
	r.progress.finish()
	r.results.Took = math.Round(time.Since(began).Seconds()*10) / 10
	r.results.Ended = Complete
	switch {
	case !done && ctx.Err() != nil:
		r.results.Ended = Interrupted
		err = errors.Join(context.Cause(ctx), err)
	case err != nil:
		r.results.Ended, r.results.Failure = Failed, fmt.Sprintf("%s: %v", r.place, err)
	}
	if err != nil {
		err = fmt.Errorf("%s: %w", sentence(e.Name, r.place), err)
	}
	if len(r.results.Samples) == 0 {
		return nil, err
	}
	return r.results, err
}

// describe records where the run takes place.
func (r *run[T]) describe(ctx context.Context) (err error) {
	if r.results.Machine, err = describeMachine(); err != nil {
		return err
	}
	r.results.Source = describeSource(ctx)
	if r.Emulated && !r.o.Quick {
		r.results.Lab, err = judgeLab(ctx, r.progress)
	}
	return err
}

// all takes every sample, or those before the first error.
func (r *run[T]) all(ctx context.Context, l *lab.Lab) error {
	s := &Setup{Lab: l, Options: r.o, versions: r.results.Versions}
	r.place = "build"
	topology, err := r.Build(ctx, s)
	if err != nil {
		return err
	}
	for round := 1; round <= r.o.Rounds; round++ {
		for _, c := range r.kept {
			if c.Once && round > 1 {
				continue
			}
			r.place = sentence(fmt.Sprint("round ", round), c.Name)
			if r.Enter != nil {
				if err := r.Enter(ctx, topology, c); err != nil {
					return err
				}
			}
			for _, contender := range r.Contenders {
				if err := r.turn(ctx, &Turn[T]{Setup: s, Topology: topology, Case: c}, contender, round); err != nil {
					return err
				}
			}
		}
	}
	r.place = ""
	return nil
}

// measures returns the measures that a contender takes in a case.
func (c Contender[T]) measures(in Case, all []Measure[T]) []Measure[T] {
	if c.Skips == nil {
		return all
	}
	return slices.DeleteFunc(slices.Clone(all), func(m Measure[T]) bool { return c.Skips(in, m.Name) })
}

// turn starts a contender, and takes all its measures.
func (r *run[T]) turn(ctx context.Context, t *Turn[T], c Contender[T], round int) (err error) {
	if err := ctx.Err(); err != nil {
		return err
	}
	measures := c.measures(t.Case, r.Measures)
	if len(measures) == 0 {
		return nil
	}
	defer func() { err = errors.Join(err, t.end()) }()
	r.place = sentence(fmt.Sprint("round ", round), t.Case.Name, c.Name, "start")
	if c.Start != nil {
		if err := c.Start(ctx, t); err != nil {
			return err
		}
	}
	for _, m := range measures {
		r.progress.step(fmt.Sprintf("round %d of %d", round, r.o.Rounds), t.Case.Name, c.Name, m.Name)
		r.place = sentence(fmt.Sprint("round ", round), t.Case.Name, c.Name, m.Name)
		s, err := r.take(ctx, t, m)
		if err := errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		s.Round, s.Case, s.Contender, s.Measure = round, t.Case.Name, c.Name, m.Name
		r.results.Samples = append(r.results.Samples, s)
	}
	r.place = sentence(fmt.Sprint("round ", round), t.Case.Name, c.Name, "stop")
	return nil
}

func (r *run[T]) take(ctx context.Context, t *Turn[T], m Measure[T]) (Sample, error) {
	if m.Warm != nil {
		if err := m.Warm(ctx, t); err != nil {
			return Sample{}, fmt.Errorf("warm up: %w", err)
		}
	}
	if err := ctx.Err(); err != nil {
		return Sample{}, err
	}
	runtime.GC() // so that it does not run during the measurement
	before, err := usageNow(t.processes, t.servers)
	if err != nil {
		return Sample{}, err
	}
	s, err := m.Take(ctx, t)
	if err != nil {
		return Sample{}, errors.Join(err, t.ended())
	}
	after, err := usageNow(t.processes, t.servers)
	if err != nil {
		return Sample{}, err
	}
	if math.IsNaN(s.Value) || math.IsInf(s.Value, 0) {
		return Sample{}, fmt.Errorf("value is %v", s.Value)
	}
	if m.Per != "" {
		if !(s.Work > 0) {
			return Sample{}, fmt.Errorf("%v %ss were done: processor time cannot be divided by that", s.Work, m.Per)
		}
		s.CPU = after.since(before, s.Work)
	}
	return s, nil
}

// sentence joins the non-empty parts.
func sentence(parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, ", ")
}
