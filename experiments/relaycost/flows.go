package relaycost

import (
	"context"
	"fmt"
	"time"

	"baton/experiments"
	"baton/lab/peers"
)

const (
	heldName    = "held"
	memoryOne   = "memory"
	privateName = "private memory"
	kernelName  = "kernel memory"
	restName    = "at rest"
)

// Flows is the question of memory, and of how many flows there can be.
func Flows() experiments.Experiment[*Topology] {
	return experiments.Experiment[*Topology]{
		Name:     "relay-flows",
		Question: "What does a flow cost that does nothing, and how many can there be?",
		Method: "The topology of `relay-cost`. Clients open flows one after the other, ask on each for 128 bytes, and are then idle; `held` is how many " +
			"of them are answered a second time after that. A process may have 20,000 open files here. Contenders have as many workers as they can " +
			"use for more than that, where they have workers.",
		Parameters: []experiments.Parameter{{Name: "flows", Title: "idle flows", Values: []float64{5000, 24000}}},
		Contenders: []Contender{
			idle(direct()), idle(baton(4)), idle(haproxy(peers.ForwardOptions{Flows: 9600})),
			idle(nginx(peers.ForwardOptions{Flows: 8000, Workers: 4})), idle(copies()[0]),
		},
		Measures: []Measure{
			{Name: heldName, Title: "Idle flows that are answered again", Unit: "flows", Take: again},
			{Name: memoryOne, Title: "Growth of the relay's resident memory for an idle flow", Unit: "KiB", Less: true,
				Take: growth(func(m memory) int64 { return m.resident })},
			{Name: privateName, Title: "Growth of the relay's own memory (anonymous pages) for an idle flow", Unit: "KiB", Less: true,
				Take: growth(func(m memory) int64 { return m.private })},
			{Name: kernelName, Title: "Growth of the kernel's memory for an idle flow, those of client and server included", Unit: "KiB", Less: true,
				Take: growth(func(m memory) int64 { return m.kernel })},
			{Name: restName, Title: "Processor time of the relay while all flows are idle", Unit: "ms/s", Less: true, Take: atRest},
		},
		Rounds: 3,
		Build: func(_ context.Context, s *experiments.Setup) (*Topology, error) {
			return build(s, peers.NginxOptions{NoAccessLog: true, Workers: 4, Connections: 15000, Keepalive: "3600"}), nil
		},
		Claims: []experiments.Claim{
			{What: "flows that one relay holds", Unit: "flows", Ours: experiments.ValueOf("flows 24000", heldName, "baton"), AtLeast: 20_000},
			{What: "the relay's own memory for an idle flow", Unit: "KiB", Ours: experiments.ValueOf("flows 5000", privateName, "baton"), AtMost: 4},
		},
		Caveats: []string{
			"A contender that has had flows keeps memory for the next ones, so that what a flow costs depends on how many there were at once.",
			"A flow that cannot be had ends the attempt for its process of clients; the words of the first are in the table.",
		},
	}
}

// idleFlows are those of a turn.
type idleFlows struct {
	clients *idleClients
	held    int
	why     string // there are not more
	grown   memory
}

// idle has clients open their flows once a contender is there.
func idle(c Contender) Contender {
	start := c.Start
	c.Start = func(ctx context.Context, t *Turn) error {
		if err := start(ctx, t); err != nil {
			return err
		}
		n := int(t.Case.At["flows"])
		if t.Options.Quick {
			n /= 10
		}
		before, err := memoryOf(t.Processes())
		if err != nil {
			return err
		}
		f := &t.Topology.idle
		*f = idleFlows{}
		f.clients, f.held, f.why, err = startIdle(t.Topology.Client, t.Topology.target(), n)
		if f.clients != nil {
			t.OnEnd(f.clients.stop)
		}
		if err != nil {
			return err
		}
		if f.held == 0 {
			return fmt.Errorf("no flow at all: %s", f.why)
		}
		after, err := memoryOf(t.Processes())
		f.grown = after.since(before)
		return err
	}
	return c
}

func again(_ context.Context, t *Turn) (experiments.Sample, error) {
	f := &t.Topology.idle
	held, why, err := f.clients.again()
	if why == "" {
		why = f.why
	}
	s := experiments.Sample{Value: float64(held), First: why, Errors: int64(f.held - held)}
	if f.why != "" {
		s.Errors++
	}
	return s, err
}

func growth(of func(memory) int64) func(context.Context, *Turn) (experiments.Sample, error) {
	return func(_ context.Context, t *Turn) (experiments.Sample, error) {
		f := t.Topology.idle
		return experiments.Sample{Value: float64(of(f.grown)) / float64(f.held) / (1 << 10)}, nil
	}
}

// atRest leaves the relay alone for a while.
func atRest(ctx context.Context, t *Turn) (experiments.Sample, error) {
	spent := func() (sum time.Duration, err error) {
		for _, p := range t.Processes() {
			d, err := p.CPU()
			if err != nil {
				return 0, err
			}
			sum += d
		}
		return sum, nil
	}
	before, err := spent()
	if err != nil {
		return experiments.Sample{}, err
	}
	began := time.Now()
	select {
	case <-ctx.Done():
		return experiments.Sample{}, ctx.Err()
	case <-time.After(t.Options.Duration):
	}
	after, err := spent()
	return experiments.Sample{Value: float64((after - before).Milliseconds()) / time.Since(began).Seconds()}, err
}
