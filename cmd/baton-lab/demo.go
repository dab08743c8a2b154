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
		network    cdnFlags
	)
	c := &cobra.Command{
		Use:   "demo",
		Short: "Show real clients and servers with the router between them, in namespaces on this machine",
		Long: `Show real clients and servers with the router between them, in namespaces on this machine: which server answered, how fast, and whether
every byte is right, compared with direct connections, a 302 and HAProxy. Nothing is left behind. The exit status is 1 if a check fails.

With --cdn it is a whole content delivery network instead: forwarders in line, request router, caching surrogates, origin, name server and
clients, with the configurations of examples/cdn. It stays until Ctrl-C, or ends after the checks with --once.`,
		Example: "  baton-lab demo\n  baton-lab demo --json > demo.json\n  baton-lab demo --keep\n  baton-lab demo --cdn\n  baton-lab demo --cdn --once --forwarders 10",
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if o.Program, err = program(); err != nil {
				return err
			}
			o.Progress = e.Err
			if network.cdn {
				return network.run(cmd.Context(), e, o.Program, json)
			}
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
	f.Int64Var(&o.Largest, "largest", 0, "leave out files of more `bytes`, on a slow machine")
	network.add(f)
	c.MarkFlagsMutuallyExclusive("cdn", "keep")
	c.MarkFlagsMutuallyExclusive("cdn", "runs")
	c.MarkFlagsMutuallyExclusive("cdn", "largest")
	return c
}

func listCommands(out io.Writer, commands []demo.Command) {
	fmt.Fprintf(out, "\nThe network stays until Ctrl-C. In another shell, as root:\n")
	for _, c := range commands {
		fmt.Fprintf(out, "\n# %s\n%s\n", c.Does, c.Line)
	}
}
