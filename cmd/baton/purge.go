package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/purge"
	"baton/purge/config"
)

func purgePart() *part.Part {
	return &part.Part{
		Name: "purge", Noun: "purge", Short: "The purge: reaps dormant connections, and sends their clients a reset",
		Long: `The purge ends the connections of this host's servers whose client has moved away or vanished, and sends the client a reset. The servers are
not modified. It ends connections that retransmit and get no answer; it leaves idle ones, and clients that do not read, alone.`,
		Runs:     "SIGHUP reads the configuration again. When the purge ends, connections behave as without it.",
		Reloads:  "Marked connections keep the policy that marked them.",
		Cleans:   "The purge leaves nothing in the kernel, however it ends.",
		Shows:    "a running purge: its policies and the outcomes of unresponsive connections",
		Examples: "\n  baton purge status -o json | jq '.policies[] | {name, ended}'",
		Sockets:  []string{"/run/baton/purge.sock", "/run/baton-purge/purge.sock"},
		Control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Control, nil
		},
		Schema: config.Schema,
		Check:  checkPurge, Run: runPurge, Status: purgeStatus,
		Cleanup: func(string) ([]string, error) { return nil, nil }, // nothing is pinned
	}
}

func checkPurge(file string) (part.Checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return part.Checked{}, err
	}
	have := part.Checked{Has: cli.Count(len(cfg.Policies), "policy")}
	for _, p := range cfg.Policies {
		have.Notes = append(have.Notes, fmt.Sprintf("%s: with a retransmission timeout of 200ms gone after %v, of 1s after %v", p.Name,
			p.Lifetime(200*time.Millisecond), p.Lifetime(time.Second)))
	}
	return have, nil
}

func runPurge(ctx context.Context, d part.Daemon) error {
	cfg, err := config.Load(d.File)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	p, err := purge.New(purge.Options{
		Config: cfg, Version: version, Log: d.Log,
		Load: func() (*config.Config, error) { return config.Load(d.File) },
	})
	if err != nil {
		return err
	}
	defer part.OnHangup(func() { _, _ = p.Reload() })()
	return errors.Join(p.Run(ctx), p.Close())
}

func purgeStatus(ctx context.Context, client *api.Client) (part.Status, error) {
	s, err := client.Purge(ctx)
	return part.Status{
		Data: s, Table: func(out io.Writer, wide bool) error { return printPurge(out, &s, wide, time.Now()) },
		Brief: part.Brief{
			PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config,
			State: fmt.Sprintf("%s, %s marked", cli.Count(len(s.Policies), "policy"), cli.Count(s.Waiting.Used, "connection")),
		},
	}, err
}
