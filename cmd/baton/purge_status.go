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

func printPurge(out io.Writer, s *api.PurgeStatus, wide bool, now time.Time) error {
	fmt.Fprintf(out, "baton %s, pid %d, up %s, %d of %d connections marked, %d resets in addition to the kernel's\n",
		s.Version, s.PID, now.Sub(s.Started).Round(time.Second), s.Waiting.Used, s.Waiting.Limit, s.Resets)
	if wide {
		fmt.Fprintf(out, "%s, read %s ago; Linux %s; control groups %s\n", s.Config, cli.Age(now, s.Loaded), s.Kernel, strings.Join(s.Cgroups, ", "))
	}
	for _, f := range s.Features {
		if !f.Used {
			fmt.Fprintf(out, "without %s: %s\n", f.Name, f.Reason)
		}
	}
	for _, g := range s.CgroupsMissing {
		fmt.Fprintf(out, "control group %s does not exist\n", g)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\nPOLICY\tPORTS\tRETRIES\tWAIT\tUNRESPONSIVE\tMARKED\tENDED\tHEARD\tGONE\tSPARED\tFAILED\tSTATE")
	for _, p := range s.Policies {
		fmt.Fprintf(w, "%s\t%s\t%d\t%d%%\t%v to %v\t%d\t%d\t%d\t%d\t%d\t%d\t%s\n", p.Name, cli.Dash(strings.Join(p.Ports, ", ")), p.MaxRetries,
			p.Wait, p.Floor, p.Ceiling, p.Marked, p.Ended, p.Heard, p.Gone, p.Spared, p.Failed, policyState(&p))
	}
	cli.Counted(w, "VERDICT", "TIMES", s.Verdicts)
	return w.Flush()
}

func policyState(p *api.PurgePolicy) string {
	switch {
	case !p.InForce:
		return "gone"
	case p.DryRun:
		return "dry run"
	}
	return "in force"
}
