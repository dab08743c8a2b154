package endhost

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/peers"
)

// contenders are those of figures 6 to 9.
func contenders() []Contender {
	plainRoundRobin := balance("ovs-controller-rr", "ovs-controller, all links with the same weight: algorithm 1 as printed in the paper",
		settings{datapath: "ovs", method: "controller", alike: true})
	plainRoundRobin.Skips = func(c Case, _ string) bool { return !weighted(c) }
	return []Contender{
		oneLink(), ideal(), oracle(),
		balance("ovs-controller", "`baton balance` with Open vSwitch, a packet-in for each flow, links by weighted round-robin: the paper's controller",
			settings{datapath: "ovs", method: "controller"}),
		plainRoundRobin,
		balance("ovs-hash", "`baton balance` with Open vSwitch, a weighted select group: the paper's switch-based method", settings{datapath: "ovs", method: "hash"}),
		balance("controller", "as ovs-controller, with Baton's forwarder", settings{method: "controller"}),
		balance("hash", "as ovs-hash, with Baton's forwarder, which keeps bindings", settings{method: "hash"}),
		balance("even", "`baton balance`, weighted round-robin among links below twice their share, in the kernel", settings{method: "even"}),
		balance("round-robin", "`baton balance`, weighted round-robin, in the kernel", settings{method: "round-robin"}),
		balance("least", "`baton balance`, fewest active flows for the weight, in the kernel", settings{method: "least"}),
		balance("fastest", "`baton balance`, shortest handshakes for the number of flows, in the kernel", settings{method: "fastest"}),
		ecmp(), multipath(),
	}
}

// settings are the differences between the contenders of `baton balance`.
type settings struct {
	datapath string // "": Baton's
	method   string // "": the default
	alike    bool   // all links have the same weight
	measured bool   // weights are measured, not configured
	probe    string // "": the default
}

// balance is `baton balance` on the host, with the links of the case.
func balance(name, is string, o settings) Contender {
	return Contender{Name: name, Is: is, Start: func(ctx context.Context, t *Turn) error {
		t.Topology.front = front{}
		p, socket, err := t.Topology.startBalance(ctx, t, o)
		if err != nil {
			return err
		}
		if err := t.Topology.passes(ctx, t.Topology.used); err != nil {
			status, statusErr := statusOf(ctx, socket)
			return fmt.Errorf("balance: %w\n%v %v\n%s", err, status.Verdicts, statusErr, p.Log())
		}
		return nil
	}}
}

// startBalance starts the contender, and returns when it reports all links as used.
func (t *Topology) startBalance(ctx context.Context, turn *Turn, o settings) (p *lab.Process, socket string, err error) {
	dir := turn.Lab.Dir()
	name := fmt.Sprintf("x%d", os.Getpid()) // pins and journals are the machine's; a process number is nobody else's
	file := filepath.Join(dir, "balance.yaml")
	socket = filepath.Join(dir, "balance.sock")
	text := fmt.Sprintf("name: %s\ncontrol: %q\nstate: %q\n%s", name, socket, dir, t.config(o))
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		return nil, "", fmt.Errorf("configure the balance: %w", err)
	}
	var environment []string
	if o.datapath == "ovs" {
		s := peers.OpenVSwitch(t.Host, peers.OpenVSwitchOptions{Bridge: "other0", NoTSO: true}) // the balance makes a bridge of its own
		turn.OnEnd(func() error { return s.Stop(patience) })
		turn.Runs(s.Process, s.Version)
		environment = []string{"OVS_RUNDIR=" + s.Dir}
	}
	program := turn.Options.Program
	p, err = t.Host.Start(lab.Program{Path: program, Args: []string{"balance", "run", "-c", file}, Env: environment, Name: "balance"})
	if err != nil {
		return nil, "", err
	}
	turn.OnEnd(func() error {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		ended := p.Stop(patience)
		if err := p.Wait(ctx); err != nil {
			ended = errors.Join(ended, fmt.Errorf("the balance: %w\n%s", err, p.Log()))
		}
		return ended
	})
	turn.Runs(p, "")
	if err := used(ctx, p, socket, len(t.used)); err != nil {
		return nil, "", fmt.Errorf("balance: %w\n%s", err, p.Log())
	}
	return p, socket, nil
}

// statusOf returns a balance's status.
func statusOf(ctx context.Context, socket string) (api.BalanceStatus, error) {
	client := api.NewClient(socket)
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	return client.Balance(ctx)
}

// config is what a balance of the links of the case reads, without what names it.
func (t *Topology) config(o settings) string {
	var b strings.Builder
	w := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	if o.datapath != "" {
		w("datapath: %s", o.datapath)
	}
	if o.method != "" {
		w("method: %s", o.method)
	}
	if o.probe != "" {
		w("probe: %s", o.probe)
	}
	w("links:")
	for _, u := range t.used {
		switch {
		case o.measured:
			w("- {interface: %s}", u.name())
		case o.alike:
			w("- {interface: %s, weight: 1}", u.name())
		default:
			w("- {interface: %s, weight: %d}", u.name(), u.weight())
		}
	}
	return b.String()
}

// used waits until a balance reports this many used links.
func used(ctx context.Context, p *lab.Process, socket string, links int) error {
	var ended error
	err := lab.Poll(patience, func() error {
		select {
		case <-p.Done():
			ended = errors.New("it has ended")
			return nil
		default:
		}
		status, err := statusOf(ctx, socket)
		if err != nil {
			return err
		}
		n := 0
		for _, l := range status.Links {
			if l.State == "used" {
				n++
			}
		}
		if n < links {
			return fmt.Errorf("%d of %d links are used", n, links)
		}
		return nil
	})
	return errors.Join(err, ended)
}
