package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"baton/forwarder"
	"baton/forwarder/config"
)

func forwarderCommand(e env) *cobra.Command {
	var o struct {
		config, log   string
		check, unload bool
		json          bool
	}
	c := &cobra.Command{
		Use:   "forwarder --config FILE",
		Short: "Run the OpenFlow 1.3 switch",
		Long: `Make interfaces of a Linux host the ports of an OpenFlow 1.3 switch.

Flow entries go on in the kernel when the forwarder stops, is killed or upgraded; the next start takes their place without a gap, and has
them again if the configuration names a state folder.`,
		Example: `  baton forwarder --config forwarder.yaml --check   # only look at the configuration
  baton forwarder --config forwarder.yaml
  baton forwarder status
  ovs-ofctl -O OpenFlow13 dump-flows tcp:127.0.0.1:6654   # where it listens
  baton forwarder --config forwarder.yaml --unload  # take away what a stopped forwarder has left`,
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
				fmt.Fprintf(e.out, "%s: %d ports, %d controllers: right\n", o.config, len(cfg.Ports), len(cfg.Controllers))
				return nil
			}
			if o.unload {
				return forwarder.Remove(cfg)
			}
			level := new(slog.LevelVar)
			if err := level.UnmarshalText([]byte(o.log)); err != nil {
				return usageError{fmt.Errorf("--log: %w", err)}
			}
			err = forwarder.Run(cmd.Context(), forwarder.Options{Config: cfg, Version: version, Log: newLog(e, level, o.json)})
			if err == nil {
				fmt.Fprintf(e.err, "baton: flow entries go on in the kernel; `baton forwarder --config %s --unload` takes them away\n", o.config)
			}
			return err
		},
	}
	f := c.Flags()
	f.StringVar(&o.config, "config", "", "the configuration `file` (required)")
	f.BoolVar(&o.check, "check", false, "check the configuration and exit")
	f.BoolVar(&o.unload, "unload", false, "take away what a stopped forwarder has left in the kernel")
	f.StringVar(&o.log, "log", "info", "least `level` of messages: debug, info, warn or error")
	f.BoolVar(&o.json, "json", false, "log in JSON")
	_ = c.MarkFlagRequired("config")
	c.AddCommand(forwarderStatusCommand(e), forwarderTraceCommand(e))
	return c
}
