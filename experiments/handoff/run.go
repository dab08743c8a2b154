package handoff

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"time"

	"baton/experiments/load"
	"baton/lab"
	"baton/lab/peers"
)

// Options of a run. The zero value of each field takes the default.
type Options struct {
	Measures   []string      // names, as in the report; default: all
	Contenders []Contender   // in this order in every round; the first is what the others are compared with
	Rounds     int           // default: 5
	Duration   time.Duration // of each of the two rates in a round; default: 3 s
	Bulk       string        // file of the bulk download; default: "/1g"
	Probes     int           // connections, one at a time, for the time to first byte; default: 1000
	Surrogates int           // default: 2
	IPv6       bool
}

// Contenders are those that need nothing of Baton. Direct comes first: ratios are to it.
func Contenders() []Contender {
	return []Contender{Direct(), HAProxy(), NginxProxy(), Redirect()}
}

func (o Options) complete() Options {
	if len(o.Contenders) == 0 {
		o.Contenders = Contenders()
	}
	if o.Rounds <= 0 {
		o.Rounds = 5
	}
	if o.Duration <= 0 {
		o.Duration = 3 * time.Second
	}
	if o.Bulk == "" {
		o.Bulk = "/1g"
	}
	if o.Probes <= 0 {
		o.Probes = 1000
	}
	if o.Surrogates <= 0 {
		o.Surrogates = 2
	}
	return o
}

const small = "/128"

// A measure is one question that is put to every contender in every round.
type measure struct {
	name string
	unit string
	load func(o Options) load.Options
	rate func(load.Result) float64 // the figure, in unit
	per  string                    // what processor time is divided by
	work func(load.Result) float64 // how many of those there were
	less bool                      // less is better
}

func (o Options) measures() []measure {
	all := measures()
	if len(o.Measures) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(m measure) bool { return !slices.Contains(o.Measures, m.name) })
}

// Measures names all there are.
func Measures() []string {
	var names []string
	for _, m := range measures() {
		names = append(names, m.name)
	}
	return names
}

func measures() []measure {
	body := make([]byte, peers.Files[small])
	peers.Pattern(body, 0)
	requests := func(r load.Result) float64 { return float64(r.Requests) }
	return []measure{
		{
			name: "bulk", unit: "GB/s", per: "GiB",
			load: func(o Options) load.Options {
				return load.Options{Path: o.Bulk, Size: peers.Files[o.Bulk], Requests: 3}
			},
			rate: func(r load.Result) float64 { return r.Throughput() / 1e9 },
			work: func(r load.Result) float64 { return float64(r.Bytes) / (1 << 30) },
		},
		{
			name: "keep-alive", unit: "requests/s", per: "request",
			load: func(o Options) load.Options {
				return load.Options{Path: small, Body: body, Reuse: true, Connections: 50, Duration: o.Duration}
			},
			rate: load.Result.Rate, work: requests,
		},
		{
			name: "connection per request", unit: "requests/s", per: "request",
			load: func(o Options) load.Options {
				return load.Options{Path: small, Body: body, Connections: 64, Duration: o.Duration}
			},
			rate: load.Result.Rate, work: requests,
		},
		{
			name: "time to first byte", unit: "µs", per: "request", less: true,
			load: func(o Options) load.Options {
				return load.Options{Path: small, Body: body, Requests: int64(o.Probes)}
			},
			rate: func(r load.Result) float64 { return float64(r.FirstByte.ValueAtQuantile(50)) / 1e3 },
			work: requests,
		},
	}
}

// Run builds the topology in the lab and puts every measure to every contender, round by round: A B C, A B C, so
// that what changes on the machine meets all of them. Failed requests are reported, not hidden: see Cell.Errors.
func Run(ctx context.Context, l *lab.Lab, o Options) (*Report, error) {
	o = o.complete()
	t := Build(l, o.Surrogates)
	if err := t.cacheFiles(o); err != nil {
		return nil, fmt.Errorf("handoff: %w", err)
	}
	report := newReport(o, t)
	for round := range o.Rounds {
		for _, c := range o.Contenders {
			if err := ctx.Err(); err != nil {
				return nil, fmt.Errorf("handoff: %w", err)
			}
			if err := turn(ctx, t, c, o, report); err != nil {
				return nil, fmt.Errorf("handoff: round %d: %s: %w", round+1, c.Name, err)
			}
		}
		l.Logf("handoff: round %d of %d done", round+1, o.Rounds)
	}
	report.summarize()
	return report, nil
}

// cacheFiles has the bulk file in the page cache, which the surrogates share, before anybody is measured on it.
func (t *Topology) cacheFiles(o Options) error {
	r, err := load.Run(load.Options{Targets: t.Addresses(o.IPv6), Path: o.Bulk, Size: peers.Files[o.Bulk], Requests: 1,
		Enter: t.Client.Do})
	if err != nil {
		return err
	}
	return r.First
}

func turn(ctx context.Context, t *Topology, c Contender, o Options, report *Report) (err error) {
	running, err := c.Start(t, o.IPv6)
	if err != nil {
		return fmt.Errorf("start: %w", err)
	}
	if running.Stop != nil {
		defer func() { err = errors.Join(err, running.Stop()) }()
	}
	for _, m := range o.measures() {
		if err := ctx.Err(); err != nil {
			return err
		}
		s, err := take(t, running, o, m)
		if err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
		report.add(c.Name, m, s)
	}
	return nil
}

// sample is one measure of one contender in one round.
type sample struct {
	value    float64
	cpu      usage // per unit of work
	errors   int64
	first    error
	reopened int64
	p99      time.Duration // of whole requests
}

func take(t *Topology, running *Running, o Options, m measure) (sample, error) {
	lo := m.load(o)
	lo.Targets, lo.Follow, lo.Enter = running.Targets, running.Follow, t.Client.Do
	lo.Sources = t.Sources(o.IPv6)
	// What the first requests pay (neighbours, caches, connections to the surrogates) is not what is asked.
	warm := lo
	warm.Requests, warm.Duration = max(int64(lo.Connections)*4, 20), 0
	if lo.Size > 1<<20 {
		warm.Path, warm.Size, warm.Requests = "/1m", peers.Files["/1m"], 4
	}
	if _, err := load.Run(warm); err != nil {
		return sample{}, err
	}
	runtime.GC() // now, not while the clock runs

	before, err := measureUsage(t, running)
	if err != nil {
		return sample{}, err
	}
	r, err := load.Run(lo)
	if err != nil {
		return sample{}, err
	}
	after, err := measureUsage(t, running)
	if err != nil {
		return sample{}, err
	}
	if r.Requests == 0 {
		return sample{}, fmt.Errorf("no request was answered: %w", r.First)
	}
	return sample{
		value: m.rate(r), cpu: after.since(before).per(m.work(r)), errors: r.Errors, first: r.First, reopened: r.Reopened,
		p99: time.Duration(r.Total.ValueAtQuantile(99)),
	}, nil
}

func (u usage) per(work float64) usage {
	divide := func(d time.Duration) time.Duration { return time.Duration(float64(d) / work) }
	return usage{divide(u.machine), divide(u.generator), divide(u.servers), divide(u.contender)}
}
