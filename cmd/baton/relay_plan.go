package main

import (
	"context"
	"fmt"
	"net/netip"

	"github.com/spf13/cobra"

	"baton/api"
)

func relayPlanCommand(e env) *cobra.Command {
	var (
		o              relayControl
		client, server string
		q              api.PlanRequest
	)
	c := askRelay(&cobra.Command{
		Use:   "plan --client ADDRESS --server ADDRESS",
		Short: "Tell which relays flows from a client to a server should pass, and why",
		Long: `Tell which relays flows from a client to a server should pass, and why. The running relay and its peers measure how far they
are from both and from each other, by the round-trip times of handshakes, which takes some seconds; a port that refuses serves as well
as an open one. A peer measures only what its configuration allows flows to go to, and its own peers. What nobody could measure is told.

ADDRESS is an IP address, with or without a port (443).`,
		Example: `  baton relay plan --client 192.0.2.7 --server 198.51.100.5:443
  baton relay plan --client 192.0.2.7 --server 198.51.100.5 --direct 265ms --size 10000000   # is it worth it?`,
	}, &o, func(ctx context.Context, asked *api.Client) error {
		p, err := asked.Plan(ctx, q)
		if err != nil {
			return err
		}
		if o.json {
			return printJSON(e, p)
		}
		for _, line := range p.Text {
			fmt.Fprintln(e.out, line)
		}
		return nil
	})
	c.PreRunE = func(*cobra.Command, []string) (err error) {
		if q.Client, err = withPort(client); err != nil {
			return usageError{fmt.Errorf("--client: %w", err)}
		}
		if q.Server, err = withPort(server); err != nil {
			return usageError{fmt.Errorf("--server: %w", err)}
		}
		return nil
	}
	f := c.Flags()
	f.StringVar(&client, "client", "", "the client's `address` (required)")
	f.StringVar(&server, "server", "", "the server's `address` (required)")
	f.DurationVar(&q.Direct, "direct", 0, "round-trip `time` between them without relays, if you know it")
	f.Int64Var(&q.Size, "size", 0, "`bytes` from the server that ways are compared by (default 1 MB)")
	f.StringVar(&q.Clouds, "clouds", "", "whether relays of several clouds may be mixed: prefer (only if it is clearly faster), any or one")
	f.IntVar(&q.Most, "most", 0, "relays that a way has at most (default 3)")
	_ = c.MarkFlagRequired("client")
	_ = c.MarkFlagRequired("server")
	return c
}

// withPort reads an address; without a port it is that of HTTPS.
func withPort(text string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.AddrPortFrom(a, 443), nil
	}
	at, err := netip.ParseAddrPort(text)
	if err != nil || at.Port() == 0 {
		return netip.AddrPort{}, fmt.Errorf("%q is not an IP address, with or without a port", text)
	}
	return at, nil
}
