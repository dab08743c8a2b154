// Package redirection draws the figures of section 5 of "Transparent Redirections in Content Delivery Networks" (Boros et al. 2019) from the running
// system: the network of examples/cdn, with 3 to 100 forwarders in line.
package redirection

import (
	"context"
	"fmt"
	"strings"

	"baton/experiments"
	"baton/experiments/cdn"
)

type (
	turn      = experiments.Turn[*Topology]
	contender = experiments.Contender[*Topology]
	measure   = experiments.Measure[*Topology]
	sample    = experiments.Sample
)

// lengths of the line, in forwarders: those of the paper.
var lengths = []float64{3, 5, 10, 30, 50, 100}

const (
	forwarders = "forwarders"
	vswitch    = "3 forwarders, Open vSwitch at the access"
)

func caseOf(length float64) string { return fmt.Sprintf("%g forwarders", length) }

// short reports whether a case has the paper's figure 15: few hops, where everything but the influence of the length is measured.
func short(c experiments.Case) bool { return c.Name == caseOf(lengths[0]) || c.Name == vswitch }

// Experiment compares the ways to redirect.
func Experiment() experiments.Experiment[*Topology] {
	var cases []experiments.Case
	for _, n := range lengths {
		cases = append(cases, experiments.Case{Name: caseOf(n), At: map[string]float64{forwarders: n}, Quick: n == 3 || n == 10})
	}
	cases = append(cases, experiments.Case{Name: vswitch, Quick: true})
	return experiments.Experiment[*Topology]{
		Name:     "redirection",
		Question: "What does it cost to redirect a client to a surrogate: by handoff, by 302, by DNS, by a proxy?",
		Method: "The network of `examples/cdn`: forwarders in line, in one process; the client at the first, request router and surrogate at the last, " +
			"origin, name server and controller halfway. All forwarders are `baton forwarder`, but for the access in the case with Open vSwitch. The network is built " +
			"anew for each case of each round. The surrogate is nginx with its cache full of what is asked for. The client is a load generator with one connection at a time. " +
			"A 302 names the surrogate by its address, so that it needs no second look at the DNS.",
		Parameters: []experiments.Parameter{{Name: forwarders, Title: "forwarders in line", Values: lengths, Quick: []float64{3, 10}}},
		Cases:      cases,
		Contenders: contenders(),
		Measures:   measures(),
		Build: func(_ context.Context, s *experiments.Setup) (*Topology, error) {
			folder, err := cdn.Examples()
			if err != nil {
				return nil, err
			}
			t := &Topology{setup: s, examples: folder}
			s.Lab.T().Cleanup(t.leave)
			return t, nil
		},
		Enter:   func(ctx context.Context, t *Topology, c experiments.Case) error { return t.enter(ctx, c) },
		Claims:  claims(),
		Summary: flowMods,
		Caveats: []string{
			"All forwarders, hosts and programs share two processors, and links have no length: differences are work, not distance.",
			"The client's program and the surrogate's are in every figure: see the difference to `direct`.",
			"The paper's figures 11 to 14 and 16 to 21 are drawings without numbers; what its text says is beside ours.",
		},
	}
}

// The contenders.
const (
	direct     = "direct"
	native     = "native"
	redirect   = "302"
	dnsRouting = "dns"
	haproxy    = "haproxy"
	reactive   = "reactive"
	anew       = "reactive-uncached"
	stripped   = "reactive-stripped"
	controller = "controller"
)

// The measures.
const (
	start       = "start of transfer"
	first       = "first request"
	handshake   = "handshake"
	redirection = "redirection"
	keepAlive   = "keep-alive"
	download    = "download"
	bandwidth   = "bandwidth"
	goodput     = "through the controller"
	packets     = "packets through the controller"
	mods        = "flow mods"
	killed      = "controller killed"
	discovery   = "discovery"
	cut         = "link cut"
)

const paper = "Boros et al. 2019, "

