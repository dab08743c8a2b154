package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/lab/selftest"
)

func labSelftestCommand(e cli.Env) *cobra.Command {
	var quick, asJSON bool
	c := &cobra.Command{
		Use:   "selftest",
		Short: "Measure how accurate emulated links are on this machine",
		Long: `Measure how accurate emulated links are on this machine: throughput, packet rate, delay, rate, losses, order,
and the round trips of TCP's slow start. It takes half a minute on an otherwise idle machine. The exit
status is 1 if a measurement is out of bounds; reports of experiments over emulated links then say so.`,
		Example: "  baton-lab lab selftest\n  baton-lab lab selftest --json | jq -r '.checks[] | [.name, .value, .unit] | @tsv'",
	}
	c.RunE = rooted(func(cmd *cobra.Command, _ []string) error {
		r, err := selftest.Run(cmd.Context(), e.Err, quick)
		if err != nil {
			return err
		}
		if asJSON {
			err = cli.PrintJSON(e.Out, r)
		} else {
			err = r.Write(e.Out)
		}
		if err != nil {
			return err
		}
		if failed := r.Failed(); len(failed) > 0 {
			return fmt.Errorf("%d of %d checks are out of bounds", len(failed), len(r.Checks))
		}
		return nil
	})
	f := c.Flags()
	f.BoolVar(&quick, "quick", false, "take a third of the time, with less certainty")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
