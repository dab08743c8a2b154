package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"baton/balance"
	"baton/balance/config"
	"baton/balance/links"
	"baton/forwarder"
	switchconfig "baton/forwarder/config"
)

func balanceCommand(e env) *cobra.Command {
	var o struct {
		config, log string
		check, json bool
	}
	c := &cobra.Command{
		Use:   "balance --config FILE",
		Short: "Use all links of this host at once",
		Long: `Spread the flows of this host's applications over all of its links: each new flow has the link that suits it best, and stays there.
Applications, routers and servers need know nothing of it.

SIGHUP reads the configuration again. When the command ends, addresses, routes and rules are as they were before it. After a kill -9 flows
go on, and the next start takes them over; ` + "`baton balance restore`" + ` takes away what is left instead.`,
		Example: `  baton balance --config balance.yaml --check   # what would be done, and what is wrong
  baton balance --config balance.yaml
  baton balance status   # and reload, of the one that runs
  baton balance restore --config balance.yaml   # of one that was killed`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			for _, w := range cfg.Warnings {
				fmt.Fprintln(e.err, "warning:", w)
			}
			if o.check {
				return checkBalance(e, cfg)
			}
			level := new(slog.LevelVar)
			if err := level.UnmarshalText([]byte(o.log)); err != nil {
				return usageError{fmt.Errorf("--log: %w", err)}
			}
			return runBalance(cmd.Context(), cfg, o.config, newLog(e, level, o.json))
		},
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "the configuration `file` (required)")
	f.BoolVar(&o.check, "check", false, "tell what would be done and what is wrong, and exit")
	f.StringVar(&o.log, "log", "info", "least `level` of messages: debug, info, warn or error")
	f.BoolVar(&o.json, "json", false, "log in JSON")
	_ = c.MarkFlagRequired("config")
	c.AddCommand(balanceStatusCommand(e), balanceReloadCommand(e), balanceRestoreCommand(e))
	return c
}

// checkBalance tells how a configuration fits this host, and what would be done. What cannot work is an error.
func checkBalance(e env, cfg *config.Config) error {
	r, err := balance.Check(cfg)
	if err != nil {
		return err
	}
	wrong := 0
	for _, f := range r.Findings {
		level := "info"
		switch f.Level {
		case links.Warning:
			level = "warning"
		case links.Wrong:
			level = "wrong"
			wrong++
		}
		fmt.Fprintf(e.out, "%s: %s: %s\n", cfg.File, level, f)
	}
	if wrong > 0 {
		return usageError{fmt.Errorf("%s: does not fit this host", cfg.File)}
	}
	for _, what := range r.Changes {
		fmt.Fprintln(e.out, "would make", what)
	}
	fmt.Fprintf(e.out, "%s: %d links, %s by %s: right\n", cfg.File, len(cfg.Links), cfg.Method, cfg.Datapath)
	return nil
}

func runBalance(ctx context.Context, cfg *config.Config, file string, log *slog.Logger) error {
	b, err := balance.New(balance.Options{
		Config: cfg, Version: version, Log: log,
		Load:   func() (*config.Config, error) { return config.Load(file) },
		Switch: func(ctx context.Context, s balance.Switch) error { return runSwitch(ctx, s, log) },
		Unload: unloadSwitch, Pins: forwarder.StatePath,
	})
	if err != nil {
		return err
	}
	defer onHangup(func() { _, _ = b.Reload() })()
	return errors.Join(b.Run(ctx), b.Close())
}

// runSwitch is Baton's forwarder between the inside and the links. What it has in the kernel goes on when it ends.
func runSwitch(ctx context.Context, s balance.Switch, log *slog.Logger) error {
	cfg, err := switchOf(s)
	if err != nil {
		return err
	}
	return forwarder.Run(ctx, forwarder.Options{Config: cfg, Version: version, Log: log.With("part", "forwarder")})
}

func unloadSwitch(name string) error {
	return forwarder.Remove(&switchconfig.Config{Name: name, NormalStack: true})
}

// switchOf is the configuration of a forwarder that nobody but the balance has a channel to, with the defaults of what a balance does not care
// about.
func switchOf(s balance.Switch) (*switchconfig.Config, error) {
	text := fmt.Sprintf("name: %q\nnormal: stack\nfail_mode: secure\ncontrollers: [{connect: %q}]\ncontrol: %q\nlimits: {picks: %d}\nports:\n",
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

func balanceRestoreCommand(e env) *cobra.Command {
	var o struct{ config, name string }
	c := &cobra.Command{
		Use:   "restore (--config FILE | --name NAME)",
		Short: "Take away what a balance that was killed has left",
		Long: `Take away what a balance that was killed has left: addresses, routes, rules and interfaces are then as they were before it. Where there is
nothing to take away, nothing is done. It is refused while the balance runs.`,
		Example: "  baton balance restore --config balance.yaml\n  baton balance restore --name home",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			name := o.name
			if o.config != "" {
				cfg, err := config.Load(o.config)
				if err != nil {
					return usageError{err}
				}
				name = cfg.Name
			}
			undone, err := balance.Restore(name, unloadSwitch)
			for _, what := range undone {
				fmt.Fprintln(e.out, "removed", what)
			}
			return err
		},
	}
	c.Flags().StringVar(&o.config, "config", "", "the balance's configuration `file`, which tells its name")
	c.Flags().StringVar(&o.name, "name", "", "the balance's `name`")
	c.MarkFlagsMutuallyExclusive("config", "name")
	c.MarkFlagsOneRequired("config", "name")
	return c
}
