// Package anycastpurge asks what it costs live downloads that dormant connections are given up early: table 1 of the paper; and how soon
// dormant ones are gone.
package anycastpurge

import (
	"context"
	"fmt"
	"math"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

// judge is a policy that looks at downloads.
type judge struct {
	name, is string
	looks    bool
	keys     string // of purge.yaml, beside the ports
}

// The paper's own rule is that a timeout which runs out ends the connection at once.
var judges = []judge{
	{name: "regular", is: "the kernel alone"},
	{"0 retries", "the paper's: at the first timeout", true, "max_retries: 0, wait: 0%, floor: 1ms, ceiling: 1h"},
	{"1 retry", "the paper's: at the second timeout", true, "max_retries: 1, wait: 0%, floor: 1ms, ceiling: 1h"},
	{"2 retries", "the paper's: at the third timeout", true, "max_retries: 2, wait: 0%, floor: 1ms, ceiling: 1h"},
	{"baton", "`baton purge` as it is: after the first timeout and as much time again", true, ""},
	{"cautious", "`baton purge` with one retry, and never before 3 s", true, "max_retries: 1, floor: 3s"},
}

type (
	experiment = experiments.Experiment[*Topology]
	turn       = experiments.Turn[*Topology]
)

// Topology is a client and a server with a lossy path between them.
type Topology struct {
	lab     *lab.Lab
	link    *lab.Link // from the client to the server
	options experiments.Options

	verdicts  map[string]verdict // on the downloads of this round and case, by the judge
	downloads int
	judge     string // whose turn it is
}

const judging = "All policies look at the very same downloads: each is a `baton purge` in a dry run, which reports what it would have ended, " +
	"so that the policies differ and the downloads do not. `dropped` counts connections that would have been ended at all, among them those " +
	"whose client had everything and whose last acknowledgement was lost (the paper's server log); `cut` counts those whose client lacked " +
	"something (its client log). "

const independent = "Losses are independent of each other: real paths lose in bursts, which are what timeouts come from."

// Experiment is the question of table 1.
func Experiment() experiments.Experiment[*Topology] {
	return complete(experiment{
		Name:     "anycast-purge",
		Question: "How many live downloads does a server lose by closing unresponsive connections early?",
		Method: "Clients download 2 MiB each from nginx, every download on a connection of its own, over an emulated link with the given loss in each " +
			"direction, half of the round-trip time in each, and a tenth of that as jitter. " + judging +
			"400 downloads a round at up to 1 % of loss, 200 at 3 %, 60 at 10 %, as many at a time as the machine bears.",
		Parameters: []experiments.Parameter{
			{Name: "loss", Title: "loss each way", Unit: "%"}, {Name: "rtt", Title: "round-trip time", Unit: "ms"},
		},
		Cases:  tableCases(),
		Rounds: 2,
		Claims: tableClaims(),
		Caveats: []string{
			independent,
			"The paper's clients were on the Internet of 2008, with its distances and losses mixed, and most of its losses with 0 retries came from one " +
				"client: the table is to be compared in its columns, not in its figures.",
		},
	})
}

func tableCases() (list []experiments.Case) {
	for _, loss := range []float64{0.1, 1, 3, 10} {
		for _, rtt := range []float64{20, 100, 200} {
			list = append(list, experiments.Case{
				Name: fmt.Sprintf("loss %g %%, rtt %g ms", loss, rtt), At: map[string]float64{"loss": loss, "rtt": rtt},
				Quick: loss == 3 && rtt == 20, Once: loss == 10 && rtt > 20, // a download takes minutes
			})
		}
	}
	return list
}

// Live is the goal's question: downloads enough that one in ten thousand would be seen.
func Live() experiments.Experiment[*Topology] {
	return complete(experiment{
		Name:     "anycast-purge-live",
		Question: "Of live downloads over a path that loses 1 %, how many would be ended?",
		Method: "As `anycast-purge`, at 1 % of loss each way and a round-trip time of 20 ms: 19,000 downloads of 64 KiB and 2,500 of 2 MiB a " +
			"round. Timeouts come at the beginning and at the end of a download, where few packets in flight can reveal a lost one: many " +
			"short downloads have more of them than few long ones. " + judging,
		Parameters: []experiments.Parameter{{Name: "size", Title: "size", Unit: "KiB"}},
		Cases: []experiments.Case{
			{Name: "64 KiB", At: map[string]float64{"size": 64, "loss": 1, "rtt": 20}, Quick: true},
			{Name: "2 MiB", At: map[string]float64{"size": 2 << 10, "loss": 1, "rtt": 20}},
		},
		Rounds: 2,
		Claims: liveClaims(),
		Caveats: []string{
			independent,
			"An interval holds the true share with 95 %, if what is rare among many is distributed as Poisson has it: of n downloads none of " +
				"which was seen to be ended at most 3.7 / n would be (the rule of three, two-sided).",
		},
	})
}

func complete(e experiment) experiment {
	add := func(name, title string, of func(verdict) int) {
		e.Measures = append(e.Measures, experiments.Measure[*Topology]{Name: name, Title: title, Unit: "%", Less: true, Take: share(of)})
	}
	add(cutName, "Downloads that would have been cut", func(v verdict) int { return v.cut })
	add(droppedName, "Connections that would have been dropped", func(v verdict) int { return v.dropped })
	e.Emulated, e.Build, e.Enter = true, build, enter
	for _, j := range judges {
		e.Contenders = append(e.Contenders, experiments.Contender[*Topology]{
			Name: j.name, Is: j.is, Start: func(_ context.Context, t *turn) error { t.Topology.judge = j.name; return nil },
		})
	}
	return e
}

const (
	cutName     = "cut"
	droppedName = "dropped"
)

// path is one direction.
func path(c experiments.Case) emulator.Shape {
	delay := time.Duration(c.At["rtt"] / 2 * float64(time.Millisecond))
	return emulator.Shape{Delay: delay, Jitter: delay / 10, Loss: emulator.Share(c.At["loss"] / 100)}
}

// batchOf is what is downloaded in a round.
func batchOf(c experiments.Case) batch {
	b := batch{downloads: 400, atOnce: atOnce(c), size: 2 << 20}
	switch size, live := c.At["size"]; {
	case live && size < 2<<10:
		b.downloads, b.size = 19_000, int(size)<<10
	case live:
		b.downloads = 2500
	case c.At["loss"] > 3:
		b.downloads = 60
	case c.At["loss"] > 1:
		b.downloads = 200
	}
	return b
}

// atOnce is how many downloads go on at a time, so that all together have about 30 MB/s: a machine that has more to do is late, which looks like
// a path whose delay varies. What one has is the estimate of Mathis et al. (1997) for a window that halves at each loss.
func atOnce(c experiments.Case) int {
	const all, segment, least, most = 30e6, 1448, 8, 400
	one := segment / (c.At["rtt"] / 1000) * 1.22 / math.Sqrt(c.At["loss"]/100)
	return int(min(max(all/one, least), most))
}

func build(_ context.Context, s *experiments.Setup) (*Topology, error) {
	t := &Topology{lab: s.Lab, options: s.Options}
	t.link = s.Lab.Link(lab.End{Host: s.Lab.Host("client"), Addrs: []string{"10.0.0.1/16"}},
		lab.End{Host: s.Lab.Host("server"), Addrs: []string{"10.0.0.2/16"}}, lab.LinkOptions{Emulated: true})
	nginx := peers.Nginx(t.link.B.Host, peers.NginxOptions{NoAccessLog: true, Connections: 4096})
	s.Serves(nginx.Process, nginx.Version)
	return t, nil
}

// enter has the case's downloads made, and judged by all.
func enter(ctx context.Context, t *Topology, c experiments.Case) error {
	shape := path(c)
	t.link.Set(shape, shape)
	b := batchOf(c)
	if t.options.Quick {
		b.downloads, b.size = 40, min(b.size, 256<<10)
	}
	t.downloads = b.downloads
	return t.try(ctx, b)
}

// share is the share of downloads that a judge has something to say of, in percent.
func share(of func(verdict) int) func(context.Context, *turn) (experiments.Sample, error) {
	return func(_ context.Context, t *turn) (experiments.Sample, error) {
		n := of(t.Topology.verdicts[t.Topology.judge])
		all := float64(t.Topology.downloads)
		return experiments.Sample{
			Value: float64(n) / all * 100, Work: all, Also: map[string]float64{"count": float64(n), "downloads": all},
		}, nil
	}
}
