package main

import (
	"fmt"
	"io"
	"net/netip"
	"strings"
	"text/tabwriter"
	"time"

	"baton/api"
	"baton/cmd/cli"
)

func printRelay(out io.Writer, s *api.RelayStatus, wide bool, now time.Time) error {
	fmt.Fprintf(out, "%s: baton %s, pid %d, up %s, %d of %d flows\n",
		s.Name, s.Version, s.PID, now.Sub(s.Started).Round(time.Second), s.Flows.Used, s.Flows.Limit)
	if s.Stopping {
		fmt.Fprintln(out, "stopping: no new flows are accepted")
	}
	for _, f := range s.Features {
		if !f.Used {
			fmt.Fprintf(out, "without %s: %s\n", f.Name, f.Reason)
		}
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if len(s.Entries) > 0 {
		fmt.Fprintln(w, "\nENTRY\tLISTEN\tMODE\tTO\tEARLY SYN\tFLOWS\tTOTAL\tSTATE")
		for _, e := range s.Entries {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", e.Name, endpoint(e.Listen.IsValid(), e.Listen), cli.Dash(e.Mode), entryTo(&e),
				cli.Dash(e.EarlySYN), e.Live, e.Flows, entryState(&e))
		}
	}
	if t := s.Trunks; t != nil {
		fmt.Fprintln(w, "\nTRUNK LISTENER\tSECURITY\tIDLE\tLIMIT\tFLOWS\tTOTAL\tSTATE")
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%s\n", cli.Dash(addresses(t.Listen)), cli.Dash(t.Security), t.Waiting.Used, t.Waiting.Limit, t.Live, t.Flows,
			openState(t.Open))
	}
	if len(s.Peers) > 0 {
		fmt.Fprintln(w, "\nPEER\tADDRESS\tRTT\tREADY\tOPENED\tTAKEN\tMISSED\tSTALE\tFAILED\tBROKEN\tREPLAYED\tSTATE")
		for _, p := range s.Peers {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", p.Name, p.Address, roundTrip(p.RTT), p.Ready, p.Opened, p.Taken,
				p.Missed, p.Stale, p.Unopened, p.Broken, p.Replayed, peerState(&p, now))
		}
	}
	if s.Choice != nil {
		printChoice(w, s.Choice, now)
	}
	if len(s.Starts) > 0 {
		fmt.Fprintln(w, "\nTRUNKS\tADDRESS\tINITIAL WINDOW\tOPENED\tSEGMENTS\tRETRANSMITTED\tREJECTED\t")
		for _, b := range s.Starts {
			fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%d\t%d\t\n", b.Trunks, trunkAddress(b.Address), window(b.Window), b.Established, b.Sent,
				b.Retransmitted, b.Refused)
		}
	}
	if wide {
		printWorkers(w, s.Workers)
	}
	cli.Counted(w, "REFUSED", "FLOWS", sum(s.Workers, func(x *api.RelayWorker) map[string]uint64 { return x.Refused }))
	cli.Counted(w, "TIMED OUT", "COUNT", sum(s.Workers, func(x *api.RelayWorker) map[string]uint64 { return x.Expired }))
	cli.Counted(w, "VERDICT", "PACKETS", s.Packets)
	return w.Flush()
}

func printWorkers(w io.Writer, workers []api.RelayWorker) {
	fmt.Fprintln(w, "\nWORKER\tFLOWS\tTOTAL\tEARLY\tPROBES\tCOPIED\tSPLICED\tPIPES\tNO PIPE\tFULL\tBAD CLIENT HEADERS\tBAD TRUNK HEADERS\tBAD HANDSHAKES\t")
	for _, x := range workers {
		fmt.Fprintf(w, "%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t%d\t\n", x.Worker, x.Live, x.Flows, x.Early, x.Probes, x.Copied, x.Spliced,
			x.Pipes, x.WithoutPipe, x.Full, x.BadClientHeaders, x.BadTrunkHeaders, x.BadHandshakes)
	}
}

func sum(workers []api.RelayWorker, of func(*api.RelayWorker) map[string]uint64) map[string]uint64 {
	all := make(map[string]uint64)
	for i := range workers {
		for name, n := range of(&workers[i]) {
			all[name] += n
		}
	}
	return all
}

// entryTo is the destination of an entry's flows.
func entryTo(e *api.RelayEntry) string {
	to := map[string]string{
		"": "-", "plain": e.Destination.String(), "transparent": "its own destination", "proxy": "as in the header", "socks5": "as requested", "connect": "as requested",
	}[e.Mode]
	if e.Auto {
		return to + " via auto"
	}
	if len(e.Via) > 0 {
		to += " via " + strings.Join(e.Via, ", ")
	}
	return to
}

func entryState(e *api.RelayEntry) string {
	if e.Mode == "" {
		return "removed"
	}
	return openState(e.Open)
}

func openState(open bool) string {
	if open {
		return "open"
	}
	return "not open"
}

func addresses(all []netip.AddrPort) string {
	var out []string
	for _, a := range all {
		out = append(out, a.String())
	}
	return strings.Join(out, ", ")
}

func trunkAddress(a netip.AddrPort) string {
	if a.Port() == 0 {
		return a.Addr().String()
	}
	return a.String()
}

func window(segments int) string {
	if segments == 0 {
		return "system"
	}
	return fmt.Sprint(segments)
}

func roundTrip(d time.Duration) string {
	if d == 0 {
		return "-"
	}
	return fmt.Sprintf("%.4g ms", float64(d)/1e6)
}

// peerState describes whether trunks can be opened, and if not, why.
func peerState(p *api.RelayPeer, now time.Time) string {
	state := "up"
	if p.Down {
		state = "down"
	}
	if p.Opened == 0 && !p.Down {
		state = "not reached yet"
	}
	if p.Waiting > 0 {
		state += fmt.Sprintf(", %d flows waiting", p.Waiting)
	}
	if p.Failure != "" {
		state += fmt.Sprintf(" (%s ago: %s)", now.Sub(p.Failed).Round(time.Second), p.Failure)
	}
	return state
}