func claims() []experiments.Claim {
	three, longest := caseOf(lengths[0]), caseOf(lengths[len(lengths)-1])
	all := func(figure func(kase string) experiments.Figure) experiments.Figure {
		var list []experiments.Figure
		for _, n := range lengths {
			list = append(list, figure(caseOf(n)))
		}
		return experiments.LargestOf(list...)
	}
	beside := func(measure, contender, base string) experiments.Figure {
		return all(func(kase string) experiments.Figure { return experiments.RatioOf(kase, measure, contender, base) })
	}
	value := experiments.ValueOf
	return []experiments.Claim{
		{What: "start of transfer, native beside direct, at the worst length", Unit: "×", Ours: beside(start, native, direct), AtMost: 1.1},
		{What: "start of transfer, native beside a 302, at the worst length", Unit: "×", Ours: beside(start, native, redirect), AtMost: 0.99,
			Paper: "a handoff is slower", Where: paper + "figures 11 to 14"},
		{What: "start of transfer, native beside HAProxy, at the worst length", Unit: "×", Ours: beside(start, native, haproxy), AtMost: 0.99,
			Paper: "a handoff is slower", Where: paper + "figure 20"},
		{What: "start of transfer, what a forwarder adds: direct", Unit: "µs", Ours: slope(start, direct)},
		{What: "the same, native", Unit: "µs", Ours: slope(start, native)},
		{What: "the same, reactive, paths cached", Unit: "µs", Ours: slope(start, reactive), Paper: "nothing but the network's delay", Where: paper + "figure 13"},
		{What: "the same, reactive, no path cache", Unit: "µs", Ours: slope(start, anew), Paper: "linear", Where: paper + "figure 11"},
		{What: "handshake, reactive", Unit: "ms", Ours: value(three, handshake, reactive), AtMost: 1.3, Paper: "13 ms", Where: paper + "section 4.2"},
		{What: "handshake, native", Unit: "ms", Ours: value(three, handshake, native), Paper: "0.9 ms without the controller", Where: paper + "section 4.2"},
		{What: "start of transfer, reactive, paths cached, at the worst length", Unit: "ms", AtMost: 13, Paper: "more than its handshake, 13 ms", Where: paper + "figures 13 and 16",
			Ours: all(func(kase string) experiments.Figure { return value(kase, start, reactive) })},
		{What: "redirection from the GET, native beside a 302", Unit: "×", Ours: experiments.RatioOf(three, redirection, native, redirect), AtMost: 0.99,
			Paper: "slower", Where: paper + "figure 17"},
		{What: "1 GB, bandwidth, reactive beside a 302", Unit: "×", Ours: experiments.RatioOf(three, bandwidth, reactive, redirect),
			Paper: "0.88 × (280 and 320 Mbit/s)", Where: paper + "figure 19"},
		{What: "1 GB, bandwidth, reactive with options stripped as the paper has it", Unit: "Mbit/s", Ours: value(three, bandwidth, stripped), Paper: "280 Mbit/s", Where: paper + "figure 19"},
		{What: "next request of a connection, native beside HAProxy", Unit: "×", Ours: experiments.RatioOf(three, keepAlive, native, haproxy), AtMost: 0.99,
			Paper: "faster", Where: paper + "figure 21"},
		{What: "goodput through the controller", Unit: "Mbit/s", Ours: value(three, goodput, controller), AtLeast: 150, Paper: "15 Mbit/s", Where: paper + "figure 8"},
		{What: "flow mods of a handoff over 100 forwarders, no path cache", Unit: "", Ours: value(longest, mods, anew), Paper: "203", Where: paper + "equation 5"},
		{What: "requests answered while the controller is killed, native", Unit: "%", Ours: value(three, killed, native), AtLeast: 100},
		{What: "the same, on sessions that were handed over by the controller", Unit: "%", Ours: value(three, killed, reactive), AtLeast: 100},
		{What: "discovery of 100 forwarders, by a new controller's start", Unit: "s", Ours: value(longest, discovery, controller), AtMost: 5},
		{What: "pause of a stream of packets when a link is cut", Unit: "ms", Ours: value(three, cut, controller), AtMost: 200},
	}
}

// slope is what a forwarder adds to a time (µs), from the shortest line to the longest.
func slope(measure, contender string) experiments.Figure {
	from, to := lengths[0], lengths[len(lengths)-1]
	return experiments.AcrossOf([]string{caseOf(from), caseOf(to)}, measure, contender, func(s []sample) float64 {
		return (s[1].Value - s[0].Value) * 1000 / (to - from)
	})
}

// flowMods compares the flow mods of a handoff with the paper's equation 5.
func flowMods(r *experiments.Results) string {
	var b strings.Builder
	for _, n := range lengths {
		without, cached := r.Value(caseOf(n), anew, mods), r.Value(caseOf(n), reactive, mods)
		if without.Rounds == 0 || cached.Rounds == 0 {
			continue
		}
		fmt.Fprintf(&b, "| %g | %g | %.1f | %.1f |\n", n, 7+2*(n-2), without.Median, cached.Median)
	}
	if b.Len() == 0 {
		return ""
	}
	return "## Flow mods of a handoff\n\nEquation 5 of the paper is 7 + 2 (n − 2). Ours are all that the controller sends until the client has closed its session: also those for its FIN or RST, " +
		"and two removals.\n\n| Forwarders | Equation 5 | Ours, no path cache | Ours, paths cached |\n|---|---|---|---|\n" + b.String()
}
