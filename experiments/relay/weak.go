package relay

import (
	"context"
	"fmt"
	"time"

	"baton/experiments"
)

// weakWindow is the receive buffer of a client that has little memory: K-split's script for the paper's figure 9 sets the same.
const weakWindow = "4096 65536 65536"

// Weak is the question of figure 9.
func Weak() experiments.Experiment[*Path] {
	return experiments.Experiment[*Path]{
		Name:     "relay-weak-client",
		Question: "What are relays worth to a client whose receive buffer is 64 KiB?",
		Method: method + " The client's receive buffer is 64 KiB at most, so that no more than that can be under way to it in a round trip; a relay " +
			"near it makes the round trip short.",
		Parameters: []experiments.Parameter{{Name: "size", Title: "size", Unit: "KiB", Values: []float64{10, 100, 1 << 10, 10 << 10}, Quick: []float64{100}}},
		Contenders: append(append([]Contender{endToEnd(), routed()}, steps()...), ideal()),
		Measures:   []Measure{total(weakRoute), first(weakRoute)},
		Rounds:     3,
		Build: func(_ context.Context, s *experiments.Setup) (*Path, error) {
			p := build(s, 2)
			p.set(weakRoute(experiments.Case{}))
			p.Client.Sysctl("net.ipv4.tcp_rmem", weakWindow)
			p.slow = true
			return p, nil
		},
		Emulated: true,
		Claims:   weakClaims(),
		Caveats: []string{
			"Of a receive buffer Linux keeps a part for what packets take besides their bytes: 64 KiB, which the paper's scripts set, are a window of some 42 KiB.",
		},
		Plots: []experiments.Plot{
			{Measure: totalName, Title: "Time of a download to a client with a receive buffer of 64 KiB (the paper's figure 9); less is better"},
			{Measure: totalName, Of: experiments.OfRatio, Title: "The same beside e2e (the paper's figure 9); less is better"},
		},
	}
}

func weakRoute(experiments.Case) route { return twoRelays(fastAccess * 1e6) }

func weakClaims() (list []experiments.Claim) {
	for _, kib := range []int{10, 100, 1 << 10, 10 << 10} {
		kase := fmt.Sprintf("size %d KiB", kib)
		list = append(list,
			experiments.Claim{What: "time of " + kase + ", beside e2e", Unit: "×", Ours: experiments.RatioOf(kase, totalName, "baton", "e2e"),
				Paper: "less, the more the larger the file", Where: paper + ", section 3.3, figure 9", AtMost: 1})
	}
	// The window goes once in each round trip of the client's leg.
	longest := time.Duration(float64(10<<20)/float64(64<<10)*float64(clientRTT)) + weakRoute(experiments.Case{}).rtt()
	return append(list, experiments.Claim{
		What: fmt.Sprintf("time of size 10240 KiB, beside 64 KiB in each round trip of the client's leg (%.1f s)", longest.Seconds()), Unit: "×",
		Ours: experiments.FigureOf("size 10240 KiB", totalName, []string{"baton"}, func(s []experiments.Sample) float64 {
			return s[0].Value / milliseconds(longest)
		})})
}
