package main

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/router"
	"baton/router/config"
	"baton/router/explain"
)

const defaultSocket = "/run/baton/router.sock"

// control are the flags of every command that asks a running router.
type control struct {
	socket string
	json   bool
}

func (o *control) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.socket, "control", defaultSocket, "the router's control `socket`")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
}

// findSocket returns the one of some sockets that somebody listens on. where names them; nobody and several begin the two errors.
func findSocket(paths []string, where, nobody, several string) (string, error) {
	live := slices.DeleteFunc(slices.Clone(paths), func(path string) bool {
		c, err := net.DialTimeout("unix", path, time.Second)
		if err == nil {
			c.Close()
		}
		return err != nil
	})
	switch len(live) {
	case 0:
		return "", fmt.Errorf("%s listens on %s: is it running? (--config or --control names another socket)", nobody, where)
	case 1:
		return live[0], nil
	}
	return "", usageError{fmt.Errorf("%d %s running: --config FILE, or --control with one of %s", len(live), several, strings.Join(live, ", "))}
}

// onHangup has a running process reload at each SIGHUP, until stop is called. What comes of it the process logs itself.
func onHangup(reload func()) (stop func()) {
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	go func() {
		for range hangup {
			reload()
		}
	}()
	return func() { signal.Stop(hangup) }
}

func printJSON(e env, v any) error {
	enc := json.NewEncoder(e.out)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}

func statusCommand(e env) *cobra.Command {
	var o control
	c := &cobra.Command{
		Use:     "status",
		Short:   "Show the router at a glance (the forwarder: baton forwarder status)",
		Example: "  baton status\n  baton status --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := api.NewClient(o.socket)
			defer client.Close()
			s, err := client.Status(cmd.Context())
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(e, s)
			}
			fmt.Fprintf(e.out, "baton %s, pid %d, up %s, %s of %d sessions in use\n",
				s.Version, s.PID, time.Since(s.Started).Round(time.Second), fmt.Sprint(s.Sessions), s.Limit)
			for _, v := range s.VIPs {
				fmt.Fprintf(e.out, "VIP %s, %s, %d routes\n", v.Address, v.Mode, v.Routes)
			}
			w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "POOL\tSURROGATE\tADDRESS\tSTATE\tSESSIONS\tIDLE LEGS\t")
			for _, p := range s.Pools {
				for _, sg := range p.Surrogates {
					state := sg.Phase
					if sg.Draining {
						state += ", draining"
					}
					if sg.Proxied != "" {
						state += ", proxied: " + sg.Proxied
					}
					if !sg.Up && sg.LastError != "" {
						state += ": " + sg.LastError
					}
					fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%d\t\n", p.Name, sg.Name, sg.Address, state, sg.Sessions, sg.IdleLegs)
				}
			}
			return w.Flush()
		},
	}
	o.flags(c)
	return c
}

func sessionsCommand(e env) *cobra.Command {
	var o control
	c := &cobra.Command{
		Use:     "sessions",
		Short:   "List the live sessions",
		Example: "  baton sessions\n  baton sessions --json | jq 'select(.surrogate == \"s1\")'",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			client := api.NewClient(o.socket)
			defer client.Close()
			lines := json.NewEncoder(e.out)
			w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
			if !o.json {
				fmt.Fprintln(w, "CLIENT\tVIP\tSURROGATE\tSERVER LEG\tSTATE\tAGE\tIDLE\tIN\tOUT\tREQUESTS\t")
			}
			for s, err := range client.Sessions(cmd.Context()) {
				if err != nil {
					return err
				}
				if o.json {
					if err := lines.Encode(s); err != nil {
						return err
					}
					continue
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s > %s\t%s\t%s\t%s\t%d\t%d\t%d\t\n", s.Client, s.VIP, s.Surrogate, s.Leg.Local, s.Leg.Remote,
					s.State, time.Since(s.Since).Round(time.Millisecond), s.IdleFor.Round(time.Millisecond), s.Received, s.Sent, s.Requests)
			}
			return w.Flush()
		},
	}
	o.flags(c)
	return c
}

func drainCommand(e env) *cobra.Command {
	var (
		o    control
		undo bool
	)
	c := &cobra.Command{
		Use:     "drain SURROGATE",
		Short:   "Take a surrogate out for new sessions; those that it has go on",
		Example: "  baton drain s1\n  baton drain s1 --undo",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client := api.NewClient(o.socket)
			defer client.Close()
			d, err := client.Drain(cmd.Context(), api.DrainRequest{Surrogate: args[0], Undo: undo})
			if err != nil {
				return err
			}
			if o.json {
				return printJSON(e, d)
			}
			state := "takes new sessions again"
			if d.Draining {
				state = "takes no new sessions"
			}
			fmt.Fprintf(e.out, "%s %s; it has %d\n", d.Surrogate, state, d.Sessions)
			return nil
		},
	}
	o.flags(c)
	c.Flags().BoolVar(&undo, "undo", false, "let it take new sessions again")
	return c
}

func explainCommand(e env) *cobra.Command {
	var (
		o       control
		file    string
		client  string
		method  string
		headers []string
	)
	c := &cobra.Command{
		Use:   "explain [--config FILE] URL",
		Short: "Tell which surrogate a request would get, and why",
		Long: `Tell which surrogate a request would get, and why: the rule, the pool, the surrogates that could not be chosen.

With --config the file is asked, as if every surrogate were up; without it, the running router with what it knows of them.`,
		Example: `  baton explain --config router.yaml http://cdn.example.net/video/1.mp4
  baton explain http://10.9.9.9/x --client 192.0.2.7 --header 'Host: cdn.example.net'`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			q := api.Question{URL: args[0], Method: method}
			if client != "" {
				a, err := netip.ParseAddr(client)
				if err != nil {
					return usageError{fmt.Errorf("--client: %w", err)}
				}
				q.Client = a
			}
			for _, h := range headers {
				name, value, ok := strings.Cut(h, ":")
				if !ok {
					return usageError{fmt.Errorf("--header: %q is not Name: value", h)}
				}
				q.Headers = append(q.Headers, api.Header{Name: name, Value: strings.TrimSpace(value)})
			}
			var a api.Explanation
			if file != "" {
				cfg, err := config.Load(file)
				if err != nil {
					return usageError{err}
				}
				x, err := explain.Explain(cfg, explain.Question{Method: method, URL: q.URL, Client: q.Client, Headers: headers}, explain.AllUp)
				if err != nil {
					return usageError{err}
				}
				a = router.Explained(x)
			} else {
				asked := api.NewClient(o.socket)
				defer asked.Close()
				var err error
				if a, err = asked.Explain(cmd.Context(), q); err != nil {
					return err
				}
			}
			if o.json {
				return printJSON(e, a)
			}
			for _, step := range a.Steps {
				fmt.Fprintln(e.out, step)
			}
			return nil
		},
	}
	o.flags(c)
	c.Flags().StringVar(&file, "config", "", "ask this configuration `file` and not the running router")
	c.Flags().StringVar(&client, "client", "", "the client's `address`")
	c.Flags().StringVar(&method, "method", "", "the request's `method` (default GET)")
	c.Flags().StringArrayVar(&headers, "header", nil, "a `Name: value` of the request; may be repeated")
	return c
}
