package main

import (
	"bytes"
	"strings"
	"testing"

	"baton/cmd/cli"
	"baton/cmd/cli/clitest"
)

// said runs a command inside of the test.
func said(t *testing.T, args ...string) (status int, out, errs string) {
	t.Helper()
	var stdout, stderr bytes.Buffer
	status = run(t.Context(), cli.Env{Out: &stdout, Err: &stderr}, args)
	return status, stdout.String(), stderr.String()
}

// TestHelp: every command says in a line what it does, has an example, and examples are commands that there are.
func TestHelp(t *testing.T) { clitest.Help(t, tree(cli.Env{})) }

// TestTree: every part has the verbs that the parts of baton have; what only some have is in this list.
func TestTree(t *testing.T) {
	own := map[string][]string{"nameserver": {"decisions", "key", "query", "surrogate"}, "controller": {"topology"}}
	if len(parts()) != len(own) {
		t.Errorf("%d parts, want %d", len(parts()), len(own))
	}
	for _, p := range parts() {
		clitest.Verbs(t, tree(cli.Env{}), p, own[p.Name])
	}
}

// TestMistakes: what is typed wrong is said in one line, with what would be right, and makes exit status 2.
func TestMistakes(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"", `COMMAND is missing after "baton-cdn": one of completion, `},
		{"router", `unknown command "router" for "baton-cdn": it is "baton router"`},
		{"versoin", `unknown command "versoin" for "baton-cdn": did you mean "baton-cdn version"?`},
	} {
		t.Run(tt.args, func(t *testing.T) {
			status, out, errs := said(t, strings.Fields(tt.args)...)
			if status != cli.Usage || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 || out != "" {
				t.Errorf("status %d, output %q, errors %q; want %d and a line with %q", status, out, errs, cli.Usage, tt.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	if status, out, errs := said(t, "version"); status != 0 || out != "baton-cdn dev\n" || errs != "" {
		t.Errorf("status %d, %q, %q", status, out, errs)
	}
}

// TestReference: the reference of the commands is of these commands.
func TestReference(t *testing.T) { clitest.Reference(t, tree(cli.Env{})) }
