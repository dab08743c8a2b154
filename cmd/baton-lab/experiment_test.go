package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"baton/cmd/cli"
	"baton/experiments"
)

// TestExperimentRefuses: what is typed wrong is said in one line, and nothing is run or written.
func TestExperimentRefuses(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("results.json", []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ args, want string }{
		{"run", "NAME is missing; for example: baton-lab experiment run handoff"}, {"foo", `unknown command "foo" for "baton-lab experiment"`},
		{"run nothing", `there is no experiment "nothing" (one of handoff`},
		{"run handoff --measure speed", `--measure "speed": one of bulk, keep-alive`},
		{"run handoff --contender direct,batton", `--contender "batton": did you mean baton?`},
		{"run window-scale --case far", `--case "far": one of rtt 2 ms`},
		{"run window-scale --ipv6", "--ipv6: window-scale runs over IPv4 only"},
		{"run handoff --rounds -3", "--rounds -3: want 1 or more"},
		{"run handoff --rounds many", `--rounds: "many" is not a whole number`},
		{"report", "there are no results in the folder results"},
		{"report nowhere", "nowhere/results.json does not exist"},
		{"report handoff", "results/handoff/results.json does not exist"},
		{"report .", "results.json: schema 0, this program reads 1 to 1"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			var out, errs bytes.Buffer
			code := run(t.Context(), cli.Env{Out: &out, Err: &errs}, append([]string{"experiment"}, strings.Fields(tt.args)...))
			if code != cli.Usage || !strings.Contains(errs.String(), tt.want) || strings.Count(errs.String(), "\n") != 1 || out.Len() > 0 {
				t.Errorf("exit code %d, output %q, errors %q; want %d and a line with %q", code, out.String(), errs.String(), cli.Usage, tt.want)
			}
		})
	}
	if left, err := filepath.Glob("*"); err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestExperimentList(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(t.Context(), cli.Env{Out: &out, Err: &errs}, []string{"experiment", "list", "--json"}); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	var list []experiments.About
	if err := json.Unmarshal(out.Bytes(), &list); err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, a := range list {
		if a.Name == "" || seen[a.Name] || !strings.HasSuffix(a.Question, "?") || len(a.Cases) == 0 || len(a.Contenders) == 0 || len(a.Measures) == 0 {
			t.Errorf("%+v", a)
		}
		seen[a.Name] = true
	}
	out.Reset()
	if code := run(t.Context(), cli.Env{Out: &out, Err: &errs}, []string{"experiment", "list"}); code != 0 || strings.Count(out.String(), "\n") != len(list) {
		t.Errorf("exit code %d:\n%s", code, out.String())
	}
}

// TestExperimentReport draws everything again from results.json alone, also of an experiment that is no more.
func TestExperimentReport(t *testing.T) {
	dir := t.TempDir()
	r := &experiments.Results{Schema: 1, Experiment: "former", Question: "Was it?", Ended: experiments.Complete, Options: experiments.RunOptions{Rounds: 1},
		Cases: []experiments.Case{{}}, Contenders: []experiments.ContenderInfo{{Name: "a"}}, Measures: []experiments.MeasureInfo{{Name: "speed", Unit: "m/s"}},
		Samples: []experiments.Sample{{Round: 1, Contender: "a", Measure: "speed", Value: 3}}}
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	if code := run(t.Context(), cli.Env{Out: &out, Err: &errs}, []string{"experiment", "report", dir}); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	for _, name := range []string{"README.md", "speed.svg"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 || !strings.Contains(out.String(), name) {
			t.Errorf("%s: %v; said %q", name, err, out.String())
		}
	}
}
