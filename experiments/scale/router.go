package scale

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/experiments/handoff"
	"baton/experiments/load"
	"baton/lab"
)

// parting is how long a router may take to end a million sessions at both ends.
const parting = 2 * time.Minute

// baton is the router, with a pool for the idle sessions beside that for the load.
func (g *stage) baton() handoff.Contender {
	return handoff.Contender{Name: "baton", Is: "`baton router`, mode `handoff`", Start: func(ctx context.Context, t *handoff.Turn) error {
		if err := g.begin(ctx, t, t.Topology.VIP(), func() error { return g.startRouter(t) }); err != nil {
			return err
		}
		spliced, err := Metric(t.Topology.Router, "legs", `pool="idle"`, `state="spliced"`)
		g.lost = max(g.lost, sessions(t)-int(spliced)) // proxied ones are no better
		return err
	}}
}

// startRouter returns when the router is ready.
func (g *stage) startRouter(t *handoff.Turn) error {
	file, program, host := filepath.Join(t.Lab.Dir(), "router.yaml"), t.Options.Program, t.Topology.Router
	if err := os.WriteFile(file, []byte(g.config(sessions(t))), 0o600); err != nil {
		return fmt.Errorf("configure the router: %w", err)
	}
	p, err := host.Start(lab.Program{Path: program, Args: []string{"router", "run", "-c", file}})
	if err != nil {
		return err
	}
	t.Runs(p, "")
	t.OnEnd(func() error {
		if err := p.Stop(parting); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(context.Background(), parting)
		defer cancel()
		_, err := host.Exec(ctx, program, "router", "cleanup", "-c", file)
		return err
	})
	g.process = &Process{p.Pid()}
	t.Topology.Front = handoff.Front{Targets: []netip.AddrPort{t.Topology.VIP()}}
	if err := lab.Poll(20*time.Second, func() error { return g.ready(t) }); err != nil {
		return fmt.Errorf("the router is not ready: %w\n%s", err, p.Log())
	}
	return nil
}

// ready reports what a router lacks to splice its first client: the first ones after its start are proxied.
func (g *stage) ready(t *handoff.Turn) error {
	const legs = 16 // the default of legs.min
	idle, err := Metric(t.Topology.Router, "legs", `state="idle"`, `pool="idle"`)
	if err != nil {
		return err
	}
	if idle < legs*servers {
		return fmt.Errorf("%v of %d legs are open", idle, legs*servers)
	}
	o := load.Options{Targets: t.Topology.Front.Targets, Path: "/128", Size: 128, Requests: 1, Enter: t.Topology.Client.Do}
	if r, err := load.Run(o); err != nil || r.Errors > 0 {
		return errors.Join(err, r.First)
	}
	spliced, err := Metric(t.Topology.Router, "kernel_handoffs_total")
	if err == nil && spliced == 0 {
		err = errors.New("nothing is spliced")
	}
	return err
}

// config is that of a router for n idle sessions beside the load.
func (g *stage) config(n int) string {
	t := g.network
	var b strings.Builder
	fmt.Fprintf(&b, "control: %q\nmetrics: %q\nstate: %q\n", filepath.Join(t.Lab.Dir(), "router.sock"), "127.0.0.1:9464",
		filepath.Join(t.Lab.BPFFS(), "router"))
	fmt.Fprintf(&b, "limits: {sessions: %d}\n", n+spare)
	fmt.Fprintf(&b, "vips:\n  - address: %q\n    mode: handoff\n    interfaces: [%s, %s]\n", t.VIP(), t.ClientSide.Name, g.side.Name)
	fmt.Fprintf(&b, "    routes:\n      - {match: {path_prefix: %q}, pool: idle}\n      - {pool: load}\n", pathPrefix)
	b.WriteString("pools:\n  load:\n    legs: {max: 700}\n    surrogates:\n")
	for i, a := range t.Addresses() {
		fmt.Fprintf(&b, "      - {name: s%d, address: %q}\n", i+1, a)
	}
	fmt.Fprintf(&b, "  idle:\n    legs: {max: %d}\n    surrogates:\n", legsEach(n))
	for i := range uint32(servers) {
		fmt.Fprintf(&b, "      - {name: f%d, address: %q}\n", i+1, address(firstServer+i)+":80")
	}
	return b.String()
}

// legsEach bounds the legs of a surrogate of the farm: its share of the sessions, and those that are ready.
func legsEach(n int) int { return n/servers + 64 }

// spare is the room for legs beside those of the idle sessions: ready ones of the farm and of the load.
const spare = servers*64 + 2*700 + 1000
