package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/relay"
	"baton/relay/config"
)

func relayPart() *part {
	return &part{
		name: "relay", noun: "relay", short: "A relay: speeds up TCP over long-distance paths, in pairs",
		long: `A relay terminates clients' TCP connections near them and forwards their bytes over pre-opened connections to another relay, which
forwards them to the servers.`,
		runs: `SIGHUP reloads the configuration; flows continue. SIGTERM and ` + "`baton relay stop --graceful`" + ` stop accepting flows and wait up to
timeouts.stop for the remaining ones.`,
		reloads:  "Flows continue.",
		cleans:   "This state is the rules and routes for intercepted packets; programs and flows end with the process.",
		shows:    "a running relay: entries, peers, trunks and counters",
		examples: "\n  baton relay status -o json | jq '.peers[] | select(.down) | .name'",
		sockets:  []string{"/run/baton/relay.sock", "/run/baton-relay/relay.sock"},
		control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Control, nil
		},
		check: checkRelay, run: runRelay, status: relayStatus,
		cleanup: func(string) ([]string, error) { return relay.Cleanup() },
		more: []func(*part, cli.Env) *cobra.Command{
			relayFlowsCommand, relayRoutesCommand, relayPlanCommand, relayDistancesCommand, relayStopCommand,
		},
	}
}

func checkRelay(file string) (checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return checked{}, err
	}
	return checked{
		Has:      fmt.Sprintf("%s, %s", count(len(cfg.Entries), "entry"), count(len(cfg.Peers), "peer")),
		Warnings: cfg.Warnings,
	}, nil
}

func runRelay(ctx context.Context, d daemon) error {
	cfg, err := config.Load(d.file)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	r, err := relay.New(relay.Options{
		Config: cfg, Version: version, Log: d.log,
		Load: func() (*config.Config, error) { return config.Load(d.file) },
	})
	if err != nil {
		return err
	}
	defer onHangup(func() { _, _ = r.Reload() })()
	return r.Run(ctx)
}

func relayStatus(ctx context.Context, client *api.Client) (status, error) {
	s, err := client.Relay(ctx)
	state := fmt.Sprintf("%s, %s, %s", count(len(s.Entries), "entry"), count(len(s.Peers), "peer"), count(s.Flows.Used, "flow"))
	if s.Stopping {
		state = "stopping, " + state
	}
	return status{
		data: s, table: func(out io.Writer, wide bool) error { return printRelay(out, &s, wide, time.Now()) },
		brief: brief{Name: s.Name, PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config, State: state},
	}, err
}
