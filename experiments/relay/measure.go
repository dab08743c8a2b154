package relay

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"baton/experiments"
	"baton/experiments/load"
	"baton/lab/peers"
)

const (
	firstName = "first byte"
	totalName = "download"
)

// patience is how long nothing may come.
const patience = 2 * time.Minute

// file is one of the site, by its size. Those that may take longer than a minute are downloaded once in a turn (see sample).
type file struct {
	path    string
	size    int64
	samples int64 // downloads of a turn
}

var files = []file{{"/10k", 10 << 10, 4}, {"/100k", 100 << 10, 3}, {"/1m", 1 << 20, 2}, {"/4m", 4 << 20, 2}, {"/10m", 10 << 20, 1}, {"/100m", 100 << 20, 1}}

func fileOf(size int64) file {
	for _, f := range files {
		if f.size == size {
			return f
		}
	}
	panic(fmt.Sprintf("relay: no file of %d bytes", size))
}

// fetch downloads a file some times, one after the other, each on a connection of its own.
func (p *Path) fetch(f file, times int64) (load.Result, error) {
	body := make([]byte, f.size)
	peers.Pattern(body, 0)
	return p.ask(load.Options{Path: f.path, Body: body, Requests: times})
}

// ask has the client ask the contender whose turn it is. No answer at all is an error.
func (p *Path) ask(o load.Options) (load.Result, error) {
	o.Targets, o.Timeout, o.Enter = []netip.AddrPort{p.front.target}, patience, p.Client.Do
	r, err := load.Run(o)
	if err == nil && r.Requests == 0 {
		err = fmt.Errorf("%s: no request was answered: %w", o.Path, r.First)
	}
	return r, err
}

// downloads are those of a turn, which several measures tell of.
type downloads struct {
	of     *Turn
	result load.Result
}

// downloaded returns what the turn has downloaded of its case's file.
func downloaded(t *Turn) (load.Result, error) {
	p := t.Topology
	if p.downloads.of == t {
		return p.downloads.result, nil
	}
	f := fileOf(sizeOf(t.Case))
	times := f.samples
	if t.Options.Quick {
		times = 1
	}
	r, err := p.fetch(f, times)
	if err == nil {
		p.downloads = downloads{t, r}
	}
	return r, err
}

// sizeOf is a case's, in bytes.
func sizeOf(c experiments.Case) int64 { return int64(c.At["size"] * (1 << 10)) }

// first and total are of the same downloads.
func first(of func(experiments.Case) route) Measure {
	return timed(Measure{Name: firstName, Title: "Time from a client's SYN to the first byte, median"},
		func(c experiments.Case) time.Duration { return of(c).rtt() }, func(r load.Result) *hdrhistogram.Histogram { return r.FirstByte })
}

func total(of func(experiments.Case) route) Measure {
	return timed(Measure{Name: totalName, Title: "Time from a client's SYN to the last byte, median"},
		func(c experiments.Case) time.Duration { return of(c).pipe(sizeOf(c)) }, func(r load.Result) *hdrhistogram.Histogram { return r.Total })
}

// timed completes a measure of the turn's downloads: ideal is what the pipe would take, of the times that count.
func timed(m Measure, ideal func(experiments.Case) time.Duration, of func(load.Result) *hdrhistogram.Histogram) Measure {
	m.Unit, m.Less = "ms", true
	m.Take = func(_ context.Context, t *Turn) (experiments.Sample, error) {
		if t.Topology.front.ideal {
			return experiments.Sample{Value: milliseconds(ideal(t.Case))}, nil
		}
		r, err := downloaded(t)
		if err != nil {
			return experiments.Sample{}, err
		}
		return sample(r, of(r))
	}
	return m
}

func sample(r load.Result, h *hdrhistogram.Histogram) (experiments.Sample, error) {
	s, err := experiments.Loaded(r, float64(h.ValueAtQuantile(50))/1e6, float64(r.Requests))
	s.Single = experiments.NewDistribution(h)
	if h == r.Total && r.Requests == 1 { // the histogram ends at a minute
		s.Value, s.Single = milliseconds(r.Elapsed), nil
	}
	return s, err
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
