package endhost

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/experiments"
	"baton/experiments/load"
)

// The measures' names, which the claims use.
const (
	fetchName = "time"
	benchName = "time by ab"
)

// requests are how many a sample has, as in the paper; a quick run has fewer.
func requests(t *Turn) int {
	if t.Options.Quick {
		return 20
	}
	return 100
}

// fetch is the time of all requests by the load generator of these experiments.
func fetch() Measure {
	return Measure{Name: fetchName, Title: "Time of 100 requests, each on a connection of its own", Unit: "s", Less: true, Warm: aligned, Take: timed(fetchName,
		func(_ context.Context, t *Turn) (experiments.Sample, error) {
			size, concurrency := sizeOf(t.Case), concurrencyOf(t.Case)
			f, n := kilobytes(size), requests(t)
			r, err := t.Topology.ask(load.Options{Path: f.path, Body: f.body, Connections: concurrency, Requests: int64(n), Timeout: patience})
			if err != nil {
				return experiments.Sample{}, err
			}
			return experiments.Loaded(r, r.Elapsed.Seconds(), float64(r.Requests))
		})}
}

// bench is the time of all requests as reported by ab.
func bench() Measure {
	return Measure{Name: benchName, Title: "Time of 100 requests by ab, as in the paper", Unit: "s", Less: true, Warm: aligned, Take: timed(benchName,
		func(ctx context.Context, t *Turn) (experiments.Sample, error) {
			size, concurrency := sizeOf(t.Case), concurrencyOf(t.Case)
			if t.Topology.front.bound {
				return t.Topology.benchBound(ctx, size, requests(t), concurrency)
			}
			return t.Topology.ab(ctx, netip.Addr{}, size, requests(t), concurrency)
		})}
}

// asking is all that the time of one link depends on.
type asking struct {
	measure         string
	size, datagrams float64
	concurrency     int
}

// taken is a sample of one link, which cases that ask the same of it share in a round, and the ideal contender is computed from.
type taken struct {
	in     string // the case that it was taken in
	sample experiments.Sample
}

// timed completes a measure of a time: which the ideal contender computes, and what came by which link is kept.
func timed(measure string, take func(context.Context, *Turn) (experiments.Sample, error)) func(context.Context, *Turn) (experiments.Sample, error) {
	return func(ctx context.Context, t *Turn) (experiments.Sample, error) {
		p := t.Topology
		asked := asking{measure, sizeOf(t.Case), t.Case.At["datagrams"], concurrencyOf(t.Case)}
		one, known := p.oneLink[asked]
		switch {
		case p.front.ideal && !known:
			return experiments.Sample{}, errors.New("it is computed from what one-link takes, which was not asked")
		case p.front.ideal:
			return experiments.Sample{Value: one.sample.Value * float64(p.used[0].capacity.Load()) / float64(p.total())}, nil
		case p.front.one && known && one.in != t.Case.Name: // the case that it was taken in comes first in the next round, too
			return one.sample, nil
		}
		before, err := p.received()
		if err != nil {
			return experiments.Sample{}, err
		}
		s, err := take(ctx, t)
		if err != nil {
			return s, err
		}
		after, err := p.received()
		if s.Also == nil {
			s.Also = map[string]float64{}
		}
		for i := range after {
			s.Also[p.used[i].name()+" bytes"] = float64(after[i] - before[i])
		}
		if p.front.one {
			p.oneLink[asked] = taken{t.Case.Name, s}
		}
		return s, err
	}
}

// ab runs n requests, c at a time, from an address of the host or from any.
func (t *Topology) ab(ctx context.Context, from netip.Addr, size float64, n, c int) (experiments.Sample, error) {
	args := []string{"-q", "-n", strconv.Itoa(n), "-c", strconv.Itoa(c)}
	if from.IsValid() {
		args = append(args, "-B", from.String())
	}
	t.begun.Add(int64(n))
	out, err := t.Host.Exec(ctx, "ab", append(args, fmt.Sprintf("http://%v%s", serverAddress, kilobytes(size).path))...)
	if err != nil {
		return experiments.Sample{}, err
	}
	took, err := reported(out, "Time taken for tests:")
	failed, failedErr := reported(out, "Failed requests:")
	s := experiments.Sample{Value: took, Work: float64(n), Errors: int64(failed)}
	if failed > 0 {
		s.First = "ab says that requests have failed"
	}
	return s, errors.Join(err, failedErr)
}

// reported finds a figure of ab's report.
func reported(report, label string) (float64, error) {
	_, rest, found := strings.Cut(report, label)
	if words := strings.Fields(rest); found && len(words) > 0 {
		return strconv.ParseFloat(words[0], 64)
	}
	return 0, fmt.Errorf("ab: no %q in its report:\n%s", label, report)
}

// benchBound runs one ab a link, each with its share of the requests and of what is under way at a time; the time is the longest.
func (t *Topology) benchBound(ctx context.Context, size float64, n, c int) (experiments.Sample, error) {
	links := t.used
	if c < len(links) { // the fastest have all
		links = fastest(links, c)
	}
	var weights []int64
	for _, u := range links {
		weights = append(weights, u.capacity.Load())
	}
	ns, cs := split(n, weights), split(c, weights)
	samples := make([]experiments.Sample, len(links))
	began := time.Now()
	var g errgroup.Group
	for i, u := range links {
		g.Go(func() (err error) {
			samples[i], err = t.ab(ctx, u.address, size, ns[i], min(cs[i], ns[i]))
			return err
		})
	}
	err := g.Wait()
	all := experiments.Sample{Work: float64(n), Also: map[string]float64{"with starts": time.Since(began).Seconds()}}
	for _, s := range samples {
		all.Value = max(all.Value, s.Value)
		all.Errors += s.Errors
		if all.First == "" {
			all.First = s.First
		}
	}
	return all, err
}
