package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"time"

	"baton/api"
	"baton/balance"
	"baton/balance/config"
	"baton/balance/links"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/forwarder"
	switchconfig "baton/forwarder/config"
)

func balancePart() *part.Part {
	return &part.Part{
		Name: "balance", Noun: "balance", Short: "The balance: spreads this host's flows over all of its links",
		Long: `The balance spreads the flows of this host's applications over all of its links: each new flow gets the link that suits it best, and keeps it.
Applications, routers and servers are not modified.`,
		Runs: `SIGHUP rereads the configuration. When the balance ends, addresses, routes and rules are restored. After a kill -9 flows continue, and the
next start takes them over; ` + "`baton balance cleanup`" + ` removes everything instead.`,
		Reloads:  "Flows keep their links.",
		Cleans:   "This restores addresses, routes, rules and interfaces.",
		Shows:    "a running balance: its links and their traffic",
		Examples: "\n  baton balance status -o json | jq '.links[] | {name, state, flows}'",
		Sockets:  []string{"/run/baton/balance-*.sock", "/run/baton-balance/balance-*.sock"},
		Control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Control, nil
		},
		Schema: config.Schema,
		Check:  checkBalance, Fits: fitBalance, Run: runBalance, Status: balanceStatus, Cleanup: cleanBalance,
	}
}

func checkBalance(file string) (part.Checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return part.Checked{}, err
	}
	return part.Checked{
		Has:      fmt.Sprintf("%s, %s by %s", cli.Count(len(cfg.Links), "link"), cfg.Method, cfg.Datapath),
		Warnings: cfg.Warnings,
	}, nil
}

// fitBalance reports how a configuration fits this host, and the changes that would be made. It is an error if it cannot work.
func fitBalance(file string, have *part.Checked) error {
	cfg, err := config.Load(file)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	r, err := balance.Check(cfg)
	if err != nil {
		return err
	}
	var wrong []error
	for _, f := range r.Findings {
		text := f.In(cfg.File)
		switch f.Level {
		case links.Wrong:
			wrong = append(wrong, errors.New(text))
		case links.Warning:
			have.Warnings = append(have.Warnings, text)
		default:
			have.Notes = append(have.Notes, text)
		}
	}
	if len(wrong) > 0 {
		return cli.UsageError{Err: errors.Join(wrong...)}
	}
	for _, what := range r.Changes {
		have.Notes = append(have.Notes, "would make "+what)
	}
	return nil
}

func runBalance(ctx context.Context, d part.Daemon) error {
	cfg, err := config.Load(d.File)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	b, err := balance.New(balance.Options{
		Config: cfg, Version: version, Log: d.Log,
		Load:   func() (*config.Config, error) { return config.Load(d.File) },
		Switch: func(ctx context.Context, s balance.Switch) error { return runSwitch(ctx, s, d.Log) },
		Unload: unloadSwitch, Pins: forwarder.StatePath,
	})
	if err != nil {
		return err
	}
	defer part.OnHangup(func() { _, _ = b.Reload() })()
	return errors.Join(b.Run(ctx), b.Close())
}

func cleanBalance(file string) ([]string, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	var switched []string
	removed, err := balance.Restore(cfg.Name, func(name string) (err error) {
		switched, err = removeSwitch(name)
		return err
	})
	return append(removed, switched...), err
}

func balanceStatus(ctx context.Context, client *api.Client) (part.Status, error) {
	s, err := client.Balance(ctx)
	return part.Status{
		Data: s, Table: func(out io.Writer, wide bool) error { return printBalance(out, &s, wide, time.Now()) },
		Brief: part.Brief{
			Name: s.Name, PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config,
			State: fmt.Sprintf("%s, %s", cli.Count(len(s.Links), "link"), cli.Count(s.Flows.Used, "flow")),
		},
	}, err
}

// runSwitch runs Baton's forwarder between the internal interface and the links. Its kernel state stays when it ends.
func runSwitch(ctx context.Context, s balance.Switch, log *slog.Logger) error {
	cfg, err := switchOf(s)
	if err != nil {
		return err
	}
	return forwarder.New(forwarder.Options{
		Config: cfg, Version: version, Log: log.With("part", "forwarder"), Load: func() (*switchconfig.Config, error) { return switchOf(s) },
	}).Run(ctx)
}

func removeSwitch(name string) ([]string, error) {
	return forwarder.Remove(&switchconfig.Config{Name: name, NormalStack: true})
}

func unloadSwitch(name string) error {
	_, err := removeSwitch(name)
	return err
}

// switchOf is the configuration of a forwarder that only the balance controls, with defaults for everything that does not matter to a
// balance.
func switchOf(s balance.Switch) (*switchconfig.Config, error) {
	text := fmt.Sprintf("name: %q\nnormal: stack\nfail_mode: secure\ncontrollers: [{connect: %q}]\ncontrol: %q\nlimits: {bindings: %d}\nports:\n",
		s.Name, "unix:"+s.Channel, s.Control, s.Flows)
	for _, p := range s.Ports {
		side := "network"
		if p.Host {
			side = "host"
		}
		text += fmt.Sprintf("  %d: {interface: %q, side: %s}\n", p.Number, p.Interface, side)
	}
	cfg, err := switchconfig.Parse("the switch of balance "+s.Name, []byte(text))
	if err != nil {
		return nil, fmt.Errorf("configure the forwarder: %w", err)
	}
	return cfg, nil
}
