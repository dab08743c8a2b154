package kernels

import "testing"

// TestJudge: nothing passes that has shown nothing.
func TestJudge(t *testing.T) {
	tests := step{name: "s", pkg: "router", tests: "^TestX$"}
	for _, tt := range []struct {
		name, output         string
		status               int
		passed               bool
		ran, skipped, failed int
	}{
		{"passed", "=== RUN   TestX\n--- PASS: TestX (1.00s)\n    --- PASS: TestX/a (0.10s)\nPASS\n", 0, true, 1, 0, 0},
		{"failed", "--- FAIL: TestX (1.00s)\n    x_test.go:1: no\nFAIL\n", 1, false, 1, 0, 1},
		{"all skipped", "--- SKIP: TestX (0.00s)\n    x_test.go:1: SKIP ring 3: no BPF\nPASS\n", 0, false, 0, 1, 1},
		{"one skipped", "--- SKIP: TestY (0.00s)\n    x_test.go:1: no\n--- PASS: TestX (0.00s)\nPASS\n", 0, true, 1, 1, 0},
		{"no such test", "testing: warning: no tests to run\nPASS\n", 0, false, 0, 0, 1},
		{"a panic", "=== RUN   TestX\npanic: x\n", 2, false, 0, 0, 1},
	} {
		o := tests.judge(tt.output, tt.status)
		if o.Passed != tt.passed || o.Tests != tt.ran || len(o.Skipped) != tt.skipped || len(o.Failed) != tt.failed {
			t.Errorf("%s: %+v", tt.name, o)
		}
	}
	if o := tests.judge("--- SKIP: TestX (0.00s)\n    x_test.go:1: SKIP ring 3: no BPF\n", 0); len(o.Skipped) != 1 || o.Skipped[0] != "TestX: SKIP ring 3: no BPF" {
		t.Errorf("the reason of a skip: %q", o.Skipped)
	}
}
