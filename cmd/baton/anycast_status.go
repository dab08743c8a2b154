package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"baton/api"
	"baton/cmd/cli"
)

func printAnycast(out io.Writer, s *api.AnycastStatus, wide bool, now time.Time) error {
	fmt.Fprintf(out, "%s: baton %s, pid %d, up %s\n", s.Name, s.Version, s.PID, now.Sub(s.Started).Round(time.Second))
	if wide {
		fmt.Fprintf(out, "%s, read %s ago; %d reloads, %d refused\n", s.Config, cli.Age(now, s.Loaded), s.Reloads, s.ReloadsFailed)
	}
	if s.Site != nil {
		if err := printSite(out, s.Site, now); err != nil {
			return err
		}
	}
	if s.Planner != nil {
		return printPlanner(out, s.Planner, now)
	}
	return nil
}

func printSite(out io.Writer, s *api.AnycastSite, now time.Time) error {
	announces := "announces " + strings.Join(s.Prefixes, ", ") + " "
	if len(s.Prefixes) == 0 {
		announces = "announces nothing itself, is "
	}
	fmt.Fprintf(out, "%sat level %s for %s: %s\n", announces, s.Level, cli.Age(now, s.Since), s.Reason)
	if s.Held != "" {
		fmt.Fprintf(out, "wants level %s; %s holds it for %s more\n", s.Want, s.Held, s.HeldUntil.Sub(now).Round(time.Second))
	}
	if s.Fault != "" {
		fmt.Fprintln(out, "the routers do not know:", s.Fault)
	}
	if s.Instruction.Kind != "" {
		fmt.Fprintf(out, "instruction %s%s, given %s ago\n", s.Instruction.Kind, spaced(s.Instruction.Level), cli.Age(now, s.Instruction.At))
	}
	if s.Proposal != nil {
		state := "stale"
		if s.Proposal.Fresh {
			state = "fresh"
		}
		fmt.Fprintf(out, "planner %s proposes level %s, %s\n", s.Proposal.Planner, s.Proposal.Level, state)
	}
	budget := "no budget"
	if s.Budget > 0 {
		budget = fmt.Sprintf("of %.0f", s.Budget)
	}
	fmt.Fprintf(out, "health %s, load %s, flap penalty %.0f %s\n", s.Health, percent(s.Load), s.Penalty, budget)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nLEVEL\tMED\tPREPEND\tPREFERENCE\tCOMMUNITIES\tENTERED AT\tLEFT BELOW\tIN FORCE")
	for _, l := range s.Levels {
		inForce := ""
		if l.Name == s.Level {
			inForce = "yes"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.Name, nonZero(int(l.MED)), nonZero(l.Prepend), preference(l.LocalPreference),
			cli.Dash(strings.Join(l.Communities, " ")), threshold(l.Enter), threshold(l.Leave), inForce)
	}
	fmt.Fprintln(w, "\nROUTER\tADDRESS\tAS\tSESSION\tFOR\tUPS\tENDED LAST BY")
	for _, p := range s.Peers {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%d\t%s\n", p.Name, p.Address, p.AS, p.State, cli.Age(now, p.Since), p.Ups, cli.Dash(p.Last))
	}
	fmt.Fprintln(w, "\nCHECK\tHEALTH\tLAST FAILURE")
	for _, c := range s.Checks {
		fmt.Fprintf(w, "%s\t%s\t%s\n", c.Name, c.Health, cli.Dash(c.Last))
	}
	if len(s.Loads) > 0 {
		fmt.Fprintln(w, "\nLOAD\tOF THE CAPACITY\tAGE\tFAULT")
		for _, l := range s.Loads {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", l.Name, percent(l.Share), cli.Age(now, l.At), cli.Dash(l.Error))
		}
	}
	printSites(w, s.Others, now)
	return w.Flush()
}

func printSites(w io.Writer, sites []api.AnycastNeighbor, now time.Time) {
	if len(sites) == 0 {
		return
	}
	proposals, proposal := slices.ContainsFunc(sites, func(n api.AnycastNeighbor) bool { return n.Proposal != "" }), ""
	if proposals {
		proposal = "PROPOSED\t"
	}
	fmt.Fprintln(w, "\nSITE\tUP\tLEVEL\t"+proposal+"HEALTH\tLOAD\tREPORTED\tFAULT")
	for _, n := range sites {
		up := "no"
		if n.Alive {
			up = "yes"
		}
		if proposals {
			proposal = cli.Dash(n.Proposal) + "\t"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s%s\t%s\t%s\t%s\n", n.Name, up, cli.Dash(n.Level), proposal, cli.Dash(n.Health), percent(n.Load), cli.Age(now, n.At), cli.Dash(n.Error))
	}
}

func printPlanner(out io.Writer, p *api.AnycastPlanner, now time.Time) error {
	changed := "nothing was changed yet"
	if !p.Moved.IsZero() {
		changed = "last change " + cli.Age(now, p.Moved) + " ago"
	}
	fmt.Fprintf(out, "planner: %s; %s\n", p.Because, changed)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	printSites(w, p.Sites, now)
	if len(p.Map) > 0 {
		fmt.Fprintln(w, "\nINGRESS\tSITE\tTARGET\tDEMAND")
		for _, in := range p.Map {
			fmt.Fprintf(w, "%s\t%s\t%s\t%.1f Mbit/s\n", in.Name, cli.Dash(in.Site), cli.Dash(in.Target), in.Demand*8/1e6)
		}
	}
	for i, m := range p.Next {
		if i == 0 {
			fmt.Fprintln(w, "\nSTEP\tINGRESS\tFROM\tTO")
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%s\n", m.Step, m.Ingress, cli.Dash(m.From), m.To)
	}
	return w.Flush()
}

func percent(load *float64) string {
	if load == nil {
		return "-"
	}
	return fmt.Sprintf("%.0f %%", 100**load)
}

func threshold(share float64) string {
	if share == 0 {
		return "-"
	}
	return percent(&share)
}

func nonZero(n int) string {
	if n == 0 {
		return "-"
	}
	return fmt.Sprint(n)
}

func preference(p *uint32) string {
	if p == nil {
		return "-"
	}
	return fmt.Sprint(*p)
}

func spaced(s string) string {
	if s == "" {
		return ""
	}
	return " " + s
}
