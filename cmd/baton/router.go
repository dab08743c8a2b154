package main

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	kernel "baton/datapath/router"
	"baton/router"
	"baton/router/config"
)

func routerCommand(e env) *cobra.Command {
	var o struct {
		config, log   string
		check, unload bool
		json          bool
	}
	c := &cobra.Command{
		Use:   "router --config FILE",
		Short: "Run the request router",
		Long: `Run the request router on a Linux host between clients and surrogates.

Sessions that are spliced go on in the kernel when the router stops, is killed or upgraded; the next start takes them
over. When it stops and none is left, everything is removed. SIGHUP reads the configuration again.`,
		Example: `  baton router --config router.yaml --check   # only look at the configuration
  baton router --config router.yaml
  baton router --config router.yaml --unload  # end the sessions that a stopped router has left`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			if err := router.Check(cfg); err != nil {
				return usageError{err}
			}
			if o.check {
				if err := router.Lacks(cfg); err != nil {
					fmt.Fprintln(e.err, "warning:", err)
				}
				for _, w := range cfg.Warnings {
					fmt.Fprintln(e.err, "warning:", w)
				}
				fmt.Fprintf(e.out, "%s: %d VIPs, %d pools: right\n", o.config, len(cfg.VIPs), len(cfg.Pools))
				return nil
			}
			if o.unload {
				n, err := router.Unload(cfg)
				if n > 0 {
					fmt.Fprintf(e.out, "%d sessions ended\n", n)
				}
				return err
			}
			level := new(slog.LevelVar)
			if err := level.UnmarshalText([]byte(o.log)); err != nil {
				return usageError{fmt.Errorf("--log: %w", err)}
			}
			return runRouter(cmd.Context(), e, cfg, o.config, newLog(e, level, o.json))
		},
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "the configuration `file` (required)")
	f.BoolVar(&o.check, "check", false, "check the configuration and exit")
	f.BoolVar(&o.unload, "unload", false, "end the sessions that a stopped router has left in the kernel")
	f.StringVar(&o.log, "log", "info", "least `level` of messages: debug, info, warn or error")
	f.BoolVar(&o.json, "json", false, "log in JSON")
	_ = c.MarkFlagRequired("config")
	return c
}

func newLog(e env, level slog.Leveler, json bool) *slog.Logger {
	o := &slog.HandlerOptions{Level: level}
	if json {
		return slog.New(slog.NewJSONHandler(e.err, o))
	}
	return slog.New(slog.NewTextHandler(e.err, o))
}

func runRouter(ctx context.Context, e env, cfg *config.Config, file string, log *slog.Logger) error {
	r, err := router.New(router.Options{
		Config: cfg, Version: version, Log: log,
		Load: func() (*config.Config, error) { return config.Load(file) },
	})
	if err != nil {
		return err
	}
	defer r.Close()
	defer onHangup(func() { _, _ = r.Reload() })()

	failed := r.Run(ctx)
	live, err := r.Live()
	r.Close()
	if failed != nil {
		if err == nil && live == 0 {
			_ = kernel.Remove(cfg.Listen.State) // why the router has failed matters more
		}
		return failed
	}
	if err != nil {
		return err
	}
	if live > 0 {
		fmt.Fprintf(e.err, "baton: %d sessions go on in the kernel; a new start takes them over, `baton router --config %s --unload` ends them\n", live, file)
		return nil
	}
	return kernel.Remove(cfg.Listen.State)
}
