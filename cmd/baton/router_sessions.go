package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/netip"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
	"baton/cmd/cli/part"
)

// sessionFlags are the sessions to list, as typed.
type sessionFlags struct {
	client, surrogate string
	limit             int
	count             bool
}

func routerSessionsCommand(p *part.Part, e cli.Env) *cobra.Command {
	var flags sessionFlags
	c := p.Show(e, &cobra.Command{
		Use:   "sessions",
		Short: "List the live sessions",
		Long: `List the live sessions as the router finds them, in no order. JSON output has one session per line.

A table ends with the number of sessions. --count prints the number alone, which takes less time than a long list.`,
		Example: `  baton router sessions
  baton router sessions --client 192.0.2.0/24 --surrogate s1
  baton router sessions --limit 20
  baton router sessions --count
  baton router sessions -o json | jq 'select(.requests > 100)'`,
	}, func(ctx context.Context, client *api.Client, format *cli.Format) error {
		q, err := flags.parseQuery()
		switch {
		case err != nil:
			return err
		case flags.count:
			return countSessions(ctx, client, format, e.Out, q)
		case format.Text():
			return printSessions(ctx, client, e.Out, q)
		}
		return printSessionItems(ctx, client, format, e.Out, q)
	})
	f := c.Flags()
	f.StringVar(&flags.client, "client", "", "only sessions of clients with this `address` or prefix")
	f.StringVar(&flags.surrogate, "surrogate", "", "only sessions of the surrogate with this `name`")
	f.IntVar(&flags.limit, "limit", 0, "at most this `number` of sessions (default all)")
	f.BoolVar(&flags.count, "count", false, "print the number of sessions alone")
	return c
}

func (f *sessionFlags) parseQuery() (q api.RouterSessionsQuery, err error) {
	if f.limit < 0 {
		return q, cli.Usagef("--limit: %d is not a number of sessions, such as 100", f.limit)
	}
	q.Surrogate, q.Limit = f.surrogate, f.limit
	if f.client == "" {
		return q, nil
	}
	if q.Client, err = netip.ParsePrefix(f.client); err == nil {
		return q, nil
	}
	address, err := netip.ParseAddr(f.client)
	if err != nil {
		return q, cli.Usagef("--client: %q is not an IP address or prefix, such as 192.0.2.7 or 192.0.2.0/24", f.client)
	}
	q.Client = netip.PrefixFrom(address, address.BitLen())
	return q, nil
}

func countSessions(
	ctx context.Context, client *api.Client, format *cli.Format, out io.Writer, q api.RouterSessionsQuery,
) error {
	n, err := client.RouterSessionCount(ctx, q)
	if err != nil {
		return err
	}
	return format.Print(out, api.RouterSessionCount{Sessions: n}, func(out io.Writer, _ bool) error {
		_, err := fmt.Fprintln(out, n)
		return err
	})
}

func printSessionItems(
	ctx context.Context, client *api.Client, format *cli.Format, out io.Writer, q api.RouterSessionsQuery,
) error {
	w := bufio.NewWriterSize(out, 1<<16)
	for s, err := range client.RouterSessions(ctx, q) {
		if err == nil {
			err = format.Item(w, s)
		}
		if err != nil {
			_ = w.Flush() // what came before the error, which matters more
			return err
		}
	}
	return w.Flush()
}

// printSessions prints sessions as a table, and how many there are.
func printSessions(ctx context.Context, client *api.Client, out io.Writer, q api.RouterSessionsQuery) error {
	w := cli.NewColumns(out, "CLIENT", "VIP", "SURROGATE", "SERVER LEG", "STATE", "AGE", "IDLE", "IN", "OUT", "REQUESTS")
	n := 0
	for s, err := range client.RouterSessions(ctx, q) {
		if err == nil {
			n++
			err = w.AddRow(s.Client.String(), s.VIP.String(), s.Surrogate, s.Leg.Local.String()+" > "+s.Leg.Remote.String(),
				string(s.State), time.Since(s.Since).Round(time.Millisecond).String(), s.IdleFor.Round(time.Millisecond).String(),
				strconv.FormatUint(s.Received, 10), strconv.FormatUint(s.Sent, 10), strconv.FormatUint(s.Requests, 10))
		}
		if err != nil {
			_ = w.Flush() // what came before the error, which matters more
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	total := n
	if n > 0 && n == q.Limit {
		var err error
		if total, err = client.RouterSessionCount(ctx, q); err != nil {
			return err
		}
	}
	if total > n {
		_, err := fmt.Fprintf(out, "%d of %s\n", n, cli.Count(total, "session"))
		return err
	}
	_, err := fmt.Fprintln(out, cli.Count(n, "session"))
	return err
}
