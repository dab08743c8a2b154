package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/balance/config"
)

// balanceSockets returns where balances may listen for commands: what a configuration that says nothing gives, and what the systemd unit
// asks for.
func balanceSockets() []string {
	var list []string
	for _, dir := range []string{"/run/baton", "/run/baton-balance"} {
		found, _ := filepath.Glob(dir + "/balance-*.sock") // the pattern is right
		list = append(list, found...)
	}
	return list
}

// balanceControl are the flags of every command that asks a running balance.
type balanceControl struct {
	config string
	control
}

func (o *balanceControl) flags(c *cobra.Command) {
	c.Flags().StringVar(&o.config, "config", "", "the balance's configuration `file`, which tells the control socket")
	c.Flags().StringVar(&o.socket, "control", "", "its control `socket` (default: its configuration's, or the only one there is)")
	c.Flags().BoolVar(&o.json, "json", false, "print JSON")
	c.MarkFlagsMutuallyExclusive("config", "control")
}

// find returns the socket to ask at: the one that is named, or the only one that a balance listens on.
func (o *balanceControl) find(usual []string) (string, error) {
	if o.socket != "" {
		return o.socket, nil
	}
	if o.config != "" {
		text, err := os.ReadFile(o.config)
		if err != nil {
			return "", usageError{fmt.Errorf("--config: %w", err)}
		}
		cfg, err := config.Parse(o.config, text)
		if err != nil {
			return "", usageError{err}
		}
		return cfg.Control, nil
	}
	return findSocket(usual, "/run/baton/balance-*.sock", "nobody", "balances are")
}

func (o *balanceControl) ask(ctx context.Context, question func(context.Context, *api.Client) error) error {
	socket, err := o.find(balanceSockets())
	if err != nil {
		return err
	}
	client := api.NewClient(socket)
	defer client.Close()
	return question(ctx, client)
}

func balanceStatusCommand(e env) *cobra.Command {
	var (
		o     balanceControl
		watch time.Duration
	)
	c := &cobra.Command{
		Use:   "status [--config FILE]",
		Short: "Show a running balance: its links, and what goes over them",
		Example: `  baton balance status
  baton balance status --watch 2s
  baton balance status --json | jq '.links[] | {name, state, flows}'`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.ask(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				for {
					s, err := client.Balance(ctx)
					if err != nil {
						return err
					}
					if o.json {
						err = printJSON(e, s)
					} else {
						err = printBalance(e.out, &s, time.Now())
					}
					if err != nil || watch <= 0 {
						return err
					}
					select {
					case <-ctx.Done():
						return nil
					case <-time.After(watch):
						fmt.Fprintln(e.out)
					}
				}
			})
		},
	}
	o.flags(c)
	c.Flags().DurationVar(&watch, "watch", 0, "print again after this `time`, until interrupted")
	return c
}

func printBalance(out io.Writer, s *api.BalanceStatus, now time.Time) error {
	fmt.Fprintf(out, "baton %s, pid %d, up %s, %s by %s, %d of %d flows, %d connections reset\n",
		s.Version, s.PID, now.Sub(s.Started).Round(time.Second), s.Method, s.Datapath, s.Flows.Used, s.Flows.Limit, s.Resets)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nLINK\tINTERFACE\tSTATE\tFOR\tTIER\tWEIGHT\tACTIVE\tFLOWS\tUP\tDOWN\tCAPACITY\tRTT\tLOSS\tCAP")
	for i := range s.Links {
		l := &s.Links[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%v\t%d\t%s\t%d\t%d\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, l.Interface, l.State, now.Sub(l.Since).Round(time.Second),
			l.Tier, linkWeight(l), l.Active, l.Flows, bitRate(l.SentRate), bitRate(l.ReceivedRate), linkCapacity(l), linkRTT(l), linkLoss(l),
			linkCap(l))
	}
	fmt.Fprintln(w, "\nLINK\tADDRESSES\tGATEWAYS\tRESOLVERS\tMTU\tSENT\tRECEIVED")
	for i := range s.Links {
		l := &s.Links[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%d\t%s\t%s\n", l.Name, listed(l.Addresses), listed(l.Gateways), listed(l.Resolvers), l.MTU,
			byteCount(l.Sent), byteCount(l.Received))
	}
	counted(w, "VERDICT", "PACKETS", s.Verdicts)
	return w.Flush()
}

func listed[T fmt.Stringer](list []T) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.String()
	}
	return dash(strings.Join(texts, ", "))
}

func linkWeight(l *api.BalanceLink) string {
	if l.Measured {
		return fmt.Sprintf("%d, measured", l.Weight)
	}
	return fmt.Sprint(l.Weight)
}

func linkCapacity(l *api.BalanceLink) string {
	if l.Capacity <= 0 {
		return "-"
	}
	return bitRate(l.Capacity)
}

func linkRTT(l *api.BalanceLink) string {
	if l.RTT <= 0 {
		return "-"
	}
	return l.RTT.Round(10 * time.Microsecond).String()
}

func linkLoss(l *api.BalanceLink) string { return fmt.Sprintf("%.2g%%", 100*l.Loss) }

func linkCap(l *api.BalanceLink) string {
	if l.Cap == nil {
		return "-"
	}
	return fmt.Sprintf("%s of %s until %s", byteCount(l.Cap.Used), byteCount(l.Cap.Bytes), l.Cap.Until.Format("2006-01-02 15:04"))
}

// bitRate is a number of bits per second, as links are sold.
func bitRate(bits float64) string {
	return scaled(bits, 1000, "bit/s", "kbit/s", "Mbit/s", "Gbit/s", "Tbit/s")
}

func byteCount(n uint64) string { return scaled(float64(n), 1000, "B", "kB", "MB", "GB", "TB") }

// scaled writes a number with three digits and the unit that suits it, of some that are each step times the one before.
func scaled(v, step float64, units ...string) string {
	i := 0
	for ; v >= step-0.5 && i < len(units)-1; i++ {
		v /= step
	}
	if i == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[i])
	}
	return fmt.Sprintf("%.3g %s", v, units[i])
}

func balanceReloadCommand(e env) *cobra.Command {
	var o balanceControl
	c := &cobra.Command{
		Use:   "reload [--config FILE]",
		Short: "Have a running balance read its configuration again",
		Long: `Have a running balance read its configuration again, as SIGHUP does. Flows that there are stay where they are. A configuration that
cannot be put in force changes nothing.`,
		Example: "  baton balance reload",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return o.ask(cmd.Context(), func(ctx context.Context, client *api.Client) error {
				result, err := client.Reload(ctx)
				if err != nil {
					return err
				}
				if o.json {
					return printJSON(e, result)
				}
				fmt.Fprintf(e.out, "%s is in force\n", result.Config)
				return nil
			})
		},
	}
	o.flags(c)
	return c
}
