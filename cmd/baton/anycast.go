package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"baton/anycast"
	"baton/anycast/config"
)

func anycastCommand(e env) *cobra.Command {
	var o struct {
		config, log string
		check, json bool
	}
	c := &cobra.Command{
		Use:   "anycast --config FILE",
		Short: "Announce a service from several sites, by health and load",
		Long: `Announce a service's prefixes to the site's routers by BGP, as far as the site's health and load allow: an overloaded site becomes
less attractive step by step, a dead one withdraws, and the last one known to be up goes on announcing. With a planner in the
configuration, look at all sites, and wish levels of them or program a static map into OpenFlow forwarders.

SIGHUP reads the configuration again; sessions and the level stay. SIGTERM drains for as long as site.stop says, withdraws, and ends
the sessions; a planner leaves everything as it is.

The exit code is 0, 1 when something went wrong, and 2 when what was typed or configured is wrong.`,
		Example: `  baton anycast --config anycast.yaml --check   # only look at the configuration
  baton anycast --config anycast.yaml
  baton anycast status     # and drain, undrain, level, plan, reload, of the one that runs`,
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
				fmt.Fprintf(e.out, "%s: %s: right\n", o.config, anycastSummary(cfg))
				return nil
			}
			level := new(slog.LevelVar)
			if err := level.UnmarshalText([]byte(o.log)); err != nil {
				return usageError{fmt.Errorf("--log: %w", err)}
			}
			return runAnycast(cmd.Context(), cfg, o.config, newLog(e, level, o.json))
		},
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "the configuration `file` (required)")
	f.BoolVar(&o.check, "check", false, "check the configuration and exit")
	f.StringVar(&o.log, "log", "info", "least `level` of messages: debug, info, warn or error")
	f.BoolVar(&o.json, "json", false, "log in JSON")
	_ = c.MarkFlagRequired("config")
	c.AddCommand(anycastStatusCommand(e), anycastPlanCommand(e), anycastDrainCommand(e), anycastUndrainCommand(e), anycastLevelCommand(e),
		anycastReloadCommand(e))
	return c
}

// anycastSummary is what a configuration is for.
func anycastSummary(cfg *config.Config) string {
	out := ""
	if s := cfg.Site; s != nil {
		out = fmt.Sprintf("site %s, %d prefixes, %d routers", cfg.Name, len(s.Prefixes), len(s.BGP.Peers))
	}
	if p := cfg.Planner; p != nil {
		if out != "" {
			out += "; "
		}
		out += fmt.Sprintf("planner of %d sites", len(p.Sites))
	}
	return out
}

func runAnycast(ctx context.Context, cfg *config.Config, file string, log *slog.Logger) error {
	a, err := anycast.New(anycast.Options{
		Config: cfg, Version: version, Log: log,
		Load: func() (*config.Config, error) { return config.Load(file) },
	})
	if err != nil {
		return err
	}
	defer onHangup(func() { _, _ = a.Reload() })()
	return a.Run(ctx)
}
