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
		Short: "Measure whether emulated links do on this machine what they promise",
		Long: `Measure whether emulated links do on this machine what they promise: throughput, packet rate, delay, rate, losses, order,
and the round trips of TCP's slow start over them. It takes half a minute of a machine that does nothing else. The exit
status is 1 when something is out of bounds: results of experiments over emulated links are then marked.`,
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
	f.BoolVar(&quick, "quick", false, "a third of the time, and less sure")
	f.BoolVar(&asJSON, "json", false, "print JSON")
	return c
}
