package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
)

func relayFlowsCommand(p *part.Part, e cli.Env) *cobra.Command {
	return p.Show(e, &cobra.Command{
		Use:   "flows",
		Short: "List the flows of a running relay",
		Long: `List the flows of a running relay. In JSON there is one per line, with an id that is the same on all relays of the
flow's route.`,
		Example: `  baton relay flows
  baton relay flows -o json | jq -c 'select(.entry == "web" and .idle_ns > 60e9)'`,
	}, func(ctx context.Context, client *api.Client, format *cli.Format) error {
		w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
		if format.Text() {
			fmt.Fprintln(w, "CLIENT\tSERVER\tFROM\tVIA\tSTAGE\tAGE\tIDLE\tFROM CLIENT\tFROM SERVER\t")
		}
		for f, err := range client.RelayFlows(ctx) {
			if err == nil && !format.Text() {
				err = format.Item(e.Out, f)
			} else if err == nil {
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t\n", endpoint(f.Client.IsValid(), f.Client), endpoint(f.Server.IsValid(), f.Server),
					cameBy(&f), goesBy(f.Via), stage(&f), time.Since(f.Since).Round(time.Millisecond), f.IdleFor.Round(time.Millisecond),
					f.FromClient, f.FromServer)
			}
			if err != nil {
				return err
			}
		}
		return w.Flush()
	})
}

func endpoint(known bool, address fmt.Stringer) string {
	if !known {
		return "-"
	}
	return address.String()
}

func cameBy(f *api.RelayFlow) string {
	if f.Entry != "" {
		return f.Entry
	}
	return strings.Join(f.Passed, " ") + " (trunk)"
}

func goesBy(via []string) string {
	if len(via) == 0 {
		return "-"
	}
	return strings.Join(via, " ")
}

func stage(f *api.RelayFlow) string {
	if f.Probe {
		return f.Stage + " (probe)"
	}
	return f.Stage
}

func relayStopCommand(p *part.Part, e cli.Env) *cobra.Command {
	var graceful, wait bool
	c := &cobra.Command{
		Use:   "stop --graceful",
		Short: "Stop accepting new flows, and end with the last one",
		Long: `Stop accepting new flows, and end with the last one, as SIGTERM does: flows that remain after timeouts.stop are reset.
This cannot be undone except by another start.`,
		Example: `  baton relay stop --graceful
  baton relay stop --graceful --wait   # returns when the relay has ended`,
	}
	p.Ask(c, func(ctx context.Context, client *api.Client, format *cli.Format, _ []string) error {
		if !graceful {
			return cli.Usagef("--graceful is missing; for example: baton relay stop --graceful")
		}
		d, err := client.RelayStop(ctx)
		if err != nil {
			return err
		}
		err = format.Print(e.Out, d, func(out io.Writer, _ bool) error {
			_, err := fmt.Fprintf(out, "no new flows are accepted; the remaining %d are reset in %s\n", d.Flows, d.AtMost)
			return err
		})
		if err != nil || !wait {
			return err
		}
		return relayEnded(ctx, client)
	})
	c.Flags().BoolVar(&graceful, "graceful", false, "let flows end first, for up to timeouts.stop (required)")
	c.Flags().BoolVar(&wait, "wait", false, "return when the relay has ended")
	return c
}

// relayEnded returns when nobody listens on the control socket.
func relayEnded(ctx context.Context, client *api.Client) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		var ended *api.NotRunningError
		if _, err := client.Relay(ctx); errors.As(err, &ended) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

func relayPlanCommand(p *part.Part, e cli.Env) *cobra.Command {
	var (
		client, server string
		clouds         cli.Choice
		q              api.RelayPlanRequest
	)
	c := &cobra.Command{
		Use:   "plan",
		Short: "Find the relays that flows from a client to a server should pass, and why",
		Long: `Find the relays that flows from a client to a server should pass, and why. The running relay and its peers measure the
round-trip times of TCP handshakes to both and to each other, which takes some seconds; a port that refuses works like an open
one. A peer measures only destinations that its configuration allows, and its own peers. Missing measurements are listed.

ADDRESS is an IP address, with or without a port (443).`,
		Example: `  baton relay plan --client 192.0.2.7 --server 198.51.100.5:443
  baton relay plan --client 192.0.2.7 --server 198.51.100.5 --direct 265ms --size 10000000   # is it worth it?`,
	}
	p.Show(e, c, func(ctx context.Context, asked *api.Client, format *cli.Format) error {
		plan, err := asked.RelayPlan(ctx, q)
		if err != nil {
			return err
		}
		return format.Print(e.Out, plan, func(out io.Writer, _ bool) error {
			_, err := fmt.Fprint(out, cli.Lines(plan.Text))
			return err
		})
	})
	c.PreRunE = func(*cobra.Command, []string) error {
		var errs [2]error
		q.Client, errs[0] = withPort("--client", client)
		q.Server, errs[1] = withPort("--server", server)
		q.Clouds = clouds.Is
		return errors.Join(errs[:]...)
	}
	f := c.Flags()
	f.StringVar(&client, "client", "", "the client's `address` (required)")
	f.StringVar(&server, "server", "", "the server's `address` (required)")
	f.DurationVar(&q.Direct, "direct", 0, "round-trip `time` between them without relays, if known")
	f.Int64Var(&q.Size, "size", 0, "`bytes` from the server by which to compare routes (default 1 MB)")
	clouds.Flag(c, "clouds", "whether to mix relays of several clouds: only if much faster (prefer), always (any) or never (one)", "prefer", "prefer", "any", "one")
	f.IntVar(&q.MaxRelays, "max-relays", 0, "maximum `number` of relays on a route (default 3)")
	f.IntVar(&q.MaxRelays, "most", 0, "")
	_ = f.MarkHidden("most") // the old name of max-relays
	_ = c.MarkFlagRequired("client")
	_ = c.MarkFlagRequired("server")
	return c
}

// withPort parses a flag's address; the default port is 443.
func withPort(flag, text string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, 443), nil
	}
	at, err := netip.ParseAddrPort(text)
	if err != nil || at.Port() == 0 {
		return netip.AddrPort{}, cli.Usagef("%s: %q is not an IP address, with or without a port, such as 192.0.2.7 or 192.0.2.7:443", flag, text)
	}
	return at, nil
}
