package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/resume/audit"
)

// errUnsafe ends an audit with findings.
var errUnsafe = errors.New("it is not safe to resume a download from one of these servers on another")

func getAuditCommand(e cli.Env) *cobra.Command {
	var (
		o      getOptions
		format cli.Format
	)
	c := &cobra.Command{
		Use:   "audit URL...",
		Short: "Check whether a download from one server of these URLs can be resumed on another",
		Long: `Ask each server of each URL, and check whether a download that breaks off at one of them can be resumed at any other. Nothing is
downloaded. Exit status 1 means that it is not safe.`,
		Example: `  baton get audit https://cdn.example.net/f https://mirror.example.org/f
  baton get audit https://cdn.example.net/f -o json | jq .safe`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return getAudit(cmd.Context(), e, &o, format, args)
		},
	}
	c.Flags().SortFlags = false
	o.requestFlags(c.Flags())
	o.networkFlags(c.Flags())
	format.Flag(c)
	return c
}

// getAudit queries all servers of all URLs.
func getAudit(ctx context.Context, e cli.Env, o *getOptions, format cli.Format, urls []string) error {
	j, err := o.job(urls, "")
	if err != nil {
		return cli.UsageError{Err: err}
	}
	var targets []audit.Target
	if len(o.resolve) > 0 {
		for _, u := range urls { // at the given addresses
			targets = append(targets, audit.Target{URL: u})
		}
	} else if targets, err = audit.Targets(ctx, net.DefaultResolver, urls); err != nil {
		return cli.ExitError{Err: err, Status: 6}
	}
	r := audit.Judge(audit.Ask(ctx, j.options.Base, j.request.Header, targets))
	err = format.Print(e.Out, r, func(out io.Writer, _ bool) error { return printAudit(out, &r) })
	if err == nil && !r.Safe {
		err = cli.ExitError{Err: errUnsafe, Status: cli.Failure, Silent: o.silent && !o.showError}
	}
	return err
}

func printAudit(out io.Writer, r *audit.Report) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "SERVER\tSTATUS\tLENGTH\tVALIDATOR\tRANGES\tIF-RANGE\tSAFE\t")
	for _, s := range r.Sites {
		server := s.Address
		if server == "" {
			server = s.URL
		}
		fmt.Fprintf(w, "%s\t%d\t%d\t%s\t%s\t%s\t%s\t\n", server, s.Status, s.Length, s.Validator, yesNo(s.Ranges), yesNo(s.Kept && s.Dropped), yesNo(len(s.Problems) == 0))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, s := range r.Sites {
		for _, p := range s.Problems {
			fmt.Fprintf(out, "%s: %s\n", s.URL, strings.ReplaceAll(p, "\n", "; "))
		}
		for _, p := range s.Remarks {
			fmt.Fprintf(out, "%s: remark: %s\n", s.URL, p)
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintln(out, p)
	}
	if r.Safe {
		fmt.Fprintln(out, "A download from any of these servers can be resumed on any other.")
	}
	return nil
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}
