package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"baton/cmd/cli"
	"baton/experiments/conformance"
)

func conformanceCommand(e cli.Env) *cobra.Command {
	var (
		o            conformance.Options
		cases, dirs  []string
		out, python  string
		list, asJSON bool
	)
	c := &cobra.Command{
		Use:   "conformance",
		Short: "Run os-ken's OpenFlow 1.3 test cases on the forwarder and on Open vSwitch",
		Long: `Run the OpenFlow 1.3 test cases of os-ken's switch tester on Open vSwitch and on the forwarder, in namespaces on this machine,
and report which pass. The exit status is 1 if a case fails that is not on the list of expected failures, or if a case on
the list passes. All 991 cases take about ten minutes per target.`,
		Example: `  baton-lab conformance
  baton-lab conformance --target baton --dir match
  baton-lab conformance --target baton --case 'push_mpls|pop_mpls'
  baton-lab conformance --list --case table-miss --json | jq -r '.[].Name'`,
	}
	c.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := o.Check(); err != nil {
			return cli.UsageError{Err: err}
		}
		path, err := conformance.FindPython(python)
		if err != nil {
			return err
		}
		suite, err := conformance.OpenSuite(path)
		if err != nil {
			return err
		}
		chosen, err := suite.Select(dirs, cases)
		if err != nil {
			return cli.UsageError{Err: err}
		}
		if list {
			return listCases(e, chosen, asJSON)
		}
		return rooted(func(cmd *cobra.Command, _ []string) error {
			if o.Program, err = program(); err != nil {
				return err
			}
			o.Progress = e.Err
			results, failed := conformance.Run(cmd.Context(), suite, chosen, o)
			if results == nil {
				return failed
			}
			return errors.Join(failed, tellConformance(e, results, out, asJSON))
		})(cmd, nil)
	}
	f := c.Flags()
	f.StringSliceVar(&o.Targets, "target", nil, "`ovs`, baton or ovs-defaults; may be repeated (default ovs and baton)")
	f.StringArrayVar(&cases, "case", nil, "only cases whose \"FILE: DESCRIPTION\" matches this regular `expression`; may be repeated")
	f.StringSliceVar(&dirs, "dir", nil, "only this `folder` or file of the suite: action, group, match, meter, match/11_IPV4_SRC; may be repeated")
	f.BoolVar(&o.Unpatched, "unpatched", false, "do not correct the suite's wrong SCTP checksum")
	f.IntVar(&o.Benches, "benches", 0, "test `benches` in parallel (default 4)")
	f.StringVar(&python, "python", "", "`interpreter` that has os-ken (default: that of make deps)")
	f.StringVar(&out, "out", "results/conformance", "`folder` for results and report")
	f.BoolVar(&list, "list", false, "only list the cases")
	f.BoolVar(&asJSON, "json", false, "print the results as JSON")
	return c
}

func listCases(e cli.Env, cases []conformance.Case, asJSON bool) error {
	if asJSON {
		return cli.PrintJSON(e.Out, cases)
	}
	for _, c := range cases {
		fmt.Fprintln(e.Out, c)
	}
	return nil
}

// tellConformance writes and prints results, and fails when they are not the expected ones.
func tellConformance(e cli.Env, r *conformance.Results, out string, asJSON bool) error {
	files, err := r.Write(out)
	if err != nil {
		return err
	}
	if asJSON {
		err = cli.PrintJSON(e.Out, r)
	} else {
		var text string
		text, err = r.Text()
		fmt.Fprintf(e.Out, "%s\n%s\n", text, strings.Join(files, "\n"))
	}
	if err != nil {
		return err
	}
	surprises, _, err := r.Surprises()
	if err == nil && len(surprises) > 0 {
		err = fmt.Errorf("%d of %d verdicts are not the expected ones", len(surprises), len(r.Verdicts))
	}
	return err
}
