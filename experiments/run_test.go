package experiments

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"baton/lab"
)

// bench is a topology of one host, and what was done on it.
type bench struct {
	host *lab.Host
	done []string
}

func (b *bench) note(format string, args ...any) {
	b.done = append(b.done, fmt.Sprintf(format, args...))
}

// trial has two contenders, each a process that sleeps, and one measure. made is set to its bench.
func trial(made **bench) Experiment[*bench] {
	start := func(_ context.Context, t *Turn[*bench]) error {
		p, err := t.Topology.host.Start(lab.Program{Path: "sleep", Args: []string{"infinity"}})
		if err != nil {
			return err
		}
		t.Runs(p, "sleep/9.1")
		t.OnEnd(func() error { t.Topology.note("kill"); return p.Kill() })
		t.OnEnd(func() error { t.Topology.note("stop"); return nil })
		return nil
	}
	return Experiment[*bench]{
		Name: "trial", Question: "Who sleeps?", Cases: []Case{{Name: "x"}, {Name: "y", Quick: true}},
		Contenders: []Contender[*bench]{{Name: "a", Start: start}, {Name: "b"}},
		Measures: []Measure[*bench]{{Name: "speed", Unit: "m/s", Per: "metre",
			Warm: func(_ context.Context, t *Turn[*bench]) error { t.Topology.note("warm"); return nil },
			Take: func(_ context.Context, t *Turn[*bench]) (Sample, error) {
				t.Topology.note("take")
				return Sample{Value: 2, Work: 10, Errors: 1, First: "one fell"}, nil
			}}},
		Build: func(_ context.Context, s *Setup) (*bench, error) {
			*made = &bench{host: s.Lab.Host("h")}
			return *made, nil
		},
		Enter: func(_ context.Context, b *bench, c Case) error { b.note("enter %s", c.Name); return nil },
	}
}

func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	var b *bench
	var out strings.Builder
	r, err := trial(&b).Run(t.Context(), Options{Rounds: 2, Progress: &out})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, s := range r.Samples {
		order = append(order, fmt.Sprint(s.Round, s.Case, s.Contender))
		if s.Value != 2 || s.Errors != 1 || s.First != "one fell" || s.CPU == nil {
			t.Errorf("%+v", s)
		}
	}
	if diff := cmp.Diff([]string{"1xa", "1xb", "1ya", "1yb", "2xa", "2xb", "2ya", "2yb"}, order); diff != "" {
		t.Errorf("order of the samples (-want +got):\n%s", diff)
	}
	visit := []string{"warm", "take", "stop", "kill", "warm", "take"}
	want := slices.Concat([]string{"enter x"}, visit, []string{"enter y"}, visit)
	if diff := cmp.Diff(slices.Concat(want, want), b.done); diff != "" {
		t.Errorf("what was done (-want +got):\n%s", diff)
	}
	if r.Ended != Complete || r.Versions["sleep"] != "9.1" || r.Machine.Kernel == "" || r.Machine.Memory == 0 || r.Machine.Distribution == "" {
		t.Errorf("results %+v", r)
	}
	if n := strings.Count(out.String(), "\n"); n != len(order) || !strings.Contains(out.String(), "8/8  round 2 of 2, y, b, speed  about ") {
		t.Errorf("%d lines of progress:\n%s", n, out.String())
	}
}

func TestRunSkipsWhatAContenderIsNotAsked(t *testing.T) {
	lab.NeedRoot(t)
	var b *bench
	var out strings.Builder
	e := trial(&b)
	e.Contenders[0].Skips = func(c Case, measure string) bool { return c.Name == "x" && measure == "speed" }
	r, err := e.Run(t.Context(), Options{Rounds: 1, Progress: &out})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, s := range r.Samples {
		order = append(order, fmt.Sprint(s.Round, s.Case, s.Contender))
	}
	if diff := cmp.Diff([]string{"1xb", "1ya", "1yb"}, order); diff != "" {
		t.Errorf("samples (-want +got):\n%s", diff)
	}
	if want := []string{"enter x", "warm", "take", "enter y", "warm", "take", "stop", "kill", "warm", "take"}; !slices.Equal(want, b.done) {
		t.Errorf("what was done: %q, want %q", b.done, want)
	}
	if !strings.Contains(out.String(), "3/3  round 1 of 1, y, b, speed") {
		t.Errorf("progress:\n%s", out.String())
	}
}

func TestRunWithACaseThatIsAskedOnce(t *testing.T) {
	lab.NeedRoot(t)
	var b *bench
	var out strings.Builder
	e := trial(&b)
	e.Cases[1].Once = true
	r, err := e.Run(t.Context(), Options{Rounds: 3, Progress: &out})
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, s := range r.Samples {
		order = append(order, fmt.Sprint(s.Round, s.Case, s.Contender))
	}
	if diff := cmp.Diff([]string{"1xa", "1xb", "1ya", "1yb", "2xa", "2xb", "3xa", "3xb"}, order); diff != "" {
		t.Errorf("order of the samples (-want +got):\n%s", diff)
	}
	if !strings.Contains(out.String(), "8/8  round 3 of 3, x, b, speed") {
		t.Errorf("progress:\n%s", out.String())
	}
	if got, want := r.coverage(), r.Value("x", "a", "speed").Coverage; got != want {
		t.Errorf("intervals hold the median with %v, want %v: what is asked once has none", got, want)
	}
}

