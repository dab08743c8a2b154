package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"baton/experiments/handoff"
	"baton/lab"
)

func experimentCommand(e env) *cobra.Command {
	c := &cobra.Command{
		Use:   "experiment",
		Short: "Measure Baton beside its peers, in namespaces on this machine",
	}
	c.AddCommand(&cobra.Command{
		Use:   "list",
		Short: "List the experiments",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			fmt.Fprintln(e.out, "handoff  what a request costs when it is handed off, beside going direct, a redirect and two proxies")
			return nil
		},
	}, runExperiment(e))
	return c
}

func runExperiment(e env) *cobra.Command {
	var (
		o     handoff.Options
		only  []string
		quick bool
		out   string
	)
	c := &cobra.Command{
		Use:   "run handoff",
		Short: "Run an experiment and print its table",
		Long: `Run an experiment and print its table: medians over the rounds, and ratios to the first contender. The contenders
take turns in every round.`,
		Example: "  baton experiment run handoff\n  baton experiment run handoff --quick --out results\n" +
			"  baton experiment run handoff --measure keep-alive --contender direct,baton",
		Args:      cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		ValidArgs: []string{"handoff"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			self, err := os.Executable()
			if err != nil {
				return err
			}
			if quick {
				o.Rounds, o.Duration, o.Probes = 1, time.Second, 200
			}
			all := handoff.Contenders()
			o.Contenders, err = chosen(append([]handoff.Contender{all[0], handoff.Baton(self)}, all[1:]...), only)
			if err != nil {
				return err
			}
			for _, name := range o.Measures {
				if !slices.Contains(handoff.Measures(), name) {
					return usageError{fmt.Errorf("--measure %s: is none of %s", name, strings.Join(handoff.Measures(), ", "))}
				}
			}
			var report *handoff.Report
			err = lab.Run(e.err, func(l *lab.Lab) error {
				report, err = handoff.Run(cmd.Context(), l, o)
				return err
			})
			if err != nil {
				return err
			}
			fmt.Fprint(e.out, report.Markdown())
			if out == "" {
				return nil
			}
			return writeReport(out, report)
		},
	}
	f := c.Flags()
	f.IntVar(&o.Rounds, "rounds", 0, "`rounds` (default 5)")
	f.DurationVar(&o.Duration, "duration", 0, "of each rate in a round (default 3s)")
	f.StringSliceVar(&only, "contender", nil, "only these `names`; ratios are to the first of them")
	f.StringSliceVar(&o.Measures, "measure", nil, "only these `names`: "+strings.Join(handoff.Measures(), ", "))
	f.BoolVar(&o.IPv6, "ipv6", false, "over IPv6")
	f.BoolVar(&quick, "quick", false, "one short round: whether it works, not how fast")
	f.StringVar(&out, "out", "", "also write handoff.md and handoff.json to this `directory`")
	return c
}

// chosen leaves out all contenders that are not among the names, if there are any.
func chosen(all []handoff.Contender, names []string) ([]handoff.Contender, error) {
	if len(names) == 0 {
		return all, nil
	}
	var out []handoff.Contender
	for _, name := range names {
		at := slices.IndexFunc(all, func(c handoff.Contender) bool { return c.Name == name })
		if at < 0 {
			return nil, usageError{fmt.Errorf("--contender %s: there is no such contender", name)}
		}
		out = append(out, all[at])
	}
	return out, nil
}

func writeReport(dir string, report *handoff.Report) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	b, err := json.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "handoff.json"), b, 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "handoff.md"), []byte(report.Markdown()), 0o644)
}
