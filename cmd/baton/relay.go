package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"baton/relay"
	"baton/relay/config"
)

func relayCommand(e env) *cobra.Command {
	var o struct {
		config, log string
		check, json bool
	}
	c := &cobra.Command{
		Use:   "relay --config FILE",
		Short: "Run a relay",
		Long: `Run a relay: TCP flows come in, pass other relays over connections that are ready, and go on to their servers.

SIGHUP reads the configuration again; flows go on. SIGTERM takes no new flows and waits for those that are left, as long as
timeouts.stop says. Both can be asked for by commands, too.

The exit code is 0, 1 when something went wrong, and 2 when what was typed or configured is wrong.`,
		Example: `  baton relay --config relay.yaml --check   # only look at the configuration
  baton relay --config relay.yaml
  baton relay status   # and flows, reload, drain, plan, of the one that runs`,
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
				fmt.Fprintf(e.out, "%s: %d entries, %d peers: right\n", o.config, len(cfg.Entries), len(cfg.Peers))
				return nil
			}
			level := new(slog.LevelVar)
			if err := level.UnmarshalText([]byte(o.log)); err != nil {
				return usageError{fmt.Errorf("--log: %w", err)}
			}
			return runRelay(cmd.Context(), cfg, o.config, newLog(e, level, o.json))
		},
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "the configuration `file` (required)")
	f.BoolVar(&o.check, "check", false, "check the configuration and exit")
	f.StringVar(&o.log, "log", "info", "least `level` of messages: debug, info, warn or error")
	f.BoolVar(&o.json, "json", false, "log in JSON")
	_ = c.MarkFlagRequired("config")
	c.AddCommand(relayStatusCommand(e), relayFlowsCommand(e), relayDrainCommand(e), relayReloadCommand(e),
		relayPlanCommand(e), relayDistancesCommand(e))
	return c
}

func runRelay(ctx context.Context, cfg *config.Config, file string, log *slog.Logger) error {
	r, err := relay.New(relay.Options{
		Config: cfg, Version: version, Log: log,
		Load: func() (*config.Config, error) { return config.Load(file) },
	})
	if err != nil {
		return err
	}
	defer onHangup(func() { _, _ = r.Reload() })()
	return r.Run(ctx)
}
