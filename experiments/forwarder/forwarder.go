// Package forwarder asks what it costs to pass a switch: bytes, packets and time of a load that matches its entries (forwarder), and how
// fast it learns, tells and forgets (forwarder-control). Beside Baton's forwarder stand the kernel's own routing and bridging and Open
// vSwitch. The topology and some of the contenders serve other experiments too.
package forwarder

import (
	"baton/experiments"
	"baton/openflow"
)

// Experiment is the question for packets.
func Experiment() experiments.Experiment[*Topology] {
	return experiments.Experiment[*Topology]{
		Name:     "forwarder",
		Question: "What does it cost to pass the forwarder?",
		Method: "A client, a switch and a server, each a network namespace, joined by two veth links on either side: one pair with the offloads " +
			"of any veth, so that a frame holds up to 64 KiB of several segments, one without, so that a frame is at most 1,500 bytes long. " +
			"TCP is iperf3's. Small packets are UDP in frames of 60 bytes (64 with the check sequence) from one packet socket, at most " +
			"256 of them under way, counted by the server's interface and dropped there; packets that do not arrive are reported as failed " +
			"requests. An echo is ICMP.",
		Contenders: []Contender{
			routing(),
			bridge(),
			Baton("baton", "`baton forwarder`, an output entry for each port", false, func(t *Turn) []openflow.Message { return t.Topology.Plain() }),
			Baton("baton-l3", "`baton forwarder` as a router: entries by address that set both link addresses and decrement the TTL", true,
				func(t *Turn) []openflow.Message { return t.Topology.Routes() }),
			Baton("baton-100k", "as `baton`, with 100,000 more entries of eight kinds of match and a higher priority", false,
				func(t *Turn) []openflow.Message {
					return append(t.Topology.Plain(), crowd(hundredThousand(t))...)
				}),
			ovs("ovs-tso", "Open vSwitch, userspace datapath, `userspace-tso-enable`, an output entry for each port", true,
				func(t *Turn) []openflow.Message { return append(t.Topology.Plain(), nobody()) }),
			ovs("ovs", "Open vSwitch, userspace datapath as it comes, an output entry for each port; as it passes whole frames alone, "+
				"it takes the links without offloads for all measures", false,
				func(t *Turn) []openflow.Message { return t.Topology.Plain() }),
		},
		Measures: measures(),
		Rounds:   7,
		Build:    Build,
		Claims:   claims(),
		Plots:    plots(),
		Caveats:  append([]string{caveatFlows}, caveats...),
	}
}

// plots are one of each measure, and the processor time of those that differ most in what they ask.
func plots() []experiments.Plot {
	var list []experiments.Plot
	for _, m := range measures() {
		list = append(list, experiments.Plot{Measure: m.Name})
		if m.Name == bulkName || m.Name == frameName || m.Name == smallName || m.Name == freshName {
			list = append(list, experiments.Plot{Measure: m.Name, Of: experiments.OfProcessor})
		}
	}
	return list
}

// hundredThousand is that many, fewer in a quick run.
func hundredThousand(t *Turn) int {
	if t.Options.Quick {
		return 2000
	}
	return 100_000
}

const caveatFlows = "The small packets' source is one thread. With all contenders in the kernel that thread does the switch's work, too, and the other " +
	"processor is idle; Open vSwitch's own thread has that one for itself."

var caveats = []string{
	"The hosts and the switch share two processors: whatever one of them spends is missing to the others. Processor time for a unit of work is " +
		"the steadier figure.",
	"The sending and the receiving of a packet are in every figure, so that ratios between switches are nearer to one than those of the switches " +
		"alone. The difference in processor time is what they differ by.",
}

func claims() []experiments.Claim {
	claim := func(what, measure, contender, base string, least float64) experiments.Claim {
		return experiments.Claim{What: what, Unit: "×", Ours: experiments.RatioOf("", measure, contender, base), AtLeast: least}
	}
	const (
		beside  = ", beside the kernel's routing"
		without = ", beside Open vSwitch without TSO"
		with    = ", beside Open vSwitch with TSO"
	)
	return []experiments.Claim{
		claim("one flow, large packets"+beside, bulkName, "baton", "routing", 0.9),
		claim("one flow, large packets, as a router"+beside, bulkName, "baton-l3", "routing", 0.9),
		claim("one flow, large packets, 100,000 entries"+beside, bulkName, "baton-100k", "routing", 0.9),
		claim("four flows, large packets"+beside, bulk4Name, "baton", "routing", 0.9),
		claim("one flow, large packets"+without, bulkName, "baton", "ovs", 10),
		claim("one flow, large packets"+with, bulkName, "baton", "ovs-tso", 1),
		claim("four flows, large packets"+with, bulk4Name, "baton", "ovs-tso", 1),
		claim("one flow, frames of 1,500 bytes"+beside, frameName, "baton", "routing", 0.9),
		claim("one flow, frames of 1,500 bytes"+without, frameName, "baton", "ovs", 0),
		claim("64-byte packets"+beside, smallName, "baton", "routing", 0.9),
		claim("64-byte packets, as a router"+beside, smallName, "baton-l3", "routing", 0.9),
		claim("64-byte packets of 10,000 flows"+beside, flowsName, "baton", "routing", 0.9),
		claim("64-byte packets of 10,000 flows, 100,000 entries"+beside, flowsName, "baton-100k", "routing", 0),
		claim("64-byte packets, each of a new flow"+beside, freshName, "baton", "routing", 0),
		claim("64-byte packets"+without, smallName, "baton", "ovs", 0),
		claim("64-byte packets, each of a new flow"+without, freshName, "baton", "ovs", 1),
	}
}
