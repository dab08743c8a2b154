package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"baton/api"
	"baton/cmd/cli"
)

func printBalance(out io.Writer, s *api.BalanceStatus, wide bool, now time.Time) error {
	fmt.Fprintf(out, "baton %s, pid %d, up %s, %s by %s, %d of %d flows, %d connections reset\n",
		s.Version, s.PID, now.Sub(s.Started).Round(time.Second), s.Method, s.Datapath, s.Flows.Used, s.Flows.Limit, s.Resets)
	if wide {
		fmt.Fprintf(out, "%s, read %s ago; internal interface %s\n", s.Config, cli.Age(now, s.Loaded), s.Internal)
	}
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
	cli.Counted(w, "VERDICT", "PACKETS", s.Verdicts)
	return w.Flush()
}

func listed[T fmt.Stringer](list []T) string {
	texts := make([]string, len(list))
	for i, x := range list {
		texts[i] = x.String()
	}
	return cli.Dash(strings.Join(texts, ", "))
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

// scaled formats a number with three digits and the best unit; each unit is step times the previous one.
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
