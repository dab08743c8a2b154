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

var controllerCommands = []func(*part.Part, cli.Env) *cobra.Command{topologyCommand}

func topologyCommand(p *part.Part, e cli.Env) *cobra.Command {
	return p.Ask(&cobra.Command{
		Use: "topology", SuggestFor: []string{"links", "hosts", "network"},
		Short: "Show the switches, links and hosts that the running controller knows",
		Example: `  baton-cdn controller topology
  baton-cdn controller topology -o json | jq -r '.hosts[] | [.mac, .at.switch, .at.port] | @tsv'`,
	}, func(ctx context.Context, client *api.Client, format *cli.Format, _ []string) error {
		t, err := client.ControllerTopology(ctx)
		if err != nil {
			return err
		}
		return format.Print(e.Out, t, func(out io.Writer, wide bool) error { return printTopology(out, &t, wide, time.Now()) })
	})
}

func printController(out io.Writer, s *api.ControllerStatus, wide bool, now time.Time) error {
	role := "master"
	if !s.Store.Master {
		role = "not the master (that is " + cli.Dash(s.Store.Holder) + ")"
	}
	fmt.Fprintf(out, "%s, %s in generation %d: baton %s, pid %d, up %s, listens on %s\n", s.Name, role, s.Store.Generation, s.Version, s.PID,
		now.Sub(s.Started).Round(time.Second), strings.Join(s.Listen, ", "))
	fmt.Fprintf(out, "%s, %s; paths: %s in %d entries, %d rerouted, %d failures\n", cli.Count(s.Links, "link"), cli.Count(s.Hosts, "host"),
		cli.Count(s.Paths.Trees, "destination"), s.Paths.Entries, s.Paths.Reroutes, s.Paths.Failures)
	if s.Store.Error != "" {
		fmt.Fprintf(out, "the store does not answer: %s\n", s.Store.Error)
	}
	if wide {
		fmt.Fprintf(out, "%s, read %s ago; %d reloads, %d refused; store: %s\n", s.Config, cli.Age(now, s.Loaded), s.Reloads, s.ReloadsFailed, s.Store.Kind)
		fmt.Fprintf(out, "packet-ins %d, dropped by full queues %d; flow mods %d, packet-outs %d\n", s.Packets, s.Overload, s.FlowMods, s.PacketOuts)
		fmt.Fprintf(out, "answered %d, flooded %d, above limits %d; forwarded %d, not delivered %d; path cache: %d hits, %d misses\n", s.Answered,
			s.Flooded, s.Limited, s.Forwarded, s.Undelivered, s.Paths.Hits, s.Paths.Misses)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nSWITCH\tID\tMAKER\tCORE\tUP\tSINCE\tROLE\tFLOWS\tPORTS\tFROM")
	for _, v := range s.Switches {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\t%d\t%s\n", v.Name, v.ID, cli.Dash(v.Maker), yes(v.Core), yes(v.Up), cli.Age(now, v.Since), v.Role,
			v.Flows, len(v.Ports), cli.Dash(v.Remote))
	}
	printSurrogates(w, s)
	refused := map[string]uint64{}
	for reason, n := range s.Refused {
		if n > 0 {
			refused[reason] = n
		}
	}
	cli.Counted(w, "REFUSED", "COUNT", refused)
	return w.Flush()
}

// printSurrogates prints what the network has to do with content.
func printSurrogates(w io.Writer, s *api.ControllerStatus) {
	if len(s.Surrogates) > 0 {
		fmt.Fprintln(w, "\nSURROGATE\tSITE\tADDRESS\tUP\tSTATE\tWEIGHT\tSESSIONS\tHANDOFFS\tIDLE LEGS\tERROR")
	}
	for _, u := range s.Surrogates {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%d\t%d\t%d\t%d\t%s\n", u.Name, cli.Dash(u.Site), u.Address, yes(u.Up), u.State, u.Weight, u.Sessions, u.Handoffs, u.Legs, cli.Dash(u.Error))
	}
	if r := s.Reactive; r != nil {
		fmt.Fprintf(w, "\nhandoffs: %d begun, %d live, %d over; %s by request routers; packets through the controller: %d, refused %d, lost %d\n",
			r.Began, r.Live, r.Ended, cli.Count(int(r.Proxied), "session"), r.Forwarded, r.Dropped, r.Lost)
		cli.Counted(w, "FAILED HANDOFFS", "COUNT", r.Failed)
	}
}

func printTopology(out io.Writer, t *api.ControllerTopology, wide bool, now time.Time) error {
	names := map[string]string{}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SWITCH\tPORT\tNAME\tUP\tFACES")
	for _, s := range t.Switches {
		names[s.ID] = s.Name
		for _, p := range s.Ports {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", s.Name, p.Number, p.Name, yes(p.Up), p.Faces)
		}
	}
	fmt.Fprintln(w, "\nFROM\tTO\tSINCE")
	for _, l := range t.Links {
		fmt.Fprintf(w, "%s:%d\t%s:%d\t%s\n", names[l.From.Switch], l.From.Port, names[l.To.Switch], l.To.Port, cli.Age(now, l.Since))
	}
	fmt.Fprintln(w, "\nHOST\tAT\tSEEN\tADDRESSES")
	for _, h := range t.Hosts {
		addresses := joined(h.Addresses)
		if few := 3; !wide && len(h.Addresses) > few {
			addresses = fmt.Sprintf("%s and %d more", joined(h.Addresses[:few]), len(h.Addresses)-few)
		}
		fmt.Fprintf(w, "%s\t%s:%d\t%s\t%s\n", h.MAC, names[h.At.Switch], h.At.Port, cli.Age(now, h.Seen), addresses)
	}
	return w.Flush()
}
