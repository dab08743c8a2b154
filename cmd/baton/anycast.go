package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"baton/anycast"
	"baton/anycast/config"
	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
)

func anycastPart() *part.Part {
	return &part.Part{
		Name: "anycast", Noun: "site or planner", Short: "Anycast: announces a service from several sites, by health and load",
		Long: `A site announces a service's prefixes to its routers by BGP, according to its health and load. An overloaded site becomes less attractive
step by step, and a dead one withdraws its routes, unless it is the last one known to be up. A planner collects the reports of all sites, and
proposes levels to them or programs a static map into OpenFlow forwarders.`,
		Runs: `SIGHUP reloads the configuration; sessions and the level stay. On SIGTERM a site drains for site.stop, withdraws its routes, and closes
the sessions; a planner changes nothing.`,
		Reloads:  "Unchanged BGP sessions and the level stay.",
		Cleans:   "This state is the service's addresses that it has added to an interface.",
		Shows:    "a running site or planner: level and its reason, health, load, sessions, other sites",
		Examples: "\n  baton anycast status -o json | jq .site.level",
		Sockets:  []string{"/run/baton/anycast.sock", "/run/baton-anycast/anycast.sock"},
		Control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Listen.Control, nil
		},
		Schema: config.Schema,
		Check:  checkAnycast, Run: runAnycast, Status: anycastStatus, Cleanup: cleanAnycast,
		More: []func(*part.Part, cli.Env) *cobra.Command{anycastDrainCommand, anycastUndrainCommand, anycastLevelCommand, anycastPlanCommand},
	}
}

func checkAnycast(file string) (part.Checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return part.Checked{}, err
	}
	return part.Checked{Has: anycastSummary(cfg), Warnings: cfg.Warnings}, nil
}

// anycastSummary describes a configuration in a line.
func anycastSummary(cfg *config.Config) string {
	out := ""
	if s := cfg.Site; s != nil {
		out = fmt.Sprintf("site %s, %s, %s", cfg.Name, cli.Count(len(s.Prefixes), "prefix"), cli.Count(len(s.BGP.Peers), "router"))
	}
	if p := cfg.Planner; p != nil {
		if out != "" {
			out += "; "
		}
		out += "planner of " + cli.Count(len(p.Sites), "site")
	}
	return out
}

func runAnycast(ctx context.Context, d part.Daemon) error {
	cfg, err := config.Load(d.File)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	a, err := anycast.New(anycast.Options{
		Config: cfg, Version: version, Log: d.Log,
		Load: func() (*config.Config, error) { return config.Load(d.File) },
	})
	if err != nil {
		return err
	}
	defer part.OnHangup(func() { _, _ = a.Reload() })()
	return a.Run(ctx)
}

func cleanAnycast(file string) ([]string, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	return anycast.Cleanup(cfg)
}

func anycastStatus(ctx context.Context, client *api.Client) (part.Status, error) {
	s, err := client.Anycast(ctx)
	state := ""
	if s.Site != nil {
		state = "level " + s.Site.Level + ", health " + s.Site.Health
	}
	if s.Planner != nil {
		if state != "" {
			state += "; "
		}
		state += "planner of " + cli.Count(len(s.Planner.Sites), "site")
	}
	return part.Status{
		Data: s, Table: func(out io.Writer, wide bool) error { return printAnycast(out, &s, wide, time.Now()) },
		Brief: part.Brief{Name: s.Name, PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config, State: state},
	}, err
}
