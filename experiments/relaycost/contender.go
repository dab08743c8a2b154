package relaycost

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"runtime"
	"strings"

	"baton/experiments"
	"baton/experiments/relay"
	"baton/lab"
	"baton/lab/peers"
)

// Turn is a contender's turn in the topology.
type Turn = experiments.Turn[*Topology]

// Contender is one way for a client to reach the server. Its Start sets the topology's Front.
type Contender = experiments.Contender[*Topology]

// Measure is what is asked of every contender.
type Measure = experiments.Measure[*Topology]

// direct is no relay: the kernel of the host between routes.
func direct() Contender {
	return Contender{Name: "direct", Is: "no relay: the kernel routes", Start: func(_ context.Context, t *Turn) error {
		t.Topology.Front = netip.MustParseAddr(serverAddress)
		return nil
	}}
}

// baton is Baton's relay, which knows the way from the start: an entry for each port, no other relay.
func baton(workers int) Contender {
	is := fmt.Sprintf("`baton relay`, plain entries, %d %s", workers, plural(workers, "worker", "workers"))
	return Contender{Name: "baton", Is: is, Start: func(_ context.Context, t *Turn) error {
		p, err := relay.Start(t, t.Topology.Relay, batonConfig(filepath.Join(t.Lab.Dir(), "relay.sock"), workers))
		if err != nil {
			return err
		}
		return t.Topology.ready(p)
	}}
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func batonConfig(control string, workers int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "name: relay\nworkers: %d\ncontrol: %q\nentries:\n", workers, control)
	for _, f := range forwards() {
		fmt.Fprintf(&b, "  - {listen: \"%s:%d\", destination: %q}\n", relayAddress, f.Port, f.To)
	}
	return b.String()
}

// ready makes the relay's address the front, and returns when the server answers behind it.
func (t *Topology) ready(p *lab.Process) error {
	t.Front = netip.MustParseAddr(relayAddress)
	return relay.Await(t.Client, t.target(), p)
}

// peer is a contender that is a program of others.
func peer(name, is string, start func(h *lab.Host) []*peers.Server) Contender {
	return Contender{Name: name, Is: is, Start: func(_ context.Context, t *Turn) error {
		for _, s := range start(t.Topology.Relay) {
			t.Runs(s.Process, s.Version)
			t.OnEnd(s.Kill)
		}
		t.Topology.Front = netip.MustParseAddr(relayAddress)
		return nil
	}}
}

func haproxy(o peers.ForwardOptions) Contender {
	o.Forwards = forwards()
	return peer("haproxy", "TCP mode, `option splice-request`, `option splice-response`, pipes of 1 MiB, one thread",
		func(h *lab.Host) []*peers.Server { return []*peers.Server{peers.HAProxyForward(h, o)} })
}

func nginx(o peers.ForwardOptions) Contender {
	o.Forwards = forwards()
	workers := max(o.Workers, 1)
	return peer("nginx", fmt.Sprintf("its stream module, %d %s", workers, plural(workers, "worker", "workers")),
		func(h *lab.Host) []*peers.Server { return []*peers.Server{peers.NginxForward(h, o)} })
}

// socat has no workers, but a process for each connection.
func socat() Contender {
	return peer("socat", "`fork`: a process for each flow", func(h *lab.Host) (list []*peers.Server) {
		for _, f := range forwards() {
			list = append(list, peers.SocatForward(h, f.Port, f.To))
		}
		return list
	})
}

// plainly is a copy in Go, by one of the names that this program has for it.
func plainly(name, is string) Contender {
	return Contender{Name: name, Is: is, Start: func(_ context.Context, t *Turn) error {
		p, err := startCopy(t.Topology.Relay, name)
		if err != nil {
			return err
		}
		t.Runs(p, "go/"+strings.TrimPrefix(runtime.Version(), "go"))
		t.OnEnd(p.Kill)
		return t.Topology.ready(p)
	}}
}

func copies() []Contender {
	return []Contender{
		plainly(spliceName, "goroutines and `io.Copy` of `*net.TCPConn`, which splices; `GOMAXPROCS=1`"),
		plainly(copyName, "the same with connections that are wrapped, so that `io.Copy` copies; `GOMAXPROCS=1`"),
	}
}
