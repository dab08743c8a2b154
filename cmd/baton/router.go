package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
	"baton/router"
	"baton/router/certs"
	"baton/router/config"
)

func routerPart() *part.Part {
	return &part.Part{
		Name: "router", Noun: "router", Short: "The request router: hands clients' sessions to surrogates (backends)",
		Long: `The request router runs on a Linux host between clients and surrogates (backends). It reads each request, chooses a surrogate, and makes the
kernel splice the client's session onto a connection to it.`,
		Runs: `Spliced sessions continue in the kernel when the router stops, is killed or upgraded; the next start takes them over. If it stops
without sessions, it removes its kernel state. SIGHUP reloads the configuration, SIGUSR1 reopens the access logs.`,
		Reloads:  "Sessions continue.",
		Cleans:   "This closes the remaining sessions: both ends of each get a reset.",
		Shows:    "a running router: VIPs, pools and surrogates",
		Examples: "\n  baton router status -o json | jq '.pools[].surrogates[] | select(.up | not) | .name'",
		Sockets:  []string{"/run/baton/router.sock"},
		Control: func(file string, text []byte) (string, error) {
			cfg, err := config.Parse(file, text)
			if err != nil {
				return "", err
			}
			return cfg.Listen.Control, nil
		},
		Schema: config.Schema,
		Check:  checkRouter, Fits: fitRouter, Connects: connectRouter, Run: runRouter, Status: routerStatus, Cleanup: cleanRouter,
		More: []func(*part.Part, cli.Env) *cobra.Command{routerSessionsCommand, routerExplainCommand, routerBackendCommand, routerDecisionsCommand},
	}
}

func loadRouter(file string) (*config.Config, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, err
	}
	return cfg, router.Check(cfg)
}

func checkRouter(file string) (part.Checked, error) {
	cfg, err := loadRouter(file)
	if err != nil {
		return part.Checked{}, err
	}
	surrogates := 0
	for _, p := range cfg.Pools {
		surrogates += len(p.Surrogates)
	}
	return part.Checked{
		Has:      fmt.Sprintf("%s, %s, %s", cli.Count(len(cfg.VIPs), "VIP"), cli.Count(len(cfg.Pools), "pool"), cli.Count(surrogates, "surrogate")),
		Warnings: slices.Concat(cfg.Warnings, router.Warnings(cfg)), Notes: append(fieldNotes(cfg), discoveryNotes(cfg)...),
	}, nil
}

// fieldNotes say which fields requests get, and which requests are proxied for that.
func fieldNotes(cfg *config.Config) []string {
	var notes []string
	for i := range cfg.Pools {
		p := &cfg.Pools[i]
		if !p.HasFields() {
			continue
		}
		note, replaced := fmt.Sprintf("pool %s: requests get ", p.Name), strings.Join(p.Replaced(), ", ")
		switch {
		case p.AddressMode != config.Append:
			note += replaced
		case replaced == "":
			note += fmt.Sprintf("%s behind the client's own", p.ClientAddress)
		default:
			note += fmt.Sprintf("%s behind the client's own, and %s", p.ClientAddress, replaced)
		}
		if replaced != "" {
			note += "; those that have such a field already are proxied, and lose it"
			if p.AddressMode == config.Append {
				note = strings.Replace(note, "such a field", "one of the latter", 1)
			}
		}
		notes = append(notes, note)
	}
	return notes
}

// discoveryNotes say where pools have more surrogates from.
func discoveryNotes(cfg *config.Config) []string {
	var notes []string
	for i := range cfg.Pools {
		for j := range cfg.Pools[i].Discover {
			notes = append(notes, fmt.Sprintf("pool %s: more surrogates from %s", cfg.Pools[i].Name, &cfg.Pools[i].Discover[j]))
		}
	}
	return notes
}

func fitRouter(file string, have *part.Checked) error {
	cfg, err := config.Load(file)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	if err := router.CheckHost(cfg); err != nil {
		have.Warnings = append(have.Warnings, strings.Split(err.Error(), "\n")...)
	}
	have.Warnings = append(have.Warnings, router.WarnHost(cfg)...)
	return nil
}

// connectRouter makes TLS handshakes with the surrogates of encrypted pools.
func connectRouter(ctx context.Context, file string, have *part.Checked) error {
	cfg, err := config.Load(file)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	warnings, err := certs.Connect(ctx, cfg)
	have.Warnings = append(have.Warnings, warnings...)
	return err
}

func runRouter(ctx context.Context, d part.Daemon) error {
	cfg, err := loadRouter(d.File)
	if err != nil {
		return cli.UsageError{Err: err}
	}
	r, err := router.New(router.Options{
		Config: cfg, Version: version, Log: d.Log,
		Load: func() (*config.Config, error) { return config.Load(d.File) },
	})
	if err != nil {
		return err
	}
	defer r.Close()
	defer part.OnHangup(func() { _, _ = r.Reload() })()
	defer part.OnSignal(syscall.SIGUSR1, r.ReopenLogs)()

	failed := r.Run(ctx)
	live, err := r.Live()
	r.Close()
	if failed != nil {
		if err == nil && live == 0 {
			_ = router.Remove(cfg) // the first error matters more
		}
		return failed
	}
	if err != nil {
		return err
	}
	if live > 0 {
		d.Log.Info("spliced sessions continue: the next start adopts them, baton router cleanup -c "+d.File+" ends them", "sessions", live)
		return nil
	}
	return router.Remove(cfg)
}

