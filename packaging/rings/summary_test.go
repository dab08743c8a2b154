package main

import (
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

func TestRingOfATest(t *testing.T) {
	tests := []struct {
		name, pkg, file, imports string
		want                     int
	}{
		{"pure", "baton/packet", "a_test.go", `"testing"`, 1},
		{"kernel", "baton/datapath", "a_test.go", `"testing"`, 3},
		{"a program of the kernel", "baton/datapath/router", "a_test.go", `"testing"`, 3},
		{"lab itself", "baton/lab", "a_test.go", `"testing"`, 4},
		{"part in a lab", "baton/router", "lab_test.go", `"baton/lab/peers"`, 4},
		{"kernel in a lab", "baton/datapath", "lab_test.go", `"baton/lab"`, 4},
		{"long in a lab", "baton/router", "soak_long_test.go", `"baton/lab"`, 5},
		{"a name that begins alike", "baton/router", "a_test.go", `"baton/labels"`, 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			text := "package x\nimport _ " + tt.imports + "\nfunc TestX() {}\nfunc FuzzY() {}\nfunc TestMain() {}\nfunc helper() {}\n"
			file, err := parser.ParseFile(token.NewFileSet(), tt.file, text, 0)
			if err != nil {
				t.Fatal(err)
			}
			got := testsOf(tt.pkg, tt.file, file)
			want := []test{{tt.pkg, "TestX", tt.want, false}, {tt.pkg, "FuzzY", 2, true}}
			if len(got) != 2 || got[0] != want[0] || got[1] != want[1] {
				t.Errorf("tests %v, want %v", got, want)
			}
		})
	}
}

func TestModuleOf(t *testing.T) {
	for pkg, want := range map[string]string{"baton/router": ".", "./...": ".", "baton/kubernetes/translate": "kubernetes", "baton/kubernetes": "kubernetes", "baton/kubernetesx": "."} {
		if got := moduleOf(pkg); got != want {
			t.Errorf("%s is of module %s, want %s", pkg, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	skip := []event{
		{Action: "output", Package: "p", Test: "TestA", Output: "    lab.go:51: SKIP ring 4 (lab): network namespaces need root\n"},
		{Action: "output", Package: "p", Test: "TestA", Output: "--- SKIP: TestA (0.00s)\n"},
		{Action: "skip", Package: "p", Test: "TestA"},
		{Action: "pass", Package: "p"},
	}
	fail := []event{{Action: "fail", Package: "p", Test: "TestA/sub"}, {Action: "fail", Package: "p", Test: "TestA"}, {Action: "fail", Package: "p"}}
	pass := []event{{Action: "pass", Package: "p", Test: "TestA"}, {Action: "pass", Package: "p"}}
	tests := []struct {
		name   string
		events []event
		strict bool
		fails  bool
		table  string
	}{
		{"pass", pass, true, false, "1 passed\n"},
		{"skip", skip, false, false, " SKIP, 1 skipped\n        SKIP ring 4 (lab): network namespaces need root\n"},
		{"skip where none may be", skip, true, true, "1 skipped"},
		{"fail", fail, false, true, "1 FAILED"},
		{"nothing", nil, false, true, "no tests"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := newSummary([]test{{"p", "TestA", 4, false}})
			for _, e := range tt.events {
				s.take(e)
			}
			if err := s.verdict(tt.strict); (err != nil) != tt.fails {
				t.Errorf("verdict %v, want failure %v", err, tt.fails)
			}
			if got := s.table(); !strings.Contains(got, tt.table) {
				t.Errorf("table\n%swant in it %q", got, tt.table)
			}
		})
	}
}

func TestCutShort(t *testing.T) {
	s := newSummary([]test{{"p", "TestA", 4, false}})
	for _, e := range []event{
		{Action: "output", Package: "p", Test: "TestB", Output: "said\n"}, {Action: "pass", Package: "p", Test: "TestB"},
		{Action: "output", Package: "p", Test: "TestA", Output: "panic: test timed out after 10m0s\n"},
		{Action: "output", Package: "other", Test: "TestC", Output: "=== RUN\n"},
		{Action: "fail", Package: "p"},
	} {
		s.take(e)
	}
	if err := s.verdict(true); err == nil || !strings.Contains(err.Error(), "p TestA") || strings.Contains(err.Error(), "TestB") || strings.Contains(err.Error(), "TestC") {
		t.Errorf("verdict %v, want p TestA named, which did not end", err)
	}
}

func TestRanOut(t *testing.T) {
	const progress = "fuzz: elapsed: 5s, execs: 83216 (16290/sec), new interesting: 1 (total: 81)\n"
	for _, tt := range []struct {
		name, output string
		want         bool
	}{
		{"its time ended", progress + "--- FAIL: FuzzX (5.08s)\n    context deadline exceeded\nFAIL\nexit status 1\n", true},
		{"an input", progress + "--- FAIL: FuzzX (1.08s)\n    --- FAIL: FuzzX (0.00s)\n        x_test.go:7: context deadline exceeded\n" +
			"    Failing input written to testdata/fuzz/FuzzX/0\nFAIL\n", false},
		{"the target says so itself", "--- FAIL: FuzzX (1.08s)\n    context deadline exceeded\n    and more\nFAIL\n", false},
		{"no build", "x.go:1:1: expected 'package'\nFAIL\n", false},
	} {
		if got := ranOut(tt.output); got != tt.want {
			t.Errorf("%s: %t", tt.name, got)
		}
	}
}

func TestLanes(t *testing.T) {
	tests := []test{
		{"baton/packet", "TestA", 1, false}, {"baton/router", "TestB", 1, false}, {"baton/router", "TestC", 4, false},
		{"baton/router", "FuzzD", 2, true}, {"baton/cmd/baton", "TestE", 4, false}, {"baton/datapath", "TestF", 3, false},
		{"baton/router/test", "TestG", 4, false},
	}
	both, last := makeLanes(tests)
	if got := strings.Join(both[0].packages, " "); got != "baton/router" || both[0].nice != 0 {
		t.Errorf("alone %q with nice %d, want baton/router with 0", got, both[0].nice)
	}
	if got := strings.Join(both[1].packages, " "); got != "baton/packet baton/cmd/baton baton/datapath" || both[1].nice == 0 {
		t.Errorf("beside %q with nice %d", got, both[1].nice)
	}
	if got := strings.Join(last.packages, " "); got != "baton/router/test" || last.nice == 0 {
		t.Errorf("last %q with nice %d, want baton/router/test with some", got, last.nice)
	}
	if len(both[0].fuzz) != 0 || len(both[1].fuzz) != 1 {
		t.Errorf("fuzz targets %v and %v, want the one beside", both[0].fuzz, both[1].fuzz)
	}
}
