// Package longpath asks what the TCP options are worth that a handoff keeps: the handoff experiment again, with distance and loss
// between the client and the router.
package longpath

import (
	"context"
	"fmt"
	"time"

	"baton/experiments"
	"baton/experiments/handoff"
	"baton/lab"
	"baton/lab/emulator"
)

// rate of the client's link: fast enough that windows and losses are what limits a download.
const rate emulator.Rate = 1e9

// Experiment is the question, with the topology and the contenders of the handoff experiment.
func Experiment() experiments.Experiment[*handoff.Topology] {
	return experiments.Experiment[*handoff.Topology]{
		Name:     "handoff-long-path",
		Question: "What are window scale, SACK and timestamps worth to a client that is handed off over a long or lossy path?",
		Method: "The topology of `handoff`, with an emulated link of 1 Gbit/s between client and router: half of the round-trip time and the given " +
			"loss in each direction, a queue of 100 ms. The surrogates are next to the router. `stripped` is Baton with a client that " +
			"offers no window scale, no SACK and no timestamps, which is what both ends have where the controller strips these options from the " +
			"handshake, as the paper's does. All hosts may use windows of 64 MiB and CUBIC, Debian's default congestion control; `direct-bbr` and `baton-bbr` are " +
			"`direct` and `baton` with surrogates that use BBR, which remembers the shortest round trip that it has seen.",
		Parameters: []experiments.Parameter{
			{Name: "rtt", Title: "round-trip time", Unit: "ms", Values: []float64{5, 50, 200}, Quick: []float64{50}},
			{Name: "loss", Title: "loss each way", Unit: "%", Values: []float64{0, 2}, Quick: []float64{0, 2}},
		},
		Contenders: contenders(),
		Measures:   []handoff.Measure{goodput(), object(), firstByte()},
		Build:      build,
		Enter: func(_ context.Context, t *handoff.Topology, c experiments.Case) error {
			way := emulator.Shape{
				Rate:  rate,
				Delay: time.Duration(c.At["rtt"] / 2 * float64(time.Millisecond)),
				Loss:  emulator.Share(c.At["loss"] / 100),
			}
			t.ClientLink.Set(way, way)
			return nil
		},
		Duration: 4 * time.Second,
		IPv6:     true,
		Emulated: true,
		Claims:   claims(),
		Caveats: []string{
			"One download has the link to itself, and losses are independent of each other and of the load: real paths lose in bursts, and because of others.",
			"A proxy ends the client's connection at the router and has no distance behind it: where the surrogates are far from the router, splitting " +
				"the path is worth something by itself (see the relay).",
		},
	}
}

func build(_ context.Context, s *experiments.Setup) (*handoff.Topology, error) {
	t := handoff.Build(s, handoff.Layout{Client: lab.LinkOptions{Emulated: true}, IPv6: s.Options.IPv6})
	// Twice what 1 Gbit/s keeps under way in 200 ms.
	for _, h := range append(senders(t), t.Client) {
		h.Sysctl("net.ipv4.tcp_rmem", "4096 131072 67108864")
		h.Sysctl("net.ipv4.tcp_wmem", "4096 131072 67108864")
	}
	for _, h := range senders(t) {
		h.CongestionControl("cubic")
	}
	return t, t.CacheFiles(large)
}

// senders are those who send what clients download.
func senders(t *handoff.Topology) []*lab.Host { return append([]*lab.Host{t.Router}, t.Surrogates...) }

// contenders are those of handoff, Baton as the paper has it, and the first two with another congestion control.
func contenders() []handoff.Contender {
	stripped := handoff.Baton()
	stripped.Name, stripped.Is = "stripped", "baton, for a client whose options were stripped as in the paper"
	start := stripped.Start
	stripped.Start = func(ctx context.Context, t *handoff.Turn) error {
		for _, option := range []string{"window_scaling", "sack", "timestamps"} {
			key := "net.ipv4.tcp_" + option
			t.Topology.Client.Sysctl(key, "0")
			t.OnEnd(func() error { t.Topology.Client.Sysctl(key, "1"); return nil })
		}
		return start(ctx, t)
	}
	return []handoff.Contender{handoff.Direct(), handoff.Baton(), stripped, handoff.Redirect(), handoff.HAProxy(), handoff.NginxProxy(),
		withBBR(handoff.Direct()), withBBR(handoff.Baton())}
}

func withBBR(c handoff.Contender) handoff.Contender {
	start := c.Start
	c.Name, c.Is = c.Name+"-bbr", c.Is+"; the surrogates use BBR"
	c.Start = func(ctx context.Context, t *handoff.Turn) error {
		for _, h := range t.Topology.Surrogates {
			h.CongestionControl("bbr")
			t.OnEnd(func() error { h.CongestionControl("cubic"); return nil })
		}
		return start(ctx, t)
	}
	return c
}

func claims() []experiments.Claim {
	kase := func(rtt int, loss string) string { return fmt.Sprintf("rtt %d ms, loss %s %%", rtt, loss) }
	const where = "Boros et al. 2019, section 5.1: window scale, SACK and timestamps are stripped; keeping them is future work"
	beside := func(what, c, measure, contender, base string, least, most float64) experiments.Claim {
		return experiments.Claim{What: what, Unit: "×", Ours: experiments.RatioOf(c, measure, contender, base), AtLeast: least, AtMost: most}
	}
	scale := beside("download over 50 ms without loss, with the options beside without", kase(50, "0"), "download", "baton", "stripped", 10, 0)
	sack := beside("download over 50 ms with 2 % loss, with the options beside without", kase(50, "2"), "download", "baton", "stripped", 1.5, 0)
	scale.Paper, scale.Where, sack.Paper, sack.Where = "1 ×", where, "1 ×", where
	return []experiments.Claim{
		scale, sack,
		beside("download over 200 ms without loss, handoff beside direct", kase(200, "0"), "download", "baton", "direct", 0.9, 0),
		beside("the same with BBR", kase(200, "0"), "download", "baton-bbr", "direct-bbr", 0.9, 0),
		beside("download over 50 ms with 2 % loss, handoff beside direct", kase(50, "2"), "download", "baton", "direct", 0.9, 0),
		beside("time to first byte over 50 ms, handoff beside direct", kase(50, "0"), "time to first byte", "baton", "direct", 0, 1.02),
		beside("time to first byte over 50 ms, handoff beside a 302", kase(50, "0"), "time to first byte", "baton", "redirect", 0, 0.6),
	}
}