func cleanRouter(file string) ([]string, error) {
	cfg, err := config.Load(file)
	if err != nil {
		return nil, cli.UsageError{Err: err}
	}
	there := part.Exists(cfg.Listen.State)
	sessions, err := router.Unload(cfg)
	if err != nil || !there {
		return nil, err
	}
	return []string{cli.Count(sessions, "session"), "programs and tables in " + cfg.Listen.State}, nil
}

func routerStatus(ctx context.Context, client *api.Client) (part.Status, error) {
	s, err := client.Router(ctx)
	return part.Status{
		Data: s, Table: func(out io.Writer, wide bool) error { return printRouter(out, &s, wide, time.Now()) },
		Brief: part.Brief{
			PID: s.PID, Started: s.Started, Version: s.Version, Config: s.Config,
			State: fmt.Sprintf("%s, %s", cli.Count(len(s.VIPs), "VIP"), cli.Count(s.Sessions, "session")),
		},
	}, err
}

func printRouter(out io.Writer, s *api.RouterStatus, wide bool, now time.Time) error {
	fmt.Fprintf(out, "baton %s, pid %d, up %s, %d of %d sessions in use\n", s.Version, s.PID, cli.Age(now, s.Started), s.Sessions, s.Limit)
	if s.Full {
		fmt.Fprintln(out, "the table of sessions is full: clients that find no idle leg are proxied; raise limits.sessions")
	}
	if wide {
		fmt.Fprintf(out, "%s, read %s ago; Linux %s\n", s.Config, cli.Age(now, s.Loaded), s.Kernel)
	}
	for _, f := range s.Features {
		if !f.Used {
			fmt.Fprintf(out, "without %s: %s\n", f.Name, f.Reason)
		}
	}
	for _, v := range s.VIPs {
		over := ""
		if v.TLS {
			over = " over TLS"
		}
		fmt.Fprintf(out, "VIP %s, %s %s%s, %s\n", v.Address, v.Mode, v.Protocol, over, cli.Count(v.Routes, "route"))
		if c := v.Controller; c != nil {
			fmt.Fprintf(out, "  %s\n", controllerText(c))
		}
		if p := v.Proxied; p != nil && (wide || p.Total() > 0) {
			fmt.Fprintf(out, "  %s\n", proxiedText(p))
			if len(p.Interfaces) > 0 {
				fmt.Fprintf(out, "  clients come in on %s, which is not in its interfaces\n", strings.Join(p.Interfaces, ", "))
			}
		}
	}
	if q := s.QUIC; q != nil {
		fmt.Fprintf(out, "QUIC: %d of %d sessions in use, %d made by hellos, %d by connection ids\n", q.Sessions, q.Limit, q.Made, q.Moved)
	}
	if err := printBackends(out, s, wide, now); err != nil {
		return err
	}
	printSources(out, s, now)
	cli.Warn(out, s.Warnings)
	return nil
}

// printBackends prints a line for each surrogate.
func printBackends(out io.Writer, s *api.RouterStatus, wide bool, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	more := ""
	if wide {
		more = "LEGS\tFOR\tWEIGHT\tPOLICY\tLAST ERROR\t"
	}
	from := wide || hasOrigins(s)
	if from {
		more += "FROM\t"
	}
	fmt.Fprintln(w, "POOL\tSURROGATE\tADDRESS\tSTATE\tSESSIONS\tIDLE LEGS\t"+more)
	for _, p := range s.Pools {
		for _, sg := range p.Surrogates {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t", p.Name, sg.Name, sg.Address, surrogateState(&sg), sg.Sessions, sg.IdleLegs)
			if wide {
				fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t", cli.Dash(sg.LegsMode), cli.Age(now, sg.Since), sg.Weight, p.Policy, cli.Dash(sg.LastError))
			}
			if from {
				fmt.Fprintf(w, "%s\t", surrogateOrigin(&sg))
			}
			fmt.Fprintln(w)
		}
	}
	return w.Flush()
}

func surrogateState(sg *api.RouterSurrogate) string {
	state := sg.Phase
	switch {
	case sg.Leaving:
		state += ", removed with its last session"
	case sg.Draining:
		state += ", draining"
	}
	if sg.Proxied != "" {
		state += ", proxied: " + sg.Proxied
	}
	if !sg.Up && sg.LastError != "" {
		state += ": " + sg.LastError
	}
	return state
}

// controllerText is what a VIP has of its controller.
func controllerText(c *api.RouterController) string {
	text := "no controller"
	if c.Connected {
		text = "controller connected"
	}
	text += fmt.Sprintf(", %s, %s handed over", cli.Count(c.IdleLegs, "idle leg"), cli.Count(int(c.HandedOver), "session"))
	for _, why := range slices.Sorted(maps.Keys(c.Proxied)) {
		text += fmt.Sprintf(", %d proxied (%s)", c.Proxied[why], why)
	}
	return text
}

// proxiedText describes the connections that a VIP's socket proxies, by reason.
func proxiedText(p *api.RouterProxied) string {
	text := fmt.Sprintf("proxied: %s (%d live), %s", cli.Count(int(p.Total()), "connection"), p.Live,
		cli.Count(int(p.Requests), "request"))
	before := "; "
	for _, why := range proxiedReasons(p) {
		text += fmt.Sprintf("%s%s: %d", before, why, p.Connections[why])
		before = ", "
	}
	return text
}

// proxiedReasons lists the reasons that have occurred, the most frequent first.
func proxiedReasons(p *api.RouterProxied) []string {
	all := slices.Sorted(maps.Keys(p.Connections))
	all = slices.DeleteFunc(all, func(why string) bool { return p.Connections[why] == 0 })
	slices.SortStableFunc(all, func(a, b string) int { return cmp.Compare(p.Connections[b], p.Connections[a]) })
	return all
}
