package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/experiments/demo"
)

func demoCommand(e cli.Env) *cobra.Command {
	var (
		o          demo.Options
		keep, json bool
	)
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show real clients and servers with the router between them, in namespaces on this machine",
		Long: `Show real clients and servers with the router between them, in namespaces on this machine: which server answered, how fast, and whether
every byte is right, compared with direct connections, a 302 and HAProxy. Nothing is left behind. The exit status is 1 if a check fails.`,
		Example: "  baton-lab demo\n  baton-lab demo --json > demo.json\n  baton-lab demo --keep",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Program, err = program(); err != nil {
				return err
			}
			o.Progress = e.Err
			show := func(r *demo.Report) error {
				if json {
					return cli.PrintJSON(e.Out, r)
				}
				r.Text(e.Out)
				return nil
			}
			if keep {
				o.Keep = func(r *demo.Report, commands []demo.Command) {
					err = show(r)
					listCommands(e.Err, commands)
					<-cmd.Context().Done()
				}
			}
			r, failed := demo.Run(cmd.Context(), o)
			if r != nil && !keep {
				err = show(r)
			}
			return errors.Join(failed, err)
		},
	}
	f := c.Flags()
	f.BoolVar(&keep, "keep", false, "keep the network until Ctrl-C, and print commands to try on it")
	f.BoolVar(&json, "json", false, "print JSON")
	f.IntVar(&o.Runs, "runs", 0, "`runs` of each request in each of the four ways (default 15, 5 for long ones)")
	return c
}

func listCommands(out io.Writer, commands []demo.Command) {
	fmt.Fprintf(out, "\nThe network stays until Ctrl-C. In another shell, as root:\n")
	for _, c := range commands {
		fmt.Fprintf(out, "\n# %s\n%s\n", c.Does, c.Line)
	}
}
