package cdn

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"
	"time"

	"baton/experiments/experimentstest"
	"baton/lab"
)

const examples = "../../examples/cdn"

func TestDemo(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Programs(t)
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

// In native mode the controller may be killed: sessions go on, requests are served, and the next controller finds its flow entries.
func TestControllerIsKilled(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Programs(t)
	err := lab.Run(t.Output(), func(l *lab.Lab) error {
		n, err := Build(t.Context(), l, Options{Program: program, Examples: examples, Controller: true})
		if err != nil {
			return err
		}
		content, err := n.content()
		if err != nil {
			return err
		}
		all := func(when string) {
			t.Helper()
			r := &Report{}
			if err := n.gallery(t.Context(), r, content); err != nil {
				t.Fatalf("%s: %v", when, err)
			}
			for _, c := range r.Checks {
				if !c.OK {
					t.Errorf("%s: %s: %s", when, c.Text, c.Said)
				}
			}
		}
		all("before")
		const url = "http://" + Site + "/images/12.png"
		before, err := n.handoffs(t.Context())
		if err != nil {
			return err
		}
		// A session with a second request after three seconds, when there is no controller any more.
		long, err := n.Clients[0].Start(lab.Program{Path: "curl", Args: []string{"-s", "--rate", "20/m", "-w", "%{http_code} %{num_connects}\\n",
			"-o", "/dev/null", url, "-o", "/dev/null", url}})
		if err != nil {
			return err
		}
		lab.Eventually(t, patience, func() error {
			if now, err := n.handoffs(t.Context()); err != nil || now == before {
				return fmt.Errorf("the first request has no surrogate yet: %v", err)
			}
			return nil
		})
		if err := n.Controller.Kill(); err != nil {
			return err
		}
		if err := long.Wait(t.Context()); err != nil || long.Stdout() != "200 1\n200 0\n" {
			t.Errorf("the session across it: %v, %q", err, long.Stdout())
		}
		all("without a controller")
		if err := n.Replace(t.Context(), nil); err != nil {
			return err
		}
		all("with the next controller")
		r := &Report{}
		if err := n.reactive(t.Context(), r, content); err != nil {
			return err
		}
		for _, c := range r.Checks {
			if !c.OK {
				t.Errorf("with the next controller: %s: %s", c.Text, c.Said)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
