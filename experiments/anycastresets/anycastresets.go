// Package anycastresets asks what a download costs whose connections are reset again and again, as when the route to an anycast address
// moves: figure 5 of Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks".
package anycastresets

import (
	"fmt"
	"time"

	"baton/experiments"
	"baton/lab/emulator"
)

const (
	rate = emulator.Rate(10e6)
	size = 50_000_000
)

// Experiment is the question over two distances, in less than half an hour.
func Experiment() experiments.Experiment[*Topology] {
	return experiment("anycast-resets", 1, 50, 200)
}

// Grid is the question over the whole of the figure's grid: hours.
func Grid() experiments.Experiment[*Topology] {
	return experiment("anycast-resets-grid", 3, 2, 10, 50, 100, 200)
}

func experiment(name string, rounds int, distances ...float64) experiments.Experiment[*Topology] {
	return experiments.Experiment[*Topology]{
		Name:     name,
		Question: "What is left of a download's throughput when its connections are reset every few seconds?",
		Method: "A file of 50 MB over emulated links of 10 Mbit/s, half of the round-trip time and the given loss in each direction, a queue of 200 ms. All contenders " +
			"download at the same time, each over a link of its own. The server resets each connection so many seconds after its first request, as in section 4.1 of the paper; " +
			"for `baton-route` it resets all connections at the same time, as a route does that moves. Goodput is that of the bytes which are in the file at the " +
			"end, or after the sample's duration if that is earlier; each byte of the file is checked.",
		Parameters: []experiments.Parameter{
			{Name: "every", Title: "time between resets", Unit: "s", Values: []float64{1, 2, 10, 30}, Quick: []float64{2}},
			{Name: "loss", Title: "loss each way", Unit: "%", Values: []float64{0.01, 1, 10}, Quick: []float64{0.01}},
			{Name: "rtt", Title: "round-trip time", Unit: "ms", Values: distances, Quick: []float64{50}},
		},
		Contenders: contenders(),
		Measures:   []experiments.Measure[*Topology]{goodput()},
		Build:      build,
		Enter:      enter,
		Rounds:     rounds,
		Duration:   60 * time.Second,
		Emulated:   true,
		Claims:     claims(),
		Caveats: []string{
			"The server that resets a connection is the one that the next connection goes to: the new server's distance and load are those of the old one.",
			"A route that moves is noticed when the client's next segment reaches the new server; here the reset comes behind the data that were sent before it.",
			"The contenders of a case share the machine's processors, though not their links.",
		},
	}
}

// claims are the goals: for losses of 1 % at most.
func claims() []experiments.Claim {
	var all []experiments.Claim
	for _, goal := range []struct {
		every int
		least float64
		paper string
	}{
		{30, 0.99, "0.98 to 0.99 ×"}, {10, 0.97, "above 0.9 ×"}, {2, 0.95, "a significant degradation"}, {1, 0.95, "a significant degradation"},
	} {
		for _, loss := range []string{"0.01", "1"} {
			for _, rtt := range []int{50, 200} {
				kase := fmt.Sprintf("every %d s, loss %s %%, rtt %d ms", goal.every, loss, rtt)
				all = append(all, experiments.Claim{
					What:  fmt.Sprintf("goodput beside undisturbed, a reset every %d s, %d ms, %s %% of loss", goal.every, rtt, loss),
					Paper: goal.paper, Where: "Al-Qudah et al. 2009, section 4.1, figure 5", Unit: "×",
					Ours: experiments.RatioOf(kase, "goodput", "baton", "undisturbed"), AtLeast: goal.least,
				})
			}
		}
	}
	return all
}
