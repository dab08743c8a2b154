// Package scale asks what it costs a router to hold sessions that do nothing, from a thousand to a million of them.
//
// One machine has neither the files nor the memory for two million sockets, so the idle sessions end in raw sockets: a crowd of
// clients that remembers 16 bytes of each, and a farm of servers that remembers nothing. What lies between them is real: each
// session had its handshake, its request and its answer through the contender, and is asked again at random.
package scale

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"baton/experiments"
	"baton/experiments/handoff"
)

// Experiment is the question for Baton, whose sessions are no files.
func Experiment() experiments.Experiment[*handoff.Topology] {
	g := &stage{}
	return experiments.Experiment[*handoff.Topology]{
		Name:     "handoff-scale",
		Question: "What do a thousand to a million idle sessions cost a router, and those who are served beside them?",
		Method:   method,
		Parameters: []experiments.Parameter{{Name: "sessions", Title: "idle sessions",
			Values: []float64{1e3, 1e4, 1e5, 1e6}}},
		Contenders: []handoff.Contender{g.direct(), g.baton()},
		Measures:   g.measures(),
		Build:      g.make,
		Claims:     claims(),
		Caveats: append(caveats, "HAProxy and nginx are not here, as a proxy needs two files and two sockets for what is a splice: see "+
			"`handoff-scale-proxies`."),
	}
}

// Proxies is the same question where proxies can still answer it.
func Proxies() experiments.Experiment[*handoff.Topology] {
	g := &stage{}
	return experiments.Experiment[*handoff.Topology]{
		Name:       "handoff-scale-proxies",
		Question:   "What do some thousands of idle sessions cost a router, beside what they cost a proxy?",
		Method:     method,
		Parameters: []experiments.Parameter{{Name: "sessions", Title: "idle sessions", Values: []float64{1000, 8000}}},
		Contenders: []handoff.Contender{g.direct(), g.baton(), g.haproxy(), g.nginx()},
		Measures:   g.measures(),
		Build:      g.make,
		Caveats: append(caveats, "There are no more than 8,000 sessions as a process may have 20,000 open files on the machine of these figures, "+
			"and a proxy that is asked on all of its sessions at once needs two for each. A proxy's idle sessions share a few connections to "+
			"the servers."),
	}
}

const method = "The topology of `handoff`, and beside it a host of clients and one of 128 servers. These two hosts have a raw socket each in place of " +
	"TCP, as a million sessions between sockets would be two million files. Each client makes a genuine session through the contender, with a " +
	"handshake, a request and an answer, and is then idle. While all are, the measures of `handoff` are taken with ordinary clients and nginx, on " +
	"another route of the same VIP; and idle sessions, drawn by lot, are asked again, 64 at a time (`cold session`). Every answer must name " +
	"the session that asked."

var caveats = []string{
	"`direct` has no idle sessions in the router, only packets: its rates of set-up and of cold sessions are what the two raw sockets can do.",
	"Kernel memory is the growth of Slab, VmallocUsed, Percpu, KernelStack and PageTables in /proc/meminfo since before the contender's " +
		"start; at a thousand sessions it is mostly what any router has. Map memory is the sum of `memlock` in the fdinfo of the router's maps.",
}

const (
	atOnce         = 64 // sessions that are set up, or asked, at the same time
	metricsAddress = "127.0.0.1:9464"
	metricPatience = 10 * time.Second
)

func (g *stage) make(_ context.Context, s *experiments.Setup) (*handoff.Topology, error) {
	t := handoff.Build(s, handoff.Layout{})
	return t, g.build(t)
}

// sessions is the number of a case.
func sessions(t *handoff.Turn) int { return int(t.Case.At["sessions"]) }

// begin has the crowd set up its sessions with the contender that start brings up.
func (g *stage) begin(ctx context.Context, t *handoff.Turn, server netip.AddrPort, start func() error) (err error) {
	g.gather(sessions(t), server)
	g.process, g.lost = nil, 0
	if err := g.crowd.hangUp(); err != nil { // of Baton, resets are left
		return err
	}
	if g.before, err = KernelMemory(); err != nil {
		return err
	}
	if err := start(); err != nil {
		return err
	}
	g.begun, err = g.people.connectAll(ctx, g.crowd, atOnce)
	g.lost = g.begun.counts.Ended + g.begun.counts.Silent
	return err
}

func (g *stage) direct() handoff.Contender {
	c := handoff.Direct()
	front := c.Start
	c.Start = func(ctx context.Context, t *handoff.Turn) error {
		return g.begin(ctx, t, netip.AddrPort{}, func() error { return front(ctx, t) })
	}
	return c
}

func claims() []experiments.Claim {
	// ratio is a figure with a million sessions by that with a thousand: of medians, as rounds are too far apart to be paired.
	ratio := func(measure string) experiments.Figure {
		return func(r *experiments.Results) (experiments.Estimate, error) {
			many, err := experiments.ValueOf(million, measure, "baton")(r)
			if err != nil {
				return many, err
			}
			few, err := experiments.ValueOf(thousand, measure, "baton")(r)
			if err != nil {
				return few, err
			}
			return experiments.Estimate{Median: many.Median / few.Median, Low: many.Low / few.High, High: many.High / few.Low,
				Rounds: many.Rounds}, nil
		}
	}
	claim := func(measure string, least, most float64) experiments.Claim {
		return experiments.Claim{What: measure + ", beside a million sessions by beside a thousand", Unit: "×", Ours: ratio(measure),
			AtLeast: least, AtMost: most}
	}
	return []experiments.Claim{
		{What: "kernel memory of a session, both directions", Unit: "bytes", Ours: experiments.ValueOf(million, kernelName, "baton"),
			AtMost: 512},
		{What: "of it, by the account of the router's maps", Unit: "bytes", Ours: experiments.ValueOf(million, mapName, "baton"),
			AtMost: 512},
		claim("connection per request", 0.95, 0),
		claim("keep-alive", 0.95, 0),
		claim("time to first byte", 0, 1.05),
		claim(coldName, 0, 0),
	}
}

const (
	thousand = "sessions 1000"
	million  = "sessions 1000000"
)

// String is for errors.
func (d done) String() string {
	return fmt.Sprintf("%d answered in %v, %d repeated, %d ended, %d silent, %d foreign", d.answered, d.took.Round(time.Millisecond),
		d.counts.Repeated, d.counts.Ended, d.counts.Silent, d.counts.Foreign)
}
