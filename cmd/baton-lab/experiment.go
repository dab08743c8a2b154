package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/document"
	"baton/experiments"
	"baton/experiments/accesslog"
	"baton/experiments/adversary"
	"baton/experiments/anycastflashcrowd"
	"baton/experiments/anycastpurge"
	"baton/experiments/anycastresets"
	"baton/experiments/clientaddress"
	"baton/experiments/dnsrate"
	"baton/experiments/endhost"
	"baton/experiments/forwarder"
	"baton/experiments/handoff"
	"baton/experiments/http3"
	"baton/experiments/https"
	"baton/experiments/longpath"
	"baton/experiments/redirection"
	"baton/experiments/relay"
	"baton/experiments/relaycost"
	"baton/experiments/scale"
	"baton/experiments/seqack"
	"baton/experiments/windowscale"
)

// allExperiments are those that the command knows.
func allExperiments() []experiments.Runnable {
	return []experiments.Runnable{
		handoff.Experiment(),
		https.Experiment(),
		https.Hellos(),
		https.Supply(),
		https.Open(),
		accesslog.Experiment(),
		clientaddress.Experiment(),
		clientaddress.Logs(),
		http3.Experiment(),
		dnsrate.Experiment(),
		redirection.Experiment(),
		longpath.Experiment(),
		scale.Experiment(),
		scale.Proxies(),
		windowscale.Experiment(),
		forwarder.Experiment(),
		forwarder.ControlPlane(),
		seqack.Experiment(),
		anycastresets.Experiment(),
		anycastresets.Grid(),
		anycastflashcrowd.Experiment(),
		relay.Experiment(),
		relay.FirstByte(),
		relay.Weak(),
		relay.Chain(),
		relay.Fairness(),
		relaycost.Experiment(),
		relaycost.Flows(),
		anycastpurge.Experiment(),
		anycastpurge.Live(),
		anycastpurge.Lifetime(),
		endhost.Experiment(),
		endhost.Concurrency(),
		endhost.Links(),
		endhost.Switch(),
		endhost.Change(),
		endhost.Datagrams(),
		adversary.Experiment(),
	}
}

func experimentCommand(e cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "experiment",
		Short: "Compare Baton with its competitors, in namespaces on this machine",
		Example: `  baton-lab experiment run handoff
  baton-lab experiment list
  baton-lab experiment report docs/results/handoff`,
	}
	c.AddCommand(listExperiments(e), runExperiment(e), reportExperiment(e))
	return c
}

func listExperiments(e cli.Env) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the experiments",
		Example: "  baton-lab experiment list\n  baton-lab experiment list --json | jq -r '.[].cases[].name'",
		RunE: func(*cobra.Command, []string) error {
			var list []experiments.About
			for _, x := range allExperiments() {
				list = append(list, x.About())
			}
			if json {
				return cli.PrintJSON(e.Out, list)
			}
			w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
			for _, a := range list {
				fmt.Fprintf(w, "%s\t%s\n", a.Name, a.Question)
			}
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&json, "json", false, "print JSON: also cases, contenders and measures")
	return c
}

func runExperiment(e cli.Env) *cobra.Command {
	var (
		o   experiments.Options
		out string
	)
	c := &cobra.Command{
		Use:   "run NAME",
		Short: "Run an experiment; write its results, plots and report",
		Long: `Run an experiment; write its results, plots and report. The contenders take turns in every round. Ctrl-C ends the run, removes
its network and keeps the samples so far, marked as interrupted. Nothing else should run on the machine during a run.`,
		Example: "  baton-lab experiment run handoff\n  baton-lab experiment run handoff --quick\n" +
			"  baton-lab experiment run handoff --measure keep-alive --contender direct,baton --rounds 20 --out /tmp/keep-alive",
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return experimentNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			x, err := findExperiment(args[0])
			if err != nil {
				return err
			}
			if err := x.Check(o); err != nil {
				return cli.UsageError{Err: err}
			}
			if o.Program, err = program(); err != nil {
				return err
			}
			o.Progress = e.Err
			if out == "" {
				out = filepath.Join("results", args[0])
			}
			results, failed := x.Run(cmd.Context(), o)
			if results == nil {
				return failed
			}
			return errors.Join(failed, results.Write(out), writeReport(e, out, results, x.About()))
		},
	}
	f := c.Flags()
	f.IntVar(&o.Rounds, "rounds", 0, "`number` of rounds (default: the experiment's, mostly 5)")
	f.DurationVar(&o.Duration, "duration", 0, "`duration` of each timed sample (default: the experiment's, mostly 3s)")
	f.StringArrayVar(&o.Cases, "case", nil, "only the case with this `name`; may be repeated")
	f.StringSliceVar(&o.Contenders, "contender", nil, "only the contenders with these `names`; ratios relate to the first")
	f.StringSliceVar(&o.Measures, "measure", nil, "only the measures with these `names`")
	f.BoolVar(&o.IPv6, "ipv6", false, "over IPv6")
	f.Uint64Var(&o.Seed, "seed", 0, "`seed` of random choices (adversary)")
	f.IntVar(&o.Connections, "connections", 0, "`number` of connections for each contender (https-hellos, https-supply, client-address-logs)")
	f.BoolVar(&o.Quick, "quick", false, "one short round, to see whether it works, not how fast")
	f.StringVar(&out, "out", "", "`folder` for results, plots and report (default results/NAME)")
	return c
}

func reportExperiment(e cli.Env) *cobra.Command {
	return &cobra.Command{
		Use:   "report [NAME|FOLDER]",
		Short: "Redraw the plots and rewrite the report of a run from its results.json",
		Example: "  baton-lab experiment report handoff           # results/handoff\n" +
			"  baton-lab experiment report docs/results/handoff\n  baton-lab experiment report                   # all in results",
		RunE: func(_ *cobra.Command, args []string) error {
			folders, err := resultFolders(args)
			if err != nil {
				return cli.UsageError{Err: err}
			}
			for _, dir := range folders {
				results, err := experiments.Read(dir)
				if err != nil {
					return cli.UsageError{Err: err}
				}
				about := experiments.About{Name: results.Experiment} // one that is gone has a report still
				if x, err := findExperiment(results.Experiment); err == nil {
					about = x.About()
				}
				if err := writeReport(e, dir, results, about); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

// resultFolders are the folders of the results to report on.
func resultFolders(args []string) ([]string, error) {
	if len(args) == 1 {
		if slices.Contains(experimentNames(), args[0]) {
			return []string{filepath.Join("results", args[0])}, nil
		}
		return args, nil
	}
	found, err := filepath.Glob(filepath.Join("results", "*", "results.json"))
	if err == nil && len(found) == 0 {
		err = errors.New("report: there are no results in the folder results; give the folder of a run")
	}
	for i := range found {
		found[i] = filepath.Dir(found[i])
	}
	return found, err
}

func writeReport(e cli.Env, dir string, results *experiments.Results, about experiments.About) error {
	files, err := results.Report(dir, about)
	if err != nil {
		return err
	}
	results.Text(e.Out, about)
	fmt.Fprintf(e.Out, "\n%s\n", strings.Join(files, "\n"))
	return nil
}

func experimentNames() []string {
	var names []string
	for _, x := range allExperiments() {
		names = append(names, x.About().Name)
	}
	return names
}

func findExperiment(name string) (experiments.Runnable, error) {
	for _, x := range allExperiments() {
		if x.About().Name == name {
			return x, nil
		}
	}
	return nil, cli.Usagef("there is no experiment %q (%s)", name, document.Meant(name, experimentNames()))
}
