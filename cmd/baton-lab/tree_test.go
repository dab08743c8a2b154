package main

import (
	"bytes"
	"strings"
	"testing"

	"baton/cmd/cli"
	"baton/cmd/cli/clitest"
)

func TestHelp(t *testing.T) { clitest.Help(t, tree(cli.Env{})) }

// TestMistakes: what is typed wrong is said in one line, with what would be right, and makes exit status 2.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", `COMMAND is missing after "baton-lab": one of completion, conformance, demo, experiment, lab, vm; for example: baton-lab demo`},
		{"lab", `COMMAND is missing after "baton-lab lab": one of capture, down, `},
		{"lab foo", `unknown command "foo" for "baton-lab lab": one of capture, down, `},
		{"lab foo --help", `unknown command "foo" for "baton-lab lab"`},
		{"experiment foo", `unknown command "foo" for "baton-lab experiment": one of list, report, run`},
		{"router", `unknown command "router" for "baton-lab": it is "baton router"`},
		{"up", `did you mean "baton-lab lab up"?`},
		{"demos", `did you mean "baton-lab demo"?`},
		{"lab up", "FILE is missing; for example: baton-lab lab up topology.yaml"},
		{"lab exec", "HOST and COMMAND are missing; for example: baton-lab lab exec client ping -c 3 server"},
		{"lab set", "LINK is missing; for example: baton-lab lab set client-router --delay 40ms --loss 1%"},
		{"lab link a", "STATE is missing; for example: baton-lab lab link client-router down"},
		{"lab capture a", "--write FILE is missing; for example: baton-lab lab capture client --write client.pcap"},
		{"lab set a --dely 1ms", `unknown flag --dely for "baton-lab lab set": did you mean --delay?`},
		{"experiment run handof", `there is no experiment "handof" (did you mean handoff?)`},
		{"vm run", "COMMAND is missing"},
		{"vm run --flavour mint -- true", `--flavour: "mint" is not a flavour (cloud, plain)`},
		{"vm run --copy a -- true", `--copy: "a" is not FROM:TO`},
		{"vm run --fetch a -- true", `--fetch: "a" is not FROM:TO`},
		{"demo --runs many", `--runs: "many" is not a whole number`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			status := run(t.Context(), cli.Env{Out: &out, Err: &errs}, strings.Fields(tt.args))
			if status != cli.Usage || !strings.Contains(errs.String(), tt.want) || strings.Count(errs.String(), "\n") != 1 || out.Len() > 0 {
				t.Errorf("status %d, output %q, errors %q; want %d and a line with %q", status, out.String(), errs.String(), cli.Usage, tt.want)
			}
		})
	}
}

// TestMistyped types every command wrongly.
func TestMistyped(t *testing.T) {
	t.Logf("%d mistakes", clitest.Mistyped(t, tree(cli.Env{}), func(args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		status := run(t.Context(), cli.Env{Out: &out, Err: &errs}, args)
		return status, out.String(), errs.String()
	}))
}

// TestReference: the reference of the commands is of these commands.
func TestReference(t *testing.T) { clitest.Reference(t, tree(cli.Env{})) }
