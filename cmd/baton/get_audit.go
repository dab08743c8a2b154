package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"text/tabwriter"

	"baton/resume/audit"
)

// errUnsafe ends an audit that found something.
var errUnsafe = errors.New("it is not safe to go on with a download from one of these servers at another")

// getAudit asks all servers of all URLs.
func getAudit(ctx context.Context, e env, o *getOptions, urls []string) error {
	j, err := o.job(urls)
	if err != nil {
		return usageError{err}
	}
	var targets []audit.Target
	if len(o.resolve) > 0 {
		for _, u := range urls { // at the addresses that were given
			targets = append(targets, audit.Target{URL: u})
		}
	} else if targets, err = audit.Targets(ctx, net.DefaultResolver, urls); err != nil {
		return exitError{err: err, status: 6}
	}
	r := audit.Judge(audit.Ask(ctx, j.options.Base, j.request.Header, targets))
	if o.json {
		err = printJSON(e, r)
	} else {
		err = printAudit(e, &r)
	}
	if err == nil && !r.Safe {
		err = exitError{err: errUnsafe, status: exitFailure, silent: o.silent && !o.showError}
	}
	return err
}

func printAudit(e env, r *audit.Report) error {
	w := tabwriter.NewWriter(e.out, 0, 0, 2, ' ', 0)
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
			fmt.Fprintf(e.out, "%s: %s\n", s.URL, strings.ReplaceAll(p, "\n", "; "))
		}
		for _, p := range s.Remarks {
			fmt.Fprintf(e.out, "%s: remark: %s\n", s.URL, p)
		}
	}
	for _, p := range r.Problems {
		fmt.Fprintln(e.out, p)
	}
	if r.Safe {
		fmt.Fprintln(e.out, "A download from any of these can be gone on with at any other.")
	}
	return nil
}

func yesNo(v bool) string {
	if v {
		return "yes"
	}
	return "no"
}
