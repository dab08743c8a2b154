package part

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
)

// HostStatus makes the command that shows all daemons of this host.
func HostStatus(e cli.Env, program string, all func() []*Part) *cobra.Command {
	var (
		format cli.Format
		watch  cli.Watch
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "List the parts that run on this host",
		Long: `List the parts that run on this host, one per line. The command finds them by their default control sockets and by the control sockets of
the configurations in /etc/baton. Exit status 1 means that none runs. For details: baton PART status.`,
		Example: strings.ReplaceAll("  baton status\n  baton status -w\n  baton status -o json | jq -r '.[] | [.part, .state] | @tsv'", "baton", program),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watch.Run(cmd.Context(), e.Out, func(ctx context.Context) error {
				found, err := Running(ctx, all())
				if len(found) == 0 && err == nil {
					err = NoneRuns(all())
				}
				return errors.Join(format.Print(e.Out, found, func(out io.Writer, wide bool) error { return PrintRunning(out, found, wide, time.Now()) }), err)
			})
		},
	}
	format.Flag(c)
	watch.Flag(c)
	return c
}

// NoneRuns is the error when none of the parts runs on this host. It says how to start one.
func NoneRuns(all []*Part) error {
	one := all[0]
	return fmt.Errorf("no part of Baton is running; to start one: systemctl start baton-%[1]s, or %[2]s %[1]s run -c %[3]s", one.Name, one.program(), one.File())
}

// Running are the daemons of this host. The error is about those that do not answer.
func Running(ctx context.Context, all []*Part) ([]Brief, error) {
	found := []Brief{}
	var errs []error
	for _, p := range all {
		for _, socket := range p.Live() {
			client := api.NewClient(socket)
			s, err := p.Status(ctx, client)
			client.Close()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s at %s: %w", p.Name, socket, err))
				continue
			}
			s.Brief.Part, s.Brief.Control = p.Name, socket
			found = append(found, s.Brief)
		}
	}
	return found, errors.Join(errs...)
}

// Live are the control sockets of the part's daemons that run on this host: at the usual places, and that of the configuration in /etc/baton. Each is
// there once, in whichever way it is found.
func (p *Part) Live() (live []string) {
	sockets := p.Usual()
	if its, err := p.SocketOf(p.File()); err == nil {
		sockets = append(sockets, its)
	}
	for _, socket := range sockets {
		if !slices.Contains(live, socket) && listens(socket) {
			live = append(live, socket)
		}
	}
	return live
}

// PrintRunning prints the daemons as a table.
func PrintRunning(out io.Writer, all []Brief, wide bool, now time.Time) error {
	if len(all) == 0 {
		return nil
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	head, more := "PART\tNAME\tPID\tUP\tVERSION\tSTATE", "\tCONFIGURATION\tCONTROL"
	if !wide {
		more = ""
	}
	fmt.Fprintln(w, head+more)
	for _, b := range all {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s", b.Part, cli.Dash(b.Name), b.PID, cli.Age(now, b.Started), b.Version, b.State)
		if wide {
			fmt.Fprintf(w, "\t%s\t%s", b.Config, b.Control)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

// Version makes the command that prints the version of a program.
func Version(e cli.Env, program, version string) *cobra.Command {
	var format cli.Format
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  " + program + " version\n  " + program + " version -o json",
		RunE: func(*cobra.Command, []string) error {
			data := struct {
				Version string `json:"version"`
			}{version}
			return format.Print(e.Out, data, func(out io.Writer, _ bool) error {
				_, err := fmt.Fprintln(out, program, version)
				return err
			})
		},
	}
	format.Flag(c)
	return c
}
