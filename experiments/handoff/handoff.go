package handoff

import (
	"context"

	"baton/experiments"
)

// Experiment uses a network without limits: it measures the machine's own costs.
func Experiment() experiments.Experiment[*Topology] {
	return experiments.Experiment[*Topology]{
		Name:     "handoff",
		Question: "What does a request cost when it is handed off?",
		Method: "One client host, one router, two surrogates with nginx behind it, each a network namespace, joined by veth links. " +
			"The client is a load generator on epoll and plain TCP sockets, with 16 source addresses, that checks every body; it " +
			"has a thread a processor and shares the processors with everything else, so that a rate is a rate of the whole machine.",
		Contenders: Contenders(),
		Measures:   Measures(),
		IPv6:       true,
		Build: func(_ context.Context, s *experiments.Setup) (*Topology, error) {
			t := Build(s, Layout{IPv6: s.Options.IPv6})
			return t, t.CacheFiles(bulkFile(s.Options))
		},
		Claims:  claims(),
		Caveats: caveats,
	}
}

var caveats = []string{
	"The clients, the router and the servers share the processors, so that whatever one of them spends is missing to the others. " +
		"Processor time for a unit of work is the steadier figure.",
	"The kernel books the softirq work of a packet on whichever process was running, so that the router's share in packets cannot be " +
		"told from the sender's: \"added\" is everything that a contender adds, wherever it is booked; \"own\" is what its processes " +
		"used by their own account.",
	"Once it is redirected, the bulk download of `redirect` takes the same way as `direct`: its distance from `direct` is how finely " +
		"this machine can tell two ways apart.",
}

const paper = "Boros et al. 2019"

func claims() []experiments.Claim {
	ratio := func(measure, contender, base string) experiments.Figure {
		return experiments.RatioOf("", measure, contender, base)
	}
	return []experiments.Claim{
		{What: "bulk, handoff beside a 302", Paper: "0.88 × (280 and 320 Mbit/s)", Where: paper + ", section 5.3, figure 19", Unit: "×",
			Ours: ratio("bulk", "baton", "redirect")},
		{What: "time to first byte, handoff beside a 302", Paper: "longer", Where: paper + ", sections 5.3 and 6, figure 17", Unit: "×",
			Ours: ratio("time to first byte", "baton", "redirect"), AtMost: 0.99},
		{What: "connection per request, handoff beside a proxy", Paper: "slower", Where: paper + ", section 5.4, figure 20", Unit: "×",
			Ours: ratio("connection per request", "baton", "haproxy"), AtLeast: 1.5},
		{What: "keep-alive, handoff beside a proxy", Paper: "faster", Where: paper + ", section 5.4, figure 21", Unit: "×",
			Ours: ratio("keep-alive", "baton", "haproxy"), AtLeast: 1},
		{What: "bulk, handoff beside direct", Unit: "×", Ours: ratio("bulk", "baton", "direct"), AtLeast: 0.97},
		{What: "keep-alive, handoff beside direct", Unit: "×", Ours: ratio("keep-alive", "baton", "direct"), AtLeast: 1},
		{What: "connection per request, handoff beside direct", Unit: "×", Ours: ratio("connection per request", "baton", "direct"), AtLeast: 1.3},
	}
}
