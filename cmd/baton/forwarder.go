package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/forwarder"
	"baton/forwarder/config"
)

func forwarderPart() *part {
	return &part{
		name: "forwarder", noun: "forwarder", short: "The forwarder: an OpenFlow 1.3 switch whose tables run in the kernel",
		long: `The forwarder turns interfaces of a Linux host into the ports of an OpenFlow 1.3 switch. Controllers and ovs-ofctl fill its tables; the
kernel forwards packets by them.`,
		runs: `The kernel keeps forwarding by the flow entries when the forwarder stops, is killed or upgraded. The next start replaces them without a gap,
and restores them if the configuration names a state folder. SIGHUP reloads the configuration.`,
		reloads: `New controllers and listeners take effect; flow entries and unchanged channels stay. All other changes take effect only at a restart,
which keeps flow entries, too.`,
		cleans:   "This state is its programs, tables, flow entries and devices; a state folder stays.",
		shows:    "a running forwarder: ports, channels, tables, packets by verdict",
		examples: "\n  ovs-ofctl -O OpenFlow13 dump-flows tcp:127.0.0.1:6654   # its listener",
		sockets:  []string{"/run/baton/forwarder-*.sock"},
		control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Control, nil
		},
		check: checkForwarder, run: runForwarder, status: forwarderStatus, cleanup: cleanForwarder,
		more: []func(*part, cli.Env) *cobra.Command{forwarderTraceCommand},
	}
}

func checkForwarder(file string) (checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return checked{}, err
	}
	return checked{
		Has:      fmt.Sprintf("%s, %s", count(len(cfg.Ports), "port"), count(len(cfg.Controllers), "controller")),
		Warnings: cfg.Warnings,
	}, nil
}

func runForwarder(ctx context.Context, d daemon) error {
	cfg, err := config.Load(d.file)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	f := forwarder.New(forwarder.Options{
		Config: cfg, Version: version, Log: d.log,
		Load: func() (*config.Config, error) { return config.Load(d.file) },
	})
	defer onHangup(func() { _, _ = f.Reload() })() // which logs the result
	err = f.Run(ctx)
	if err == nil {
		d.log.Info("flow entries keep working in the kernel: the next start replaces them, baton forwarder cleanup -c " + d.file + " removes them")
	}
	return err
}

func cleanForwarder(file string) ([]string, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	return forwarder.Remove(cfg)
}

func forwarderStatus(ctx context.Context, client *api.Client) (status, error) {
	s, err := client.Forwarder(ctx)
	return status{
		data: s, table: func(out io.Writer, wide bool) error { return printForwarder(out, &s, wide, time.Now()) },
		brief: brief{
			Name: s.Name, PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config,
			State: fmt.Sprintf("%s, %s", count(len(s.Ports), "port"), count(s.Entries.Used, "flow entry")),
		},
	}, err
}
