package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"baton/api"
	"baton/cmd/cli"
)

// printForwarders prints a process: its forwarder, or a line for each of several, and all of them if wide.
func printForwarders(out io.Writer, s *api.ForwarderStatus, wide bool, now time.Time) error {
	if len(s.Datapaths) == 0 {
		return printForwarder(out, s, wide, now)
	}
	fmt.Fprintf(out, "%s, %s: baton %s, pid %d, up %s\n", s.Name, cli.Count(len(s.Datapaths), "datapath"), s.Version, s.PID, now.Sub(s.Started).Round(time.Second))
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nDATAPATH\tID\tPORTS UP\tCONTROLLERS\tENTRIES\tFORWARDED\tMISSED\tLOST\t")
	for i := range s.Datapaths {
		d := &s.Datapaths[i]
		up, channels := 0, 0
		for _, p := range d.Ports {
			if p.Up {
				up++
			}
		}
		for _, e := range d.Endpoints {
			if !e.Listens {
				channels += len(e.Channels)
			}
		}
		fmt.Fprintf(w, "%s\t%s\t%d of %d\t%d\t%d\t%d\t%d\t%d\t\n", d.Name, d.DatapathID, up, len(d.Ports), channels, d.Entries.Used,
			d.Packets["forwarded"], d.Packets["drop_miss"], d.UpcallsLost)
	}
	if err := w.Flush(); err != nil || !wide {
		return err
	}
	for i := range s.Datapaths {
		fmt.Fprintln(out)
		if err := printForwarder(out, &s.Datapaths[i], wide, now); err != nil {
			return err
		}
	}
	return nil
}

func printForwarder(out io.Writer, s *api.ForwarderStatus, wide bool, now time.Time) error {
	fmt.Fprintf(out, "%s, datapath %s, fail mode %s: baton %s, pid %d, up %s\n",
		s.Name, s.DatapathID, s.FailMode, s.Version, s.PID, now.Sub(s.Started).Round(time.Second))
	fmt.Fprintf(out, "%d of %d flow entries, %d of %d groups, %d of %d meters\n",
		s.Entries.Used, s.Entries.Limit, s.Groups.Used, s.Groups.Limit, s.Meters.Used, s.Meters.Limit)
	if wide {
		fmt.Fprintf(out, "%s; Linux %s\n", s.Config, s.Kernel)
	}
	if s.Bindings != nil {
		fmt.Fprintf(out, "%d of %d flows bound to a link\n", s.Bindings.Flows.Used, s.Bindings.Flows.Limit)
	}
	if s.Journal != nil {
		fmt.Fprintf(out, "on disk: %d messages, %d bytes\n", s.Journal.Records, s.Journal.Bytes)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nPORT\tINTERFACE\tSTATE\tRX PACKETS\tRX BYTES\tRX DROPPED\tTX PACKETS\tTX BYTES\tTX DROPPED\t")
	for _, p := range s.Ports {
		fmt.Fprintf(w, "%s\t%s\t%s\t", p.Number, p.Interface, strings.Join(append([]string{linkState(&p)}, p.Config...), ", "))
		if c := p.Counters; c != nil {
			fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t", c.RxPackets, c.RxBytes, c.RxDropped, c.TxPackets, c.TxBytes, c.TxDropped)
		}
		fmt.Fprintln(w)
	}
	printBindings(w, s.Bindings)
	fmt.Fprintln(w, "\nCHANNELS\tOPENED\tRECEIVED\tREFUSED\tSENT\tPACKET-INS\tDROPPED\tSTATE")
	for _, c := range s.Endpoints {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", c.Endpoint,
			c.Opened, c.Received, c.Refused, c.Sent, c.PacketIns, c.PacketInsDropped, endpointState(&c, now))
	}
	fmt.Fprintln(w, "\nTABLE\tENTRIES\tLOOKUPS\tMISSES\t")
	for _, t := range s.Tables {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t\n", t.Table, t.Entries, t.Lookups, t.Misses)
	}
	fmt.Fprintln(w, "\nVERDICT\tPACKETS\t")
	for _, verdict := range slices.Sorted(maps.Keys(s.Packets)) {
		if n := s.Packets[verdict]; n > 0 {
			fmt.Fprintf(w, "%s\t%d\t\n", verdict, n)
		}
	}
	if err := w.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(out, "\nflow cache hits: %d microflow, %d megaflow; lost: %d packet-ins, %d copies\n", s.MicroflowsHit, s.MegaflowsHit, s.UpcallsLost, s.CopiesLost)
	return err
}

// printBindings prints the ports of the binding table, if there is one.
func printBindings(w io.Writer, bindings *api.ForwarderBindings) {
	if bindings == nil || len(bindings.Ports) == 0 {
		return
	}
	fmt.Fprintln(w, "\nLINK\tINTERFACE\tFLOWS\tACTIVE\tHANDSHAKE\tSYNS\tREPEATED\tSENT BYTES\tRECEIVED BYTES\t")
	for _, p := range bindings.Ports {
		handshake := "-"
		if p.RTT > 0 {
			handshake = p.RTT.Round(10 * time.Microsecond).String()
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\t%d\t%d\t%d\t\n",
			p.Port, p.Interface, p.Flows, p.Active, handshake, p.SYNs, p.SYNRepeats, p.Sent, p.Received)
	}
}

func linkState(p *api.ForwarderPort) string {
	switch {
	case p.Up:
		return "up"
	case p.Present:
		return "down"
	}
	return "no interface"
}

// endpointState describes an endpoint's channels, or why there is none.
func endpointState(c *api.ForwarderEndpoint, now time.Time) string {
	if len(c.Channels) == 0 {
		state := "not connected"
		if c.Listens {
			state = "listening"
		}
		if c.LastError != "" {
			state += fmt.Sprintf(" (%s ago: %s)", now.Sub(c.Failed).Round(time.Second), c.LastError)
		}
		return state
	}
	var each []string
	for _, ch := range c.Channels {
		s := ch.Role + " for " + now.Sub(ch.Since).Round(time.Second).String()
		if c.Listens && ch.Peer != "" {
			s = ch.Peer + " " + s
		}
		each = append(each, s)
	}
	return strings.Join(each, "; ")
}
