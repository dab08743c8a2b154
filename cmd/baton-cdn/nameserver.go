package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/nameserver"
	"baton/nameserver/answer"
	"baton/nameserver/config"
	"baton/nameserver/follow"
	"baton/nameserver/route"
)

func nameserverPart() *part.Part {
	return &part.Part{
		Name: "nameserver", Noun: "name server", Short: "The authoritative name server: zones, and surrogates by the client's network",
		Long: `The name server answers for its zones, from standard zone files. Names that are routed get the addresses of surrogates that suit the client:
by its network (client subnet, else the resolver), health, weight and maintenance.`,
		Runs: `SIGHUP reads the configuration and all zones again. Queries are answered all the while; a zone whose file has mistakes keeps what it had.
Nothing outlives the process.`,
		Reloads:  "No query is lost. A zone whose file has mistakes keeps what it had, which is among the changes that are printed.",
		Cleans:   "The name server leaves nothing in the kernel, however it ends.",
		Shows:    "a running name server: zones, services, queries and answers",
		Examples: "\n  baton-cdn nameserver status -o json | jq '.zones[] | {name, serial, error}'",
		Sockets:  []string{"/run/baton/nameserver.sock", "/run/baton-nameserver/nameserver.sock"},
		Control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Control, nil
		},
		Schema: config.Schema,
		Check:  checkNameserver, Run: runNameserver, Status: nameserverStatus,
		Cleanup: func(string) ([]string, error) { return nil, nil }, // nothing outlives it
		More:    nameserverCommands,
	}
}

// checkNameserver checks the configuration and all zones.
func checkNameserver(file string) (part.Checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return part.Checked{}, err
	}
	zones, warnings, err := nameserver.Zones(cfg)
	if err == nil {
		_, err = answer.Compile(zones)
	}
	if err == nil {
		_, err = route.New(cfg, (*follow.Follower)(nil).View, slog.New(slog.DiscardHandler)) // the files of the policy
	}
	if err != nil {
		return part.Checked{}, err
	}
	records, routed := 0, 0
	for i, z := range zones {
		records += z.Data.Records
		routed += len(cfg.Zones[i].Routed)
	}
	has := fmt.Sprintf("%s, %s", cli.Count(len(zones), "zone"), cli.Count(records, "record"))
	if routed > 0 {
		has += ", " + cli.Count(routed, "routed name")
	}
	return part.Checked{Has: has, Warnings: slices.Concat(cfg.Warnings, warnings)}, nil
}

func runNameserver(ctx context.Context, d part.Daemon) error {
	cfg, err := config.Load(d.File)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	n, err := nameserver.New(ctx, nameserver.Options{
		Config: cfg, Version: version, Log: d.Log,
		Load: func() (*config.Config, error) { return config.Load(d.File) },
	})
	if err != nil {
		return err
	}
	defer part.OnHangup(func() { _, _ = n.Reload() })()
	return n.Run(ctx)
}

func nameserverStatus(ctx context.Context, client *api.Client) (part.Status, error) {
	s, err := client.Nameserver(ctx)
	state := fmt.Sprintf("%s, %s", cli.Count(len(s.Zones), "zone"), cli.Count(int(s.Queries), "query"))
	return part.Status{
		Data: s, Table: func(out io.Writer, wide bool) error { return printNameserver(out, &s, wide, time.Now()) },
		Brief: part.Brief{Name: s.Name, PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config, State: state},
	}, err
}