func TestQuickRun(t *testing.T) {
	lab.NeedRoot(t)
	var b *bench
	r, err := trial(&b).Run(t.Context(), Options{Quick: true})
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != 2 || r.Samples[0].Case != "y" || !r.Options.Quick {
		t.Errorf("%+v", r.Samples)
	}
}

// TestRunThatFails ends with one error that says where, keeps the samples before it, and leaves nothing: the lab's own check would
// be in the error.
func TestRunThatFails(t *testing.T) {
	lab.NeedRoot(t)
	broken := errors.New("broken")
	tests := []struct {
		name    string
		change  func(e *Experiment[*bench])
		want    string
		samples int
	}{
		{"a contender does not start", func(e *Experiment[*bench]) {
			e.Contenders[1].Start = func(context.Context, *Turn[*bench]) error { return broken }
		}, "trial, round 1, x, b, start: broken", 1},
		{"a builder of the lab fails", func(e *Experiment[*bench]) {
			e.Contenders[1].Start = func(_ context.Context, t *Turn[*bench]) error { t.Topology.host.Interface("eth7"); return nil }
		}, "trial, round 1, x, b, start: lab: host h: find interface eth7", 1},
		{"a measure fails", func(e *Experiment[*bench]) {
			e.Measures[0].Take = func(_ context.Context, t *Turn[*bench]) (Sample, error) { return Sample{}, broken }
		}, "trial, round 1, x, a, speed: broken", 0},
		{"a contender ends by itself", func(e *Experiment[*bench]) {
			e.Measures[0].Take = func(_ context.Context, t *Turn[*bench]) (Sample, error) {
				return Sample{}, errors.Join(broken, t.processes[0].Kill())
			}
		}, "trial, round 1, x, a, speed: broken\na process of the contender (", 0},
		{"a measure cannot warm up", func(e *Experiment[*bench]) {
			e.Measures[0].Warm = func(_ context.Context, t *Turn[*bench]) error { return broken }
		}, "trial, round 1, x, a, speed: warm up: broken", 0},
		{"no number", func(e *Experiment[*bench]) {
			e.Measures[0].Take = func(context.Context, *Turn[*bench]) (Sample, error) { return Sample{Value: math.NaN(), Work: 1}, nil }
		}, "trial, round 1, x, a, speed: value is NaN", 0},
		{"no work", func(e *Experiment[*bench]) {
			e.Measures[0].Take = func(context.Context, *Turn[*bench]) (Sample, error) { return Sample{Value: 1}, nil }
		}, "trial, round 1, x, a, speed: 0 metres were done: processor time cannot be divided by that", 0},
		{"a contender does not stop", func(e *Experiment[*bench]) {
			e.Contenders[1].Start = func(_ context.Context, t *Turn[*bench]) error { t.OnEnd(func() error { return broken }); return nil }
		}, "trial, round 1, x, b, stop: broken", 2},
		{"a case cannot be entered", func(e *Experiment[*bench]) {
			e.Enter = func(_ context.Context, b *bench, c Case) error {
				if c.Name == "y" {
					return broken
				}
				return nil
			}
		}, "trial, round 1, y: broken", 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var b *bench
			e := trial(&b)
			tt.change(&e)
			r, err := e.Run(t.Context(), Options{})
			if err == nil || !strings.HasPrefix(err.Error(), tt.want) || strings.Contains(err.Error(), "leak") {
				t.Errorf("error %v, want %q", err, tt.want)
			}
			if tt.samples == 0 {
				if r != nil {
					t.Errorf("results of nothing: %+v", r)
				}
				return
			}
			if r == nil || len(r.Samples) != tt.samples || r.Ended != Failed || !strings.HasPrefix("trial, "+r.Failure, tt.want) {
				t.Errorf("results %+v, want %d samples", r, tt.samples)
			}
		})
	}
}

// TestRunIsInterrupted: the samples until then are kept and say so, and nothing is left.
func TestRunIsInterrupted(t *testing.T) {
	lab.NeedRoot(t)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	var b *bench
	e := trial(&b)
	take, taken := e.Measures[0].Take, 0
	e.Measures[0].Take = func(ctx context.Context, t *Turn[*bench]) (Sample, error) {
		if taken++; taken == 4 {
			cancel(cause)
		}
		return take(ctx, t)
	}
	r, err := e.Run(ctx, Options{})
	if !errors.Is(err, cause) || strings.Contains(err.Error(), "leak") {
		t.Errorf("error %v, want %v", err, cause)
	}
	if r == nil || len(r.Samples) != 3 || r.Ended != Interrupted {
		t.Fatalf("results %+v, want 3 samples", r)
	}
	dir := t.TempDir()
	if err := r.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Report(dir, e.About()); err != nil {
		t.Fatal(err)
	}
	if back, err := Read(dir); err != nil || back.Ended != Interrupted || !strings.Contains(back.Markdown(e.About(), nil), "Interrupted") {
		t.Errorf("read back %+v, %v", back, err)
	}
}
