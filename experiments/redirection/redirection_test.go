package redirection

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// TestRun has all contenders take all measures that a short line has, by turns with Open vSwitch at the access, and looks at what must hold however
// busy the machine is.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Programs(t)
	r, err := Experiment().Run(t.Context(), experiments.Options{Quick: true, Cases: []string{vswitch}, Program: program, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	value := func(contender, measure string) float64 {
		v := r.Value(vswitch, contender, measure)
		if v.Rounds == 0 {
			t.Errorf("%s of %s was not measured", measure, contender)
		}
		return v.Median
	}
	for _, s := range r.Samples {
		if s.Value <= 0 || s.Errors != 0 {
			t.Errorf("%+v", s)
		}
	}
	for _, c := range contenders() {
		for _, m := range measures() {
			if !c.Skips(experiments.Case{Name: vswitch}, m.Name) {
				value(c.Name, m.Name)
			}
		}
	}
	// Seven flow mods, as in the paper, two for the client's FIN and RST and one at its FIN, and two removals.
	if got := value(reactive, mods); got != 12 {
		t.Errorf("%v flow mods of a handoff", got)
	}
	if got := value(anew, mods); got < 12+4 {
		t.Errorf("%v flow mods of a handoff, of which the paths over three forwarders are installed anew", got)
	}
	for _, c := range []string{native, reactive} {
		if got := value(c, killed); got != 100 {
			t.Errorf("%s: %v %% of requests were answered when the controller was killed", c, got)
		}
	}
	if text := flowMods(r); text != "" {
		t.Errorf("flow mods without a line's length: %s", text)
	}
}

func TestEdit(t *testing.T) {
	folder := filepath.Join("..", "..", "examples", "cdn")
	for file, want := range map[string][]string{
		"router.yaml": {"http://10.11.0.11"}, "controller.yaml": {tracked, "se1: {"}, "surrogate.conf": {"max_size=4g"},
	} {
		text, err := os.ReadFile(filepath.Join(folder, file))
		if err != nil {
			t.Fatal(err)
		}
		got := edit(file, string(text))
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s has no %q:\n%s", file, w, got)
			}
		}
		if file != "surrogate.conf" && strings.Contains(got, "10.11.0.12") {
			t.Errorf("%s has the second surrogate:\n%s", file, got)
		}
	}
}
