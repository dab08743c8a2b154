package selftest_test

import (
	"bytes"
	"io"
	"slices"
	"strings"
	"testing"

	"baton/lab"
	"baton/lab/selftest"
)

// TestEmulator proves the emulator, with bounds that are wide enough for a machine which does other things beside, and with
// three tries: a machine that stands still for half a second is not the emulator's fault.
func TestEmulator(t *testing.T) {
	lab.NeedRoot(t)
	const wide, tries = 10, 3
	for try := 1; ; try++ {
		r, err := selftest.Run(t.Context(), io.Discard, true)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Checks) != 11 {
			t.Fatalf("%d checks, want 11", len(r.Checks))
		}
		var table bytes.Buffer
		if err := r.Write(&table); err != nil {
			t.Fatal(err)
		}
		t.Logf("\n%s%s", table.String(), r.Verdict())
		outside := slices.DeleteFunc(r.Checks, func(c selftest.Check) bool { return c.Within(wide) })
		if len(outside) == 0 {
			return
		}
		for _, c := range outside {
			t.Logf("%v: not even within %d times the bound", c, wide)
		}
		if try == tries {
			t.Fatal("the emulator does not do what it promises")
		}
	}
}

func TestVerdict(t *testing.T) {
	good := selftest.Check{Name: "speed", Value: 3, Unit: "Gbit/s", Bound: 2, AtLeast: true}
	bad := selftest.Check{Name: "error", Value: 150.4, Unit: "µs", Bound: 100}
	slow := bad
	slow.Alone = 120
	tests := []struct {
		name   string
		checks []selftest.Check
		want   string
	}{
		{"all pass", []selftest.Check{good}, "passed: all 1 checks of the link emulator are within bounds"},
		{"one fails", []selftest.Check{good, bad}, "FAILED: error 150 µs, want ≤ 100"},
		{"the machine would fail by itself", []selftest.Check{slow}, "FAILED: error 150 µs (without the emulator 120), want ≤ 100"},
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
