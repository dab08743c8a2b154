// Package relaycost asks what a relay costs where there is no distance to be won: bytes, flows, waiting and processor time beside other
// proxies of TCP (relay-cost), and memory (relay-flows).
package relaycost

import (
	"context"

	"baton/experiments"
	"baton/lab/peers"
)

// Experiment is the question of throughput and processor time.
func Experiment() experiments.Experiment[*Topology] {
	return experiments.Experiment[*Topology]{
		Name:     "relay-cost",
		Question: "What does a byte cost that passes a relay, and what does a flow?",
		Method: "A client, a relay and a server, each a network namespace, joined by veth links without delay, with CUBIC. Every contender has one thread or worker. " +
			"Downloads are from nginx, which sends files by sendfile from the page cache, so that a segment is made of pages of 4 KiB; streams are " +
			"from iperf3, which writes from memory, so that it is made of larger buffers. A new flow is a connection of its own with a request of 100 " +
			"bytes and an answer of 1 KiB, 64 at a time, or one at a time for the first byte. Every answer is checked: its length, and of small ones each byte.",
		Contenders: Contenders(),
		Measures:   measures(),
		Build: func(_ context.Context, s *experiments.Setup) (*Topology, error) {
			return build(s, peers.NginxOptions{NoAccessLog: true, Connections: 4096}), nil
		},
		Claims:  claims(),
		Caveats: caveats,
	}
}

// Contenders are all of them, the baseline first.
func Contenders() []Contender {
	return append([]Contender{direct(), baton(1), haproxy(peers.ForwardOptions{}), nginx(peers.ForwardOptions{}), socat(), sockmap()}, copies()...)
}

var caveats = []string{
	"The client, the relay and the server share the processors: what one of them spends is missing to the others, so that the rates are " +
		"those of the whole machine. Processor time for a unit of work is the steadier figure.",
	"The kernel books the softirq work of a packet on whichever process was running, mostly the one that sent it: that of the client's side is " +
		"in \"own\" of a relay, that of the relay's own receiving side is in the server's. \"Added\" has all that a relay adds, wherever it is booked.",
	"`direct` is one connection, a relay makes two of it. Its segments are not touched by the host between, so that nothing that ends " +
		"connections can come near it.",
	"`sockmap` is no relay that strangers could be let use: what a peer does not take is held without a bound (see `datapath/sockmap`). Most of its " +
		"work is booked on the kernel's own threads, so that \"own\" says little.",
}

func claims() []experiments.Claim {
	ratio := func(measure string) experiments.Figure { return experiments.RatioOf("", measure, "baton", "haproxy") }
	list := []experiments.Claim{}
	for _, m := range []string{oneName, manyName, memoryName, manyMemoryName} {
		list = append(list,
			experiments.Claim{What: m + ": bytes a second, beside HAProxy", Unit: "×", Ours: ratio(m), AtLeast: 1},
			experiments.Claim{What: m + ": processor time that a byte adds, beside HAProxy", Unit: "×", Ours: added(m, "baton", "haproxy"), AtMost: 0.7},
			experiments.Claim{What: m + ": the relay's own processor time for a byte, beside HAProxy", Unit: "×", Ours: own(m, "baton", "haproxy"), AtMost: 0.7})
	}
	return append(list,
		experiments.Claim{What: "new flows for each second of a processor that they add", Unit: "flows", Ours: flowsOfAProcessor, AtLeast: 30_000},
		experiments.Claim{What: "new flows for each second of the relay's own processor time", Unit: "flows", Ours: flowsOfOwn, AtLeast: 30_000},
		experiments.Claim{What: "processor time that a new flow adds, beside HAProxy", Unit: "×", Ours: added(newName, "baton", "haproxy")},
		experiments.Claim{What: "the relay's own processor time for a new flow, beside HAProxy", Unit: "×", Ours: own(newName, "baton", "haproxy")},
		experiments.Claim{What: "added to the first byte, median", Unit: "µs", Ours: later(firstName)},
		experiments.Claim{What: "added to the first byte, 99th percentile", Unit: "µs", Ours: later(slowName)},
	)
}
