package cdn

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"baton/experiments/experimentstest"
	"baton/lab"
)

// programs builds baton and baton-cdn side by side, and returns the path of baton.
func programs(t *testing.T) string {
	t.Helper()
	baton := experimentstest.Program(t)
	beside := filepath.Join(filepath.Dir(baton), "baton-cdn")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-p", "1", "-o", beside, "baton/cmd/baton-cdn").CombinedOutput(); err != nil {
		t.Fatalf("build baton-cdn: %v\n%s", err, out)
	}
	return baton
}

const examples = "../../examples/cdn"

func TestDemo(t *testing.T) {
	lab.NeedRoot(t)
	program := programs(t)
	for _, tt := range []struct {
		name string
		Options
	}{
		{"three forwarders", Options{Controller: true}},
		{"Open vSwitch at the access", Options{Controller: true, OpenVSwitch: true}},
		{"learning bridges", Options{}},
		{"ten forwarders with flow entries", Options{Forwarders: 10, Static: true}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			o := DemoOptions{Options: tt.Options}
			o.Program, o.Examples, o.Progress = program, examples, t.Output()
			var commands []Command
			o.Keep = func(_ *Report, c []Command) {
				commands = c
				if out, err := exec.CommandContext(t.Context(), "sh", "-c", c[0].Line).CombinedOutput(); err != nil || !strings.Contains(string(out), "X-Surrogate: se") {
					t.Errorf("%s: %v\n%s", c[0].Line, err, out)
				}
			}
			r, err := Demo(t.Context(), o)
			if r == nil {
				t.Fatal(err)
			}
			var text strings.Builder
			r.Text(&text)
			if err != nil || len(r.Checks) < 8 || len(commands) == 0 {
				t.Errorf("%v, %d checks, %d commands\n%s", err, len(r.Checks), len(commands), text.String())
			}
			if r.Up > time.Minute {
				t.Errorf("up after %v", r.Up)
			}
			if tt.Controller && (len(r.Topology.Switches) != 3 || len(r.Topology.Hosts) < 6) {
				t.Errorf("topology %+v", r.Topology)
			}
		})
	}
}
