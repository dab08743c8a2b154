package handoff

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"baton/lab"
)

// Baton is this project's router, with a configuration of one pool.
func Baton() Contender {
	return Contender{Name: "baton", Is: "`baton router`, mode `handoff`", Start: func(_ context.Context, t *Turn) error {
		return t.Topology.StartRouter(t, t.Topology.routerConfig())
	}}
}

// StartRouter starts `baton router` on the router with a configuration, for this turn.
func (t *Topology) StartRouter(turn *Turn, config string) error {
	file := filepath.Join(t.Lab.Dir(), "router.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		return fmt.Errorf("configure the router: %w", err)
	}
	program := turn.Options.Program
	p, err := t.Router.Start(lab.Program{Path: program, Args: []string{"router", "run", "-c", file}})
	if err != nil {
		return err
	}
	turn.Runs(p, "")
	turn.OnEnd(func() error { return t.stopRouter(p, program, file) })
	t.Front = Front{Targets: []netip.AddrPort{t.VIP()}}
	return t.awaitVIP(p)
}

func (t *Topology) routerConfig() string {
	var b strings.Builder
	fmt.Fprintf(&b, "control: %q\nmetrics: %q\nstate: %q\n", filepath.Join(t.Lab.Dir(), "router.sock"), "127.0.0.1:9464",
		filepath.Join(t.Lab.BPFFS(), "router"))
	fmt.Fprintf(&b, "vips:\n  - {address: %q, mode: handoff, interfaces: [%s], routes: [{pool: all}]}\n", t.VIP(), t.ClientSide.Name)
	b.WriteString("pools:\n  all:\n    policy: round-robin\n    legs: {min: 16, max: 700}\n    surrogates:\n")
	for i, a := range t.Addresses() {
		fmt.Fprintf(&b, "      - {name: s%d, address: %q, weight: 1}\n", i+1, a)
	}
	return b.String()
}

// awaitVIP waits until a client gets a response through the VIP.
func (t *Topology) awaitVIP(p *lab.Process) error {
	client := t.Client.HTTPClient(time.Second)
	defer client.CloseIdleConnections()
	err := lab.Poll(30*time.Second, func() error {
		select {
		case <-p.Done():
			return nil
		default:
		}
		response, err := client.Get(fmt.Sprintf("http://%s%s", t.VIP(), small))
		if err != nil {
			return err
		}
		defer response.Body.Close()
		_, err = io.Copy(io.Discard, response.Body)
		if response.StatusCode != http.StatusOK {
			return errors.New(response.Status)
		}
		return err
	})
	if err != nil {
		return fmt.Errorf("router does not answer: %w\n%s", err, p.Log())
	}
	select {
	case <-p.Done():
		return fmt.Errorf("router has ended:\n%s", p.Log())
	default:
		return nil
	}
}

func (t *Topology) stopRouter(p *lab.Process, program, file string) error {
	if err := p.Stop(10 * time.Second); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := t.Router.Exec(ctx, program, "router", "cleanup", "-c", file) // clients of the load may have left sessions
	return err
}
