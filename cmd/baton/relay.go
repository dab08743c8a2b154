package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/relay"
	"baton/relay/config"
)

func relayPart() *part.Part {
	return &part.Part{
		Name: "relay", Noun: "relay", Short: "A relay: speeds up TCP over long-distance paths, in pairs",
		Long: `A relay terminates clients' TCP connections near them and forwards their bytes over pre-opened connections to another relay, which
forwards them to the servers.`,
		Runs: `SIGHUP reloads the configuration; flows continue. SIGTERM and ` + "`baton relay stop --graceful`" + ` stop accepting flows and wait up to
timeouts.stop for the remaining ones.`,
		Reloads:  "Flows continue.",
		Cleans:   "This state is the rules and routes for intercepted packets; programs and flows end with the process.",
		Shows:    "a running relay: entries, peers, trunks and counters",
		Examples: "\n  baton relay status -o json | jq '.peers[] | select(.down) | .name'",
		Sockets:  []string{"/run/baton/relay.sock", "/run/baton-relay/relay.sock"},
		Control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Control, nil
		},
		Schema: config.Schema,
		Check:  checkRelay, Run: runRelay, Status: relayStatus,
		Cleanup: func(string) ([]string, error) { return relay.Cleanup() },
		More: []func(*part.Part, cli.Env) *cobra.Command{
			relayFlowsCommand, relayRoutesCommand, relayPlanCommand, relayDistancesCommand, relayStopCommand,
		},
	}
}

func checkRelay(file string) (part.Checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return part.Checked{}, err
	}
	return part.Checked{
		Has:      fmt.Sprintf("%s, %s", cli.Count(len(cfg.Entries), "entry"), cli.Count(len(cfg.Peers), "peer")),
		Warnings: cfg.Warnings,
	}, nil
}

func runRelay(ctx context.Context, d part.Daemon) error {
	cfg, err := config.Load(d.File)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	r, err := relay.New(relay.Options{
		Config: cfg, Version: version, Log: d.Log,
		Load: func() (*config.Config, error) { return config.Load(d.File) },
	})
	if err != nil {
		return err
	}
	defer part.OnHangup(func() { _, _ = r.Reload() })()
	return r.Run(ctx)
}

func relayStatus(ctx context.Context, client *api.Client) (part.Status, error) {
	s, err := client.Relay(ctx)
	state := fmt.Sprintf("%s, %s, %s", cli.Count(len(s.Entries), "entry"), cli.Count(len(s.Peers), "peer"), cli.Count(s.Flows.Used, "flow"))
	if s.Stopping {
		state = "stopping, " + state
	}
	return part.Status{
		Data: s, Table: func(out io.Writer, wide bool) error { return printRelay(out, &s, wide, time.Now()) },
		Brief: part.Brief{Name: s.Name, PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config, State: state},
	}, err
}
