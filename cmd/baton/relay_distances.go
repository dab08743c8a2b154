package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
)

func relayDistancesCommand(p *part.Part, e cli.Env) *cobra.Command {
	return p.Show(e, &cobra.Command{
		Use:   "distances",
		Short: "Show how far peers and servers are from a running relay, and whether they answer",
		Long: `Show how far peers and servers are from a running relay, by round-trip times of TCP handshakes, and whether they answer.
Servers are those that entries with "via: auto" name, and those that their flows have used recently. The command measures nothing: it
shows what the relay knows, for use by name servers and routers.`,
		Example: `  baton relay distances
  baton relay distances -o json | jq -r '.destinations | sort_by(.rtt_ns)[] | select(.up) | .server'`,
	}, func(ctx context.Context, client *api.Client, format *cli.Format) error {
		d, err := client.RelayDistances(ctx)
		if err != nil {
			return err
		}
		return format.Print(e.Out, d, func(out io.Writer, _ bool) error { return printDistances(out, &d, time.Now()) })
	})
}

func relayRoutesCommand(p *part.Part, e cli.Env) *cobra.Command {
	return p.Show(e, &cobra.Command{
		Use:   "routes",
		Short: "Show the routes that a running relay has chosen for entries with \"via: auto\", and why",
		Long: `Show the routes that a running relay has chosen for entries with "via: auto", and why. With -o wide, also the alternatives if a
route fails.`,
		Example: `  baton relay routes
  baton relay routes -o json | jq -r '.[] | [.server, (.via // ["directly"] | join(","))] | @tsv'`,
	}, func(ctx context.Context, client *api.Client, format *cli.Format) error {
		d, err := client.RelayDistances(ctx)
		if err != nil {
			return err
		}
		return format.Print(e.Out, d.Destinations, func(out io.Writer, wide bool) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			printRoutes(w, d.Destinations, wide, time.Now())
			return w.Flush()
		})
	})
}

func printDistances(out io.Writer, d *api.RelayDistances, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PEER\tADDRESS\tRTT\tSTATE")
	for _, p := range d.Peers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, p.Address, roundTrip(p.RTT), upState(p.Up))
	}
	fmt.Fprintln(w, "\nDESTINATION\tSERVER\tRTT\tFROM PEERS\tSTATE\tMEASURED\tROUTE")
	for i := range d.Destinations {
		x := &d.Destinations[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.Destination, x.Server, roundTrip(x.RTT), fromPeers(x), upState(x.Up), ago(x.Measured, now), routeTo(x))
	}
	return w.Flush()
}

func upState(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// fromPeers formats the distances from the other relays; the first is the queried one.
func fromPeers(d *api.RelayDestination) string {
	var out []string
	for _, r := range d.Relays[min(1, len(d.Relays)):] {
		text := roundTrip(r.RTT)
		if r.RTT == 0 && r.Why != "" {
			text = r.Why
		}
		out = append(out, r.Relay+" "+text)
	}
	return cli.Dash(strings.Join(out, ", "))
}

func routeTo(d *api.RelayDestination) string {
	switch {
	case !d.Chosen:
		return "not chosen yet"
	case len(d.Via) == 0:
		return "directly"
	}
	return "via " + strings.Join(d.Via, ", ")
}

// printChoice prints the most recently used routes.
func printChoice(w io.Writer, c *api.RelayChoice, now time.Time) {
	fmt.Fprintln(w)
	printRoutes(w, c.Latest, false, now)
	if more := c.Destinations - len(c.Latest); more > 0 {
		fmt.Fprintf(w, "and %d more: baton relay routes\n", more)
	}
}

func printRoutes(w io.Writer, all []api.RelayDestination, wide bool, now time.Time) {
	more := ""
	if wide {
		more = "\tALTERNATIVES"
	}
	fmt.Fprintln(w, "DESTINATION\tROUTE\tRTT\t1 MB TAKES\tSINCE\tLAST USED\tWHY"+more)
	for i := range all {
		d := &all[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s", d.Destination, routeTo(d), roundTrip(d.RTT), lasting(d.Takes), ago(d.Since, now),
			ago(d.LastUsed, now), cli.Dash(d.Why))
		if wide {
			var instead []string
			for _, via := range d.Instead {
				instead = append(instead, strings.Join(via, " "))
			}
			fmt.Fprintf(w, "\t%s", cli.Dash(strings.Join(instead, ", ")))
		}
		fmt.Fprintln(w)
	}
}

func lasting(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return d.Round(time.Millisecond).String()
}

func ago(t, now time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return fmt.Sprintf("%s ago", now.Sub(t).Round(time.Second))
}
