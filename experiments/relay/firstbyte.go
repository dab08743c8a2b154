package relay

import (
	"context"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"baton/experiments"
	"baton/experiments/load"
	"baton/lab/peers"
)

// FirstByte is the question of waiting alone, for connections that are new and for those that are not.
func FirstByte() experiments.Experiment[*Path] {
	const ms = float64(time.Millisecond)
	w := twoRelays(fastAccess * 1e6)
	return experiments.Experiment[*Path]{
		Name:       "relay-first-byte",
		Question:   "How soon does the first byte come over a long path, on a new connection and on one that is open?",
		Method:     method + " Requests are for 128 bytes, ten in a second.",
		Contenders: slices.Concat([]Contender{endToEnd(), routed()}, others(), steps(), []Contender{ideal()}),
		Measures:   []Measure{cold(), warm()},
		Rounds:     3,
		Build: func(_ context.Context, s *experiments.Setup) (*Path, error) {
			p := build(s, 2)
			p.set(w)
			return p, nil
		},
		Emulated: true,
		Claims: []experiments.Claim{
			{What: "first byte on a new connection: the sum of the legs, the longer of the outer ones, and 1 ms", Unit: "ms",
				Ours: experiments.ValueOf("", coldName, "baton"), AtMost: float64(w.firstByte())/ms + 1},
			{What: "first byte on an open connection: the sum of the legs, and 1 ms", Unit: "ms",
				Ours: experiments.ValueOf("", warmName, "baton"), AtMost: float64(w.rtt())/ms + 1},
			{What: "new connection: more than the lab's own round trip (half of routed) and the longer outer leg", Unit: "ms",
				Ours: experiments.FigureOf("", coldName, []string{"baton", "routed"}, moreThanPath), AtMost: 1},
			{What: "open connection: more than the lab's own round trip (routed)", Unit: "ms",
				Ours: experiments.FigureOf("", warmName, []string{"baton", "routed"}, difference), AtMost: 1},
		},
		Plots: []experiments.Plot{
			{Measure: coldName, Title: "Time from a client's SYN to the first byte, median (the paper's figure 7); less is better"},
			{Measure: coldName, Of: experiments.OfP99},
			{Measure: warmName},
		},
		Caveats: []string{
			"The lab itself makes a round trip longer by some tenths of a millisecond, in each of the links: `routed`, which is two round trips and " +
				"nothing else, tells by how much.",
		},
	}
}

const (
	coldName = "new connection"
	warmName = "open connection"
)

func difference(s []experiments.Sample) float64 { return s[0].Value - s[1].Value }

// cold makes each request on a connection of its own.
func cold() Measure {
	return requested(Measure{Name: coldName, Title: "Time from a client's SYN to the first byte, median"}, route.firstByte, false,
		func(r load.Result) *hdrhistogram.Histogram { return r.FirstByte })
}

// warm makes requests on connections that have had one, as soon as there are enough.
func warm() Measure {
	return requested(Measure{Name: warmName, Title: "Time from a request on an open connection to the first byte, median"}, route.rtt, true,
		func(r load.Result) *hdrhistogram.Histogram { return r.Open })
}

// frequency is of requests, per second: they do not wait for one another, so that none meets another in a processor.
const frequency = 10

// requested completes a measure of small requests.
func requested(m Measure, least func(route) time.Duration, reuse bool, of func(load.Result) *hdrhistogram.Histogram) Measure {
	m.Unit, m.Less = "ms", true
	m.Take = func(_ context.Context, t *Turn) (experiments.Sample, error) {
		p := t.Topology
		if p.front.ideal {
			return experiments.Sample{Value: milliseconds(least(p.route))}, nil
		}
		n := int64(40)
		if t.Options.Quick {
			n = 20
		}
		r, err := p.ask(load.Options{Path: "/128", Size: peers.Files["/128"], Requests: n, Arrivals: frequency, Even: true, Workers: 1, Reuse: reuse})
		if err != nil {
			return experiments.Sample{}, err
		}
		return sample(r, of(r))
	}
	return m
}
