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
)

func relayDistancesCommand(e env) *cobra.Command {
	var o relayControl
	return askRelay(&cobra.Command{
		Use:   "distances [--config FILE]",
		Short: "Tell how far peers and servers are from a running relay, and whether they answer",
		Long: `Tell how far peers and servers are from a running relay, by round-trip times of TCP handshakes, and whether they answer.
Servers are those that entries with "via: auto" name, and those that flows of such entries have asked for lately. Nothing is measured for
the answer: it is what the relay knows, for name servers and routers to go by.`,
		Example: `  baton relay distances
  baton relay distances --json | jq -r '.destinations | sort_by(.rtt_ns)[] | select(.up) | .server'`,
	}, &o, func(ctx context.Context, client *api.Client) error {
		d, err := client.Distances(ctx)
		if err != nil {
			return err
		}
		if o.json {
			return printJSON(e, d)
		}
		return printDistances(e.out, &d, time.Now())
	})
}

func printDistances(out io.Writer, d *api.Distances, now time.Time) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PEER\tADDRESS\tRTT\tSTATE")
	for _, p := range d.Peers {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", p.Name, p.Address, roundTrip(p.RTT), upState(p.Up))
	}
	fmt.Fprintln(w, "\nDESTINATION\tMEASURED AT\tRTT\tFROM PEERS\tSTATE\tMEASURED\tWAY")
	for i := range d.Destinations {
		x := &d.Destinations[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", x.Destination, x.Server, roundTrip(x.RTT), fromPeers(x), upState(x.Up), ago(x.Measured, now), wayTo(x))
	}
	return w.Flush()
}

func upState(up bool) string {
	if up {
		return "up"
	}
	return "down"
}

// fromPeers are the distances of a destination from relays behind the first, which is the one that was asked.
func fromPeers(d *api.RelayDestination) string {
	var out []string
	for _, r := range d.Relays[min(1, len(d.Relays)):] {
		text := roundTrip(r.RTT)
		if r.RTT == 0 && r.Why != "" {
			text = r.Why
		}
		out = append(out, r.Relay+" "+text)
	}
	return dash(strings.Join(out, ", "))
}

func wayTo(d *api.RelayDestination) string {
	switch {
	case !d.Chosen:
		return "not chosen yet"
	case len(d.Via) == 0:
		return "directly"
	}
	return "via " + strings.Join(d.Via, ", ")
}

// printChoice tells of the ways that a relay has chosen.
func printChoice(w io.Writer, c *api.RelayChoice, now time.Time) {
	fmt.Fprintln(w, "\nDESTINATION\tWAY\tRTT\t1 MB TAKE\tSINCE\tASKED FOR\tWHY")
	for i := range c.Latest {
		d := &c.Latest[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", d.Destination, wayTo(d), roundTrip(d.RTT), lasting(d.Takes), ago(d.Since, now),
			ago(d.Asked, now), dash(d.Why))
	}
	if more := c.Destinations - len(c.Latest); more > 0 {
		fmt.Fprintf(w, "and %d more: baton relay distances\n", more)
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
