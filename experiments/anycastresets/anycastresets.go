// Package anycastresets asks what a download costs whose connections are reset again and again, as when the route to an anycast address
// moves: figure 5 of Al-Qudah et al., "Anycast-Aware Transport for Content Delivery Networks".
package anycastresets

import (
	"context"
	"fmt"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/emulator"
)

const (
	rate = emulator.Rate(10e6)
	size = 50_000_000
)

// Experiment is the question.
func Experiment() experiments.Experiment[*Topology] {
	return experiments.Experiment[*Topology]{
		Name:     "anycast-resets",
		Question: "What is left of a download's throughput when its connections are reset every few seconds?",
		Method: "A file of 50 MB over an emulated link of 10 Mbit/s, half of the round-trip time and the given loss in each direction, a queue of 200 ms. " +
			"The server resets each connection so many seconds after its first request, as in section 4.1 of the paper; for `baton-route` it resets all connections " +
			"at the same time, as a route does that moves. Goodput is that of the bytes which are in the file at the end, or after the sample's " +
			"duration if that is earlier; each byte of the file is checked.",
		Parameters: []experiments.Parameter{
			{Name: "every", Title: "time between resets", Unit: "s", Values: []float64{1, 2, 10, 30}, Quick: []float64{2}},
			{Name: "loss", Title: "loss each way", Unit: "%", Values: []float64{0.01, 1, 10}, Quick: []float64{0.01}},
			{Name: "rtt", Title: "round-trip time", Unit: "ms", Values: []float64{2, 50, 100, 200}, Quick: []float64{50}},
		},
		Contenders: contenders(),
		Measures:   []experiments.Measure[*Topology]{goodput()},
		Build:      build,
		Enter: func(_ context.Context, t *Topology, c experiments.Case) error {
			way := emulator.Shape{
				Rate:  rate,
				Delay: time.Duration(c.At["rtt"] / 2 * float64(time.Millisecond)),
				Loss:  emulator.Share(c.At["loss"] / 100),
				Queue: emulator.Queue{Bytes: int(rate) / 8 / 5},
			}
			t.Link.Set(way, way)
			return nil
		},
		Rounds:   3,
		Duration: 60 * time.Second,
		Emulated: true,
		Claims:   claims(),
		Caveats: []string{
			"The server that resets a connection is the one that the next connection goes to: the new server's distance and load are those of the old one.",
			"A route that moves is noticed when the client's next segment reaches the new server; here the reset comes behind the data that were sent before it.",
		},
	}
}

func claims() []experiments.Claim {
	const where = "Al-Qudah et al. 2009, section 4.1, figure 5"
	var all []experiments.Claim
	for _, goal := range []struct {
		every int
		loss  string
		rtt   int
		least float64
		paper string
	}{
		{30, "0.01", 200, 0.99, "0.98 to 0.99 ×"}, {30, "0.01", 50, 0.99, "0.98 to 0.99 ×"}, {30, "1", 100, 0.99, "0.98 to 0.99 ×"},
		{10, "0.01", 200, 0.97, "above 0.9 ×"}, {10, "0.01", 50, 0.97, "above 0.9 ×"}, {10, "1", 100, 0.97, "above 0.9 ×"},
		{2, "0.01", 200, 0.95, "a collapse"}, {2, "0.01", 50, 0.95, "a significant degradation"}, {2, "1", 100, 0.95, "a significant degradation"},
		{1, "0.01", 200, 0.95, "a collapse"}, {1, "0.01", 50, 0.95, "a significant degradation"}, {1, "1", 100, 0.95, "a significant degradation"},
	} {
		kase := fmt.Sprintf("every %d s, loss %s %%, rtt %d ms", goal.every, goal.loss, goal.rtt)
		all = append(all, experiments.Claim{
			What:  fmt.Sprintf("goodput beside undisturbed, a reset every %d s, %d ms, %s %% of loss", goal.every, goal.rtt, goal.loss),
			Paper: goal.paper, Where: where, Unit: "×",
			Ours: experiments.RatioOf(kase, "goodput", "baton", "undisturbed"), AtLeast: goal.least,
		})
	}
	return all
}

// Topology is a client and a server, and the link between them:
//
//	client 10.1.0.2 ── emulated ── 10.1.0.1 server
type Topology struct {
	Lab    *lab.Lab
	Client *lab.Host
	Server *lab.Host
	Link   *lab.Link
	Origin *Origin

	client client // whose turn it is
}

// URL is the file's.
func (t *Topology) URL() string { return "http://10.1.0.1/file" }

func build(_ context.Context, s *experiments.Setup) (*Topology, error) {
	l := s.Lab
	t := &Topology{Lab: l, Client: l.Host("client"), Server: l.Host("server")}
	t.Link = l.Link(lab.End{Host: t.Client, Addrs: []string{"10.1.0.2/24"}}, lab.End{Host: t.Server, Addrs: []string{"10.1.0.1/24"}},
		lab.LinkOptions{Emulated: true})
	t.Server.CongestionControl("cubic")
	t.Origin = NewOrigin(size)
	if err := t.Server.Do(func() error { return t.Origin.Listen("10.1.0.1:80") }); err != nil {
		return nil, err
	}
	return t, nil
}
