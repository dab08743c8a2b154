package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport: what a run has seen is in its report, by folder, feature and file, with every failure.
func TestReport(t *testing.T) {
	cases := []Case{
		{File: "match/A", Name: "one", Features: []string{"match eth_src"}},
		{File: "match/A", Name: "two|", Features: []string{"match eth_src", "packet mpls"}},
		{File: "action/B", Name: "one", Features: []string{"packet mpls"}},
	}
	suite := &Suite{Version: "3.1.1", Cases: append(cases, Case{File: "group/C", Name: "one"})}
	r := newResults(suite, cases, Options{})
	r.add(TargetInfo{Name: "x", Is: "a switch", Version: "x/1"}, []Verdict{
		{Target: "x", File: "action/B", Case: "one", OK: true},
		{Target: "x", File: "match/A", Case: "two|", Reason: "Received   incorrect packet"},
		{Target: "x", File: "match/A", Case: "one", OK: true},
	}, cases)
	r.finish(nil)
	if got := r.Verdicts[1].Case; got != "two|" {
		t.Errorf("the second verdict is %q: not the suite's order", got)
	}
	dir := filepath.Join(t.TempDir(), "out")
	files, err := r.Write(dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	report, err := os.ReadFile(files[1])
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"os-ken 3.1.1, 3 cases",
		"**Not the whole suite: 3 of its 4 cases.**",
		"| x | a switch | x/1 | **2** of 3 |",
		"| match | 2 | **1** |", "| action | 1 | 1 |", "| all | 3 | **2** |",
		"| match eth_src | 2 | **1** |", "| packet mpls | 2 | **1** |",
		"| match/A | 2 | **1** |",
		"## What x fails: 1", "### Not explained yet (1)", "- `match/A: two|`: Received incorrect packet",
	} {
		if !strings.Contains(string(report), want) {
			t.Errorf("the report lacks %q", want)
		}
	}
	if text, err := r.Text(); err != nil || !strings.HasPrefix(text, "x (x/1): 2 of 3 cases pass") {
		t.Errorf("text %q, %v", text, err)
	}
}

func TestCheck(t *testing.T) {
	tests := []struct {
		o   Options
		err string
	}{
		{Options{}, ""},
		{Options{Targets: []string{"baton", "ovs-defaults"}}, ""},
		{Options{Targets: []string{"batton"}}, `--target "batton": did you mean baton?`},
		{Options{Benches: -1}, "--benches -1"},
	}
	for _, tt := range tests {
		if err := tt.o.Check(); (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%+v: error %v, want %q", tt.o, err, tt.err)
		}
	}
}

func TestOneLine(t *testing.T) {
	long := strings.Repeat("é", 200)
	if got := oneLine("a\n  b"); got != "a b" {
		t.Errorf("got %q", got)
	}
	if got := oneLine(long); len(got) > 170 || !strings.HasSuffix(got, "é…") {
		t.Errorf("got %q", got)
	}
}
