package conformance

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"baton/document"
	"baton/lab"
)

// Options of a run. The zero value of each field takes the default.
type Options struct {
	Targets   []string // default: ovs and baton
	Unpatched bool     // the suite with its wrong SCTP checksum
	Benches   int      // at work at the same time; default: 4

	Program  string    // path of the program baton
	Progress io.Writer // default: nowhere
}

// heavy is the rate from which a load wants the machine for itself, in packets a second.
const heavy = 5000

// chooseTargets returns the targets of these names.
func chooseTargets(names []string) ([]Target, error) {
	all := Targets()
	if len(names) == 0 {
		return all[:2], nil
	}
	var chosen []Target
	for _, n := range names {
		i := slices.IndexFunc(all, func(t Target) bool { return t.Name == n })
		if i < 0 {
			var known []string
			for _, t := range all {
				known = append(known, t.Name)
			}
			return nil, fmt.Errorf("--target %q: %s", n, document.Meant(n, known))
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// Check says what is wrong with the options, before anything is built.
func (o Options) Check() error {
	if o.Benches < 0 {
		return fmt.Errorf("--benches %d: want 1 or more", o.Benches)
	}
	_, err := chooseTargets(o.Targets)
	return err
}

// Run puts cases to each target, one target after the other. Results come with an error too: what was seen until then.
func Run(ctx context.Context, suite *Suite, cases []Case, o Options) (*Results, error) {
	targets, err := chooseTargets(o.Targets)
	if err != nil {
		return nil, err
	}
	o.Benches = cmp.Or(o.Benches, 4)
	if o.Progress == nil {
		o.Progress = io.Discard
	}
	r := newResults(suite, cases, o)
	for _, t := range targets {
		if err = r.put(ctx, t, suite, cases, o); err != nil {
			break
		}
	}
	r.finish(err)
	return r, err
}

// put puts the cases to a target, on benches that are gone afterwards.
func (r *Results) put(ctx context.Context, t Target, suite *Suite, cases []Case, o Options) error {
	began := time.Now()
	p := &progress{out: o.Progress, target: t.Name, left: map[string]int{}, failed: map[string]int{}, total: len(cases)}
	for _, c := range cases {
		p.left[c.File]++
	}
	light, loaded := divide(cases)
	n := max(1, min(o.Benches, len(light)))
	about := TargetInfo{Name: t.Name, Is: t.Is}
	var verdicts []Verdict
	err := lab.Run(o.Progress, func(l *lab.Lab) error {
		benches, err := newBenches(ctx, l, n, t, suite, o)
		for _, b := range benches {
			defer b.tester.close()
		}
		if err != nil {
			return unlessEnded(ctx, err)
		}
		about.Version = benches[0].version
		for _, phase := range []struct {
			benches []*bench
			cases   []Case
		}{{benches, light}, {benches[:1], loaded}} {
			found, err := work(ctx, phase.benches, phase.cases, func(v Verdict) { p.judged(v) }, t.Name)
			verdicts = append(verdicts, found...)
			if err != nil {
				return unlessEnded(ctx, err)
			}
		}
		return nil
	})
	if err == nil {
		err = ctx.Err()
	}
	about.Seconds = time.Since(began).Round(time.Second).Seconds()
	r.add(about, verdicts, cases)
	return err
}

// unlessEnded returns nil instead of an error that comes of the run's being interrupted: a lab whose function fails shows the logs of all
// its processes.
func unlessEnded(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// divide parts the cases that can share the machine, those that take longest first, from those that cannot.
func divide(cases []Case) (light, loaded []Case) {
	for _, c := range cases {
		if c.Rate >= heavy {
			loaded = append(loaded, c)
		} else {
			light = append(light, c)
		}
	}
	slices.SortStableFunc(light, func(a, b Case) int { return cmp.Compare(b.Load, a.Load) })
	return light, loaded
}

// work has the benches take the cases one after the other, until there are none or a bench fails.
func work(ctx context.Context, benches []*bench, cases []Case, tell func(Verdict), target string) ([]Verdict, error) {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	queue := make(chan Case, len(cases))
	for _, c := range cases {
		queue <- c
	}
	close(queue)
	var (
		mu       sync.Mutex
		verdicts []Verdict
		failures []error
		all      sync.WaitGroup
	)
	for _, b := range benches {
		all.Go(func() {
			ctx, release := b.whileTargetLives(ctx)
			defer release()
			for c := range queue {
				s, err := b.tester.try(ctx, c)
				mu.Lock()
				if err == nil {
					v := Verdict{Target: target, File: c.File, Case: c.Name, OK: s.OK, Reason: s.Reason, Seconds: s.Seconds}
					verdicts = append(verdicts, v)
					tell(v)
				} else if !errors.Is(err, context.Canceled) { // not because another bench has failed
					failures = append(failures, err)
				}
				mu.Unlock()
				if err != nil {
					stop()
					return
				}
			}
		})
	}
	all.Wait()
	if len(failures) == 0 && len(verdicts) < len(cases) {
		failures = append(failures, ctx.Err())
	}
	return verdicts, errors.Join(failures...)
}

// progress writes a line when the last case of a file is judged.
type progress struct {
	out         io.Writer
	target      string
	left        map[string]int // cases of a file
	failed      map[string]int
	done, total int
}

func (p *progress) judged(v Verdict) {
	p.done++
	p.left[v.File]--
	if !v.OK {
		p.failed[v.File]++
	}
	if p.left[v.File] > 0 {
		return
	}
	result := "passed"
	if n := p.failed[v.File]; n > 0 {
		result = fmt.Sprintf("%d failed", n)
	}
	fmt.Fprintf(p.out, "%*d/%d  %s  %s  %s\n", len(fmt.Sprint(p.total)), p.done, p.total, p.target, v.File, result)
}
