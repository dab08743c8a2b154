package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"baton/api"
	"baton/cmd/cli"
	"baton/purge"
	"baton/purge/config"
)

func purgePart() *part {
	return &part{
		name: "purge", noun: "purge", short: "The purge: reaps dormant connections, and sends their clients a reset",
		long: `The purge ends the connections of this host's servers whose client has moved away or vanished, and sends the client a reset. The servers are
not modified. It ends connections that retransmit and get no answer; it leaves idle ones, and clients that do not read, alone.`,
		runs:     "SIGHUP reads the configuration again. When the purge ends, connections behave as without it.",
		reloads:  "Marked connections keep the policy that marked them.",
		cleans:   "The purge leaves nothing in the kernel, however it ends.",
		shows:    "a running purge: its policies and the outcomes of unresponsive connections",
		examples: "\n  baton purge status -o json | jq '.policies[] | {name, ended}'",
		sockets:  []string{"/run/baton/purge.sock", "/run/baton-purge/purge.sock"},
		control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Control, nil
		},
		check: checkPurge, run: runPurge, status: purgeStatus,
		cleanup: func(string) ([]string, error) { return nil, nil }, // nothing is pinned
	}
}

func checkPurge(file string) (checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return checked{}, err
	}
	have := checked{Has: count(len(cfg.Policies), "policy")}
	for _, p := range cfg.Policies {
		have.Notes = append(have.Notes, fmt.Sprintf("%s: with a retransmission timeout of 200ms gone after %v, of 1s after %v", p.Name,
			p.Lifetime(200*time.Millisecond), p.Lifetime(time.Second)))
	}
	return have, nil
}

func runPurge(ctx context.Context, d daemon) error {
	cfg, err := config.Load(d.file)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	p, err := purge.New(purge.Options{
		Config: cfg, Version: version, Log: d.log,
		Load: func() (*config.Config, error) { return config.Load(d.file) },
	})
	if err != nil {
		return err
	}
	defer onHangup(func() { _, _ = p.Reload() })()
	return errors.Join(p.Run(ctx), p.Close())
}

func purgeStatus(ctx context.Context, client *api.Client) (status, error) {
	s, err := client.Purge(ctx)
	return status{
		data: s, table: func(out io.Writer, wide bool) error { return printPurge(out, &s, wide, time.Now()) },
		brief: brief{
			PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config,
			State: fmt.Sprintf("%s, %s marked", count(len(s.Policies), "policy"), count(s.Waiting.Used, "connection")),
		},
	}, err
}
