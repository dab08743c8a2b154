package relay

import (
	"context"
	"slices"
	"time"

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
		Method:     method + " Requests are for 128 bytes, four at a time.",
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
			{What: "what a relay's path adds to a round trip of the lab: an open connection, beside one that is only routed", Unit: "ms",
				Ours: experiments.FigureOf("", warmName, []string{"baton", "routed"}, difference)},
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
	return requested(Measure{Name: coldName, Title: "Time from a client's SYN to the first byte, median"}, way.firstByte,
		func(p *Path, n int64) (load.Result, error) {
			return p.ask(load.Options{Path: "/128", Size: peers.Files["/128"], Connections: together, Requests: n})
		})
}

// warm makes requests on connections that have had one.
func warm() Measure {
	return requested(Measure{Name: warmName, Title: "Time from a request on an open connection to the first byte, median"}, way.rtt,
		func(p *Path, n int64) (load.Result, error) {
			return p.ask(load.Options{Path: "/128", Size: peers.Files["/128"], Connections: together, Requests: n, Reuse: true})
		})
}

// together is how many requests are under way at a time.
const together = 4

// requested completes a measure of small requests.
func requested(m Measure, least func(way) time.Duration, ask func(p *Path, n int64) (load.Result, error)) Measure {
	m.Unit, m.Less = "ms", true
	m.Take = func(_ context.Context, t *Turn) (experiments.Sample, error) {
		p := t.Topology
		if p.front.ideal {
			return experiments.Sample{Value: milliseconds(least(p.way))}, nil
		}
		n := int64(40)
		if t.Options.Quick {
			n = 3 * together
		}
		r, err := ask(p, n)
		if err != nil {
			return experiments.Sample{}, err
		}
		return sample(r, r.FirstByte)
	}
	return m
}
