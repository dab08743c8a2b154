package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"baton/purge"
	"baton/purge/config"
)

func purgeCommand(e env) *cobra.Command {
	var o struct {
		config, log string
		check, json bool
	}
	c := &cobra.Command{
		Use:   "purge --config FILE",
		Short: "End connections whose client has moved away, and tell the client",
		Long: `End the connections of this host's servers whose client has moved away, and tell the client by a reset. The servers need
know nothing of it. A connection is ended that retransmits and hears nothing; idle ones, and clients that do not read, are left alone.

SIGHUP reads the configuration again. When the command ends, connections are as if it had never been there.`,
		Example: `  baton purge --config purge.yaml --check   # only look at the configuration
  baton purge --config purge.yaml
  baton purge status   # and reload, of the one that runs`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := config.Load(o.config)
			if err != nil {
				return usageError{err}
			}
			if o.check {
				fmt.Fprintf(e.out, "%s: %d policies: right\n", o.config, len(cfg.Policies))
				for _, p := range cfg.Policies {
					fmt.Fprintf(e.out, "%s: with a retransmission timeout of 200ms gone after %v, of 1s after %v\n", p.Name,
						p.Lifetime(200*time.Millisecond), p.Lifetime(time.Second))
				}
				return nil
			}
			level := new(slog.LevelVar)
			if err := level.UnmarshalText([]byte(o.log)); err != nil {
				return usageError{fmt.Errorf("--log: %w", err)}
			}
			return runPurge(cmd.Context(), cfg, o.config, newLog(e, level, o.json))
		},
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "the configuration `file` (required)")
	f.BoolVar(&o.check, "check", false, "check the configuration and exit")
	f.StringVar(&o.log, "log", "info", "least `level` of messages: debug (each connection), info, warn or error")
	f.BoolVar(&o.json, "json", false, "log in JSON")
	_ = c.MarkFlagRequired("config")
	c.AddCommand(purgeStatusCommand(e), purgeReloadCommand(e))
	return c
}

func runPurge(ctx context.Context, cfg *config.Config, file string, log *slog.Logger) error {
	p, err := purge.New(purge.Options{
		Config: cfg, Version: version, Log: log,
		Load: func() (*config.Config, error) { return config.Load(file) },
	})
	if err != nil {
		return err
	}
	defer onHangup(func() { _, _ = p.Reload() })()
	return errors.Join(p.Run(ctx), p.Close())
}
