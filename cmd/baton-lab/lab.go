package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/lab"
	"baton/lab/keeper"
	"baton/lab/topology"
)

func labCommand(e cli.Env) *cobra.Command {
	c := &cobra.Command{
		Use:   "lab",
		Short: "Build networks of namespaces on this machine: hosts, links with delay and loss, bridges, switches",
		Long: `Build networks of namespaces on this machine: hosts, links with delay and loss, bridges, switches.

A topology is a YAML file; see docs/lab.md, which starts with ten lines. A background process keeps the network up, and
takes all of it down when it ends.`,
		Example: `  baton-lab lab up topology.yaml
  baton-lab lab exec client ping -c 3 server
  baton-lab lab set client-router --delay 40ms --loss 1%
  baton-lab lab graph --out lab.svg
  baton-lab lab down`,
	}
	c.AddCommand(labUpCommand(e), labKeepCommand(e), labDownCommand(e), labListCommand(e), labShowCommand(e), labExecCommand(e),
		labLogsCommand(e), labSetCommand(e), labLinkCommand(e), labCaptureCommand(e), labGraphCommand(e),
		labSelftestCommand(e))
	return c
}

// labError makes the user's mistakes usage errors.
func labError(err error) error {
	var problem *topology.Error
	var invalid *keeper.InvalidError
	switch {
	case errors.As(err, &problem), errors.As(err, &invalid):
		return cli.UsageError{Err: err}
	case errors.Is(err, context.Canceled):
		return errors.New("interrupted")
	}
	return err
}

// rooted refuses what only root can do, before anything is tried.
func rooted(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		if os.Geteuid() != 0 {
			return errors.New("network namespaces need root (CAP_SYS_ADMIN, CAP_NET_ADMIN): try sudo")
		}
		return labError(run(c, args))
	}
}

// labFlag chooses among the labs that are up.
func labFlag(c *cobra.Command) *string {
	return c.Flags().String("lab", "", "the `name` of the lab (default: the only one)")
}

func labUpCommand(e cli.Env) *cobra.Command {
	var (
		name       string
		check      bool
		foreground bool
	)
	c := &cobra.Command{
		Use:   "up FILE",
		Short: "Build the network of a topology and keep it up",
		Example: `  baton-lab lab up topology.yaml
  baton-lab lab up topology.yaml --check        # only check the file
  baton-lab lab up topology.yaml --foreground   # until Ctrl-C`,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, t, err := readTopology(args[0], name)
			if err != nil {
				return err
			}
			if check {
				fmt.Fprintf(e.Out, "%s: topology OK: %s\n", args[0], size(t))
				return nil
			}
			return rooted(func(*cobra.Command, []string) error {
				if foreground {
					return keepInForeground(cmd, e, t, args[0])
				}
				r, err := keeper.Start(cmd.Context(), []string{"lab", "keep", args[0], "--name", t.Name}, text)
				if err == nil {
					fmt.Fprintf(e.Out, "lab %s is up: %s\n", r.Name, size(t))
				}
				return err
			})(cmd, args)
		},
	}
	f := c.Flags()
	f.StringVar(&name, "name", "", "`name` of the lab (default: the topology's, or the file's)")
	f.BoolVar(&check, "check", false, "check the topology and exit")
	f.BoolVar(&foreground, "foreground", false, "stay in the foreground, and take the network down on Ctrl-C")
	return c
}

// readTopology reads a file, or standard input for "-".
func readTopology(file, name string) ([]byte, *topology.Topology, error) {
	text, err := topology.Read(file)
	if err != nil {
		return nil, nil, cli.UsageError{Err: err}
	}
	t, err := topology.Parse(file, text)
	if err == nil && name != "" {
		err = t.Rename(name)
	}
	if err != nil {
		return nil, nil, cli.UsageError{Err: err}
	}
	return text, t, nil
}

