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

// Baton is the router of this project: the program at path, started with a configuration of one pool.
func Baton(path string) Contender {
	return Contender{Name: "baton", Start: func(t *Topology, v6 bool) (*Running, error) {
		t.Lab.T().Helper()
		file := filepath.Join(t.Lab.Dir(), "router.yaml")
		if err := os.WriteFile(file, []byte(t.routerConfig(v6)), 0o600); err != nil {
			return nil, err
		}
		p, err := t.Router.Start(lab.Program{Path: path, Args: []string{"router", "--config", file}})
		if err != nil {
			return nil, err
		}
		r := &Running{
			Targets:   []netip.AddrPort{VIP(v6)},
			Processes: []*lab.Process{p},
			Stop:      func() error { return stopRouter(t, p, path, file) },
		}
		if err := t.awaitVIP(p, v6); err != nil {
			return nil, errors.Join(err, r.Stop())
		}
		return r, nil
	}}
}

func (t *Topology) routerConfig(v6 bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "listen: {control: %q, metrics: %q, state: %q}\n", filepath.Join(t.Lab.Dir(), "router.sock"), "127.0.0.1:9464",
		filepath.Join(t.Lab.BPFFS(), "router"))
	fmt.Fprintf(&b, "vips:\n  - {address: %q, mode: handoff, interfaces: [%s], routes: [{pool: all}]}\n", VIP(v6), t.ClientSide.Name)
	b.WriteString("pools:\n  all:\n    policy: round-robin\n    legs: {min: 16, max: 700}\n    surrogates:\n")
	for i, a := range t.Addresses(v6) {
		fmt.Fprintf(&b, "      - {name: s%d, address: %q, weight: 1}\n", i+1, a)
	}
	return b.String()
}

// awaitVIP returns when a client is answered through the VIP.
func (t *Topology) awaitVIP(p *lab.Process, v6 bool) error {
	client := t.Client.HTTPClient(time.Second)
	defer client.CloseIdleConnections()
	err := lab.Poll(10*time.Second, func() error {
		select {
		case <-p.Done():
			return nil
		default:
		}
		response, err := client.Get(fmt.Sprintf("http://%s%s", VIP(v6), small))
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

func stopRouter(t *Topology, p *lab.Process, path, file string) error {
	if err := p.Stop(10 * time.Second); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := t.Router.Exec(ctx, path, "router", "--config", file, "--unload") // clients of the load may have left sessions
	return err
}
