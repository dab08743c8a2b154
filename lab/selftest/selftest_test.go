package selftest_test

import (
	"bytes"
	"io"
	"strings"
	"testing"

	"baton/lab"
	"baton/lab/selftest"
)

// TestEmulator proves the emulator, with bounds so wide that a machine which does other things beside may meet them.
func TestEmulator(t *testing.T) {
	lab.NeedRoot(t)
	r, err := selftest.Run(t.Context(), io.Discard, true)
	if err != nil {
		t.Fatal(err)
	}
	var table bytes.Buffer
	if err := r.Write(&table); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s%s", table.String(), r.Verdict())
	if len(r.Checks) != 11 {
		t.Errorf("%d checks, want 11", len(r.Checks))
	}
	const wide = 10
	for _, c := range r.Checks {
		if !c.Within(wide) {
			t.Errorf("%v: not even within %d times the bound", c, wide)
		}
	}
}

func TestVerdict(t *testing.T) {
	good := selftest.Check{Name: "speed", Value: 3, Unit: "Gbit/s", Bound: 2, AtLeast: true}
	bad := selftest.Check{Name: "error", Value: 150.4, Unit: "µs", Bound: 100}
	tests := []struct {
		name   string
		checks []selftest.Check
		want   string
	}{
		{"all pass", []selftest.Check{good}, "passed: all 1 checks of the link emulator are within bounds"},
		{"one fails", []selftest.Check{good, bad}, "FAILED: error 150 µs, want ≤ 100"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := selftest.Result{Checks: tt.checks}
			if got := r.Verdict(); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			var b strings.Builder
			if err := r.Write(&b); err != nil || strings.Count(b.String(), "\n") != len(tt.checks)+1 {
				t.Errorf("table:\n%s%v", b.String(), err)
			}
		})
	}
}
