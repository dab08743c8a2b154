package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/forwarder"
	"baton/forwarder/config"
)

func forwarderPart() *part.Part {
	return &part.Part{
		Name: "forwarder", Noun: "forwarder", Short: "The forwarder: an OpenFlow 1.3 switch whose tables run in the kernel",
		Long: `The forwarder turns interfaces of a Linux host into the ports of an OpenFlow 1.3 switch. Controllers and ovs-ofctl fill its tables; the
kernel forwards packets by them.`,
		Runs: `The kernel keeps forwarding by the flow entries when the forwarder stops, is killed or upgraded. The next start replaces them without a gap,
and restores them if the configuration names a state folder. SIGHUP reloads the configuration.`,
		Reloads: `New controllers and listeners take effect, and datapaths are added and removed; flow entries and unchanged channels stay. All other
changes take effect only at a restart, which keeps flow entries, too.`,
		Cleans:   "This state is its programs, tables, flow entries and devices; a state folder stays.",
		Shows:    "a running forwarder: ports, channels, tables, packets by verdict",
		Examples: "\n  ovs-ofctl -O OpenFlow13 dump-flows tcp:127.0.0.1:6654   # its listener",
		Sockets:  []string{"/run/baton/forwarder-*.sock"},
		Control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Control, nil
		},
		Schema: config.Schema,
		Check:  checkForwarder, Run: runForwarder, Status: forwarderStatus, Cleanup: cleanForwarder,
		More: []func(*part.Part, cli.Env) *cobra.Command{forwarderTraceCommand},
	}
}

func checkForwarder(file string) (part.Checked, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return part.Checked{}, err
	}
	have := part.Checked{Warnings: cfg.Warnings}
	ports, controllers := 0, 0
	for _, one := range cfg.All() {
		ports, controllers = ports+len(one.Ports), max(controllers, len(one.Controllers))
	}
	have.Has = fmt.Sprintf("%s, %s", cli.Count(ports, "port"), cli.Count(controllers, "controller"))
	if cfg.Datapaths != nil {
		have.Has = cli.Count(len(cfg.Datapaths), "datapath") + ", " + have.Has
	}
	return have, nil
}

func runForwarder(ctx context.Context, d part.Daemon) error {
	cfg, err := config.Load(d.File)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	o := forwarder.Options{
		Config: cfg, Version: version, Log: d.Log,
		Load: func() (*config.Config, error) { return config.Load(d.File) },
	}
	var f interface {
		Run(ctx context.Context) error
		Reload() (api.ReloadResult, error)
	} = forwarder.New(o)
	if cfg.Datapaths != nil {
		f = forwarder.NewSeveral(o)
	}
	defer part.OnHangup(func() { _, _ = f.Reload() })() // which logs the result
	err = f.Run(ctx)
	if err == nil {
		d.Log.Info("flow entries keep working in the kernel: the next start replaces them, baton forwarder cleanup -c " + d.File + " removes them")
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

func forwarderStatus(ctx context.Context, client *api.Client) (part.Status, error) {
	s, err := client.Forwarder(ctx)
	ports := len(s.Ports)
	for i := range s.Datapaths {
		ports += len(s.Datapaths[i].Ports)
	}
	return part.Status{
		Data: s, Table: func(out io.Writer, wide bool) error { return printForwarders(out, &s, wide, time.Now()) },
		Brief: part.Brief{
			Name: s.Name, PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config,
			State: fmt.Sprintf("%s, %s", cli.Count(ports, "port"), cli.Count(s.Entries.Used, "flow entry")),
		},
	}, err
}