func size(t *topology.Topology) string {
	parts := []string{count(len(t.Hosts), "host"), count(len(t.Links), "link")}
	if n := len(t.Bridges); n > 0 {
		parts = append(parts, count(n, "bridge"))
	}
	if n := len(t.Switches); n == 1 {
		parts = append(parts, "1 switch")
	} else if n > 0 {
		parts = append(parts, fmt.Sprintf("%d switches", n))
	}
	return strings.Join(parts, ", ")
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func keepInForeground(cmd *cobra.Command, e cli.Env, t *topology.Topology, file string) error {
	return keeper.Keep(cmd.Context(), t, file, keeper.Options{
		Log: e.Err,
		Ready: func(r keeper.Record) error {
			fmt.Fprintf(e.Out, "lab %s is up: %s; Ctrl-C takes it down\n", r.Name, size(t))
			return nil
		},
	})
}

// labKeepCommand is what `lab up` executes in the background, with the topology on its standard input.
func labKeepCommand(e cli.Env) *cobra.Command {
	var name string
	c := &cobra.Command{
		Use:    "keep FILE",
		Hidden: true,
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := io.ReadAll(os.Stdin)
			if err != nil {
				return fmt.Errorf("read topology: %w", err)
			}
			t, err := topology.Parse(args[0], text)
			if err == nil {
				err = t.Rename(name)
			}
			if err != nil {
				return cli.UsageError{Err: err}
			}
			return keeper.RunInBackground(cmd.Context(), t, args[0])
		},
	}
	c.Flags().StringVar(&name, "name", "", "")
	return c
}

func labDownCommand(e cli.Env) *cobra.Command {
	var all bool
	c := &cobra.Command{
		Use:   "down [NAME]",
		Short: "Take a lab down",
		Long: `Take a lab down: its hosts, links and processes, including those started by lab exec.

--all takes down every lab started by lab up, and removes what killed labs, tests and experiments have left:
processes, namespaces, mounts and folders. It leaves the labs of running tests and experiments alone.`,
		Example: "  baton-lab lab down\n  baton-lab lab down demo\n  baton-lab lab down --all",
		RunE: rooted(func(cmd *cobra.Command, args []string) error {
			if all {
				if len(args) > 0 {
					return cli.UsageError{Err: errors.New("a NAME and --all do not go together")}
				}
				return takeAllDown(e)
			}
			r, err := keeper.Find(strings.Join(args, ""))
			if err != nil {
				return err
			}
			if err := keeper.Stop(r); err != nil {
				return err
			}
			fmt.Fprintf(e.Out, "lab %s is down\n", r.Name)
			return nil
		}),
	}
	c.Flags().BoolVar(&all, "all", false, "take all labs down and clean up after killed ones")
	return c
}

func takeAllDown(e cli.Env) error {
	var errs []error
	for _, r := range keeper.Running() {
		if err := keeper.Stop(r); err != nil {
			errs = append(errs, err)
			continue
		}
		fmt.Fprintf(e.Out, "lab %s is down\n", r.Name)
	}
	removed, err := lab.Sweep()
	for _, what := range removed {
		fmt.Fprintf(e.Out, "removed %s\n", what)
	}
	return errors.Join(append(errs, err)...)
}

func labListCommand(e cli.Env) *cobra.Command {
	var json bool
	c := &cobra.Command{
		Use:     "list",
		Short:   "List the labs that are up",
		Example: "  baton-lab lab list\n  baton-lab lab list --json",
		RunE: rooted(func(*cobra.Command, []string) error {
			running := keeper.Running()
			if json {
				return cli.PrintJSON(e.Out, append([]keeper.Record{}, running...))
			}
			w := tabwriter.NewWriter(e.Out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tSTATE\tHOSTS\tLINKS\tUP FOR\tKEEPER\tTOPOLOGY\t")
			for _, r := range running {
				fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%d\t%s\t\n", r.Name, r.State, len(r.Hosts), r.Links,
					time.Since(r.Started).Round(time.Second), r.PID, r.File)
			}
			return w.Flush()
		}),
	}
	c.Flags().BoolVar(&json, "json", false, "print JSON")
	return c
}
