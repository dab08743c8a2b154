// Package seqack asks what it costs to shift the numbers of TCP in the packets that pass the forwarder: figure 7 of the paper, with
// the rest of Baton's actions beside the paper's two.
package seqack

import (
	"context"
	"fmt"

	"baton/experiments"
	"baton/experiments/forwarder"
	"baton/lab/peers"
)

// Experiment is the question.
func Experiment() experiments.Experiment[*forwarder.Topology] {
	e := experiments.Experiment[*forwarder.Topology]{
		Name:     "forwarder-seqack",
		Question: "What does it cost to shift a session's numbers on its way?",
		Method: "The topology of `forwarder`. A client sends by TCP (iperf3, one flow) through the forwarder. Each packet on the way there meets an " +
			"entry whose actions change it, each on the way back one whose actions undo that, so that both ends see a session that is right. " +
			"At 65,535 bytes the links have the offloads of any veth: a frame holds up to 45 segments of 1,448 bytes. At the other sizes they " +
			"have none, and the size is the MTU. All contenders match on port, protocol and both addresses: they differ in their actions alone.",
		Parameters: []experiments.Parameter{{Name: sizeName, Title: "largest packet", Unit: "bytes", Values: []float64{576, 1500, 9000, many},
			Quick: []float64{1500, many}}},
		Measures: []forwarder.Measure{
			{Name: transferName, Title: "Bits a second of one TCP flow", Unit: "Gbit/s", Per: "GiB", Take: transfer},
			{Name: programName, Title: "Time in BPF programs for a frame of the transfer", Unit: "ns", Less: true, Take: program},
		},
		Rounds: 9,
		Build:  forwarder.Build,
		Enter:  enter,
		Plots: []experiments.Plot{
			{Measure: transferName},
			{Measure: transferName, Of: experiments.OfRatio},
			{Measure: transferName, Of: experiments.OfProcessor},
			{Measure: programName},
		},
		Claims: claims(),
		Caveats: []string{
			"The hosts and the forwarder share two processors. How much throughput a session loses depends on which end is the slower one; " +
				"processor time for a GiB is the steadier figure.",
			"The time in BPF programs is the mean over frames in both directions, acknowledgements among them. Counting it costs time, so that it " +
				"has a transfer of its own.",
			"The paper's goodput is that of a modified Open vSwitch in Mininet, on one processor of 2.7 GHz. It has no figure without the actions.",
		},
	}
	for _, k := range kinds {
		e.Contenders = append(e.Contenders, k.contender())
	}
	return e
}

const (
	sizeName     = "packet"
	transferName = "transfer"
	programName  = "program"

	many = 65535 // bytes: frames of many segments
)

// enter sets the largest packet.
func enter(_ context.Context, t *forwarder.Topology, c experiments.Case) error {
	if mtu := int(c.At[sizeName]); mtu < many {
		w := t.Frames
		for _, n := range []interface{ SetMTU(int) }{w.Near, w.In, w.Out, w.Far} {
			n.SetMTU(mtu)
		}
	}
	return nil
}

// way is the one that a case takes.
func way(t *forwarder.Turn) *forwarder.Way {
	if t.Case.At[sizeName] < many {
		return t.Topology.Frames
	}
	return t.Topology.Large
}

func transfer(ctx context.Context, t *forwarder.Turn) (experiments.Sample, error) {
	to, o := way(t).Target, peers.Iperf3Options{}
	if aliased(t) {
		to, o.Args = way(t).FarAlias, []string{"-p", fmt.Sprint(aliasPort)}
	}
	if t.Case.At[sizeName] < many {
		o.Args = append(o.Args, "-w", window)
	}
	return forwarder.Transfer(ctx, t, to, o)
}

// window bounds what is under way, to fewer frames than the kernel lets wait for a processor (netdev_max_backlog, 1000): a frame that
// is lost costs contenders that do not translate SACK more than others.
const window = "200K"

func program(ctx context.Context, t *forwarder.Turn) (experiments.Sample, error) {
	return forwarder.Program(t, func() error {
		_, err := transfer(ctx, t)
		return err
	})
}

func claims() []experiments.Claim {
	const paper = "Boros et al. 2019, section 4.3, figure 7"
	list := []experiments.Claim{{
		What: "goodput with the numbers shifted, packets of 1,500 bytes", Paper: "about 0.6 Gbit/s", Where: paper, Unit: "Gbit/s",
		Ours: experiments.ValueOf("packet 1500 bytes", transferName, "inc_seq"),
	}}
	for _, size := range []string{"576", "1500", "9000", fmt.Sprint(many)} {
		kase := "packet " + size + " bytes"
		for _, c := range []string{"inc_seq", "inc_seq-ack"} {
			list = append(list,
				experiments.Claim{What: "bytes a second, " + c + " beside plain, " + kase, Unit: "×",
					Ours: experiments.RatioOf(kase, transferName, c, "plain"), AtLeast: 0.95},
				experiments.Claim{What: "processor time for a GiB, " + c + " beside plain, " + kase, Unit: "×",
					Ours: experiments.ProcessorOf(kase, transferName, c, "plain"), AtMost: 1.05})
		}
	}
	return list
}
