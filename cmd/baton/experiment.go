package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
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
		quick bool
		out   string
	)
	c := &cobra.Command{
		Use:   "run handoff",
		Short: "Run an experiment and print its table",
		Long: `Run an experiment and print its table: medians over the rounds, and ratios to the first contender. The contenders
take turns in every round.`,
		Example:   "  baton experiment run handoff\n  baton experiment run handoff --quick --out results",
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
			o.Contenders = append([]handoff.Contender{all[0], handoff.Baton(self)}, all[1:]...)
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
	f.BoolVar(&o.IPv6, "ipv6", false, "over IPv6")
	f.BoolVar(&quick, "quick", false, "one short round: whether it works, not how fast")
	f.StringVar(&out, "out", "", "also write handoff.md and handoff.json to this `directory`")
	return c
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
