package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/controller"
	"baton/controller/config"
	"baton/dashboard"
)

func controllerPart() *part.Part {
	return &part.Part{
		Name: "controller", Noun: "controller", Short: "The SDN controller: topology, hosts and paths of OpenFlow switches",
		Long: `The controller makes one network of OpenFlow 1.3 switches: Baton's forwarders, Open vSwitch and others. It discovers the links between them,
learns the hosts, answers their ARP and neighbour discovery, and installs shortest paths, which follow the topology.`,
		Runs: `SIGHUP reads the configuration again. Flow entries stay at the switches when the controller ends: traffic continues, and the next controller
changes only what differs.`,
		Reloads:  "Switches stay connected, and flow entries as they are.",
		Cleans:   "The controller leaves nothing on its host but its store. The switches keep their flow entries.",
		Shows:    "a running controller: switches, paths and what was refused",
		Examples: "\n  baton-cdn controller status -o json | jq '.switches[] | {name, up, role, flows}'",
		Sockets:  []string{"/run/baton/controller.sock", "/run/baton-controller/controller.sock"},
		Control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Listen.Control, nil
		},
		Schema: config.Schema,
		Check:  checkController, Run: runController, Status: controllerStatus,
		Cleanup: func(string) ([]string, error) { return nil, nil }, // nothing outlives it here
		More:    controllerCommands,
	}
}

func checkController(file string) (part.Checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return part.Checked{}, err
	}
	has := cli.Count(len(cfg.Listen.OpenFlow), "listener")
	if len(cfg.Switches) > 0 {
		has += ", " + count(len(cfg.Switches), "known switch", "known switches")
	}
	if cfg.CDN != nil {
		has += ", " + cli.Count(len(cfg.CDN.Services), "service") + " with " + cli.Count(len(cfg.CDN.Surrogates), "surrogate")
	}
	return part.Checked{Has: has, Warnings: cfg.Warnings}, nil
}

func runController(ctx context.Context, d part.Daemon) error {
	cfg, err := config.Load(d.File)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	c, err := controller.New(ctx, controller.Options{
		Config: cfg, Version: version, Log: d.Log,
		Load: func() (*config.Config, error) { return config.Load(d.File) }, Page: dashboard.Handler(),
	})
	if err != nil {
		return err
	}
	defer part.OnHangup(func() { _, _ = c.Reload() })()
	return c.Run(ctx)
}

func controllerStatus(ctx context.Context, client *api.Client) (part.Status, error) {
	s, err := client.Controller(ctx)
	state := fmt.Sprintf("%s, %s, %s", count(len(s.Switches), "switch", "switches"), cli.Count(s.Links, "link"), cli.Count(s.Hosts, "host"))
	return part.Status{
		Data: s, Table: func(out io.Writer, wide bool) error { return printController(out, &s, wide, time.Now()) },
		Brief: part.Brief{Name: s.Name, PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config, State: state},
	}, err
}

// count is cli.Count of a word whose plural has an e.
func count(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, more)
}
