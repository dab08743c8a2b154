package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"baton/api"
	"baton/cmd/cli"
)

// hostStatusCommand shows all daemons of this host.
func hostStatusCommand(e cli.Env) *cobra.Command {
	var (
		format cli.Format
		watch  cli.Watch
	)
	c := &cobra.Command{
		Use:   "status",
		Short: "List the parts that run on this host",
		Long: `List the parts that run on this host, one per line. The command finds them by their default control sockets and by the control sockets of
the configurations in /etc/baton. Exit status 1 means that none runs. For details: baton PART status.`,
		Example: "  baton status\n  baton status -w\n  baton status -o json | jq -r '.[] | [.part, .state] | @tsv'",
		RunE: func(cmd *cobra.Command, _ []string) error {
			return watch.Run(cmd.Context(), e.Out, func(ctx context.Context) error {
				all, err := running(ctx, parts())
				if len(all) == 0 && err == nil {
					err = errors.New("no part of Baton is running; to start one: systemctl start baton-router, or baton router run -c /etc/baton/router.yaml")
				}
				return errors.Join(format.Print(e.Out, all, func(out io.Writer, wide bool) error { return printRunning(out, all, wide, time.Now()) }), err)
			})
		},
	}
	format.Flag(c)
	watch.Flag(c)
	return c
}

// running are the daemons of this host. The error is about those that do not answer.
func running(ctx context.Context, all []*part) ([]brief, error) {
	found := []brief{}
	var errs []error
	for _, p := range all {
		sockets := p.usual()
		if its, err := p.socketOf(p.file()); err == nil {
			sockets = append(sockets, its)
		}
		asked := make(map[string]bool)
		for _, socket := range sockets {
			if asked[socket] || !listens(socket) {
				continue
			}
			asked[socket] = true
			client := api.NewClient(socket)
			s, err := p.status(ctx, client)
			client.Close()
			if err != nil {
				errs = append(errs, fmt.Errorf("%s at %s: %w", p.name, socket, err))
				continue
			}
			s.brief.Part, s.brief.Control = p.name, socket
			found = append(found, s.brief)
		}
	}
	return found, errors.Join(errs...)
}

func printRunning(out io.Writer, all []brief, wide bool, now time.Time) error {
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
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%s\t%s", b.Part, dash(b.Name), b.PID, age(now, b.Started), b.Version, b.State)
		if wide {
			fmt.Fprintf(w, "\t%s\t%s", b.Config, b.Control)
		}
		fmt.Fprintln(w)
	}
	return w.Flush()
}

func versionCommand(e cli.Env) *cobra.Command {
	var format cli.Format
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  baton version\n  baton version -o json",
		RunE: func(*cobra.Command, []string) error {
			data := struct {
				Version string `json:"version"`
			}{version}
			return format.Print(e.Out, data, func(out io.Writer, _ bool) error {
				_, err := fmt.Fprintln(out, "baton", version)
				return err
			})
		},
	}
	format.Flag(c)
	return c
}
