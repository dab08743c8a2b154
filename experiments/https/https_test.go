package https_test

import (
	"strings"
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/experiments/https"
	"baton/lab"
)

// TestRun runs all measures on every contender briefly: the figures mean nothing, but every response must be complete.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	r, err := https.Experiment().Run(t.Context(), experiments.Options{
		Quick: true, Duration: 100 * time.Millisecond, Program: experimentstest.Program(t), Progress: t.Output(),
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Samples), 4*len(r.Measures); got != want {
		t.Fatalf("%d samples, want %d", got, want)
	}
	for _, s := range r.Samples {
		if proxy := s.Contender == "haproxy" || s.Contender == "nginx"; s.Measure == "broken" {
			if proxy != (s.Value > 0) {
				t.Errorf("%+v", s)
			}
		} else if s.Value <= 0 || s.Errors != 0 || s.CPU == nil || s.Single == nil {
			t.Errorf("%+v", s)
		}
	}
	for _, c := range https.Experiment().About().Claims {
		if e, err := c.Ours(r); err != nil || e.Median <= 0 && !strings.Contains(c.What, "breaks") {
			t.Errorf("%s: %+v, %v", c.What, e, err)
		}
	}
}

// quick runs an experiment quickly; every sample must be without errors.
func quick(t *testing.T, e experiments.Experiment[*https.Stage], o experiments.Options) *experiments.Results {
	t.Helper()
	lab.NeedRoot(t)
	o.Quick, o.Program, o.Progress = true, experimentstest.Program(t), t.Output()
	r, err := e.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestHellos tries a few hundred hellos: Baton routes each right; so do its peers those that are whole, which is more than a tenth.
func TestHellos(t *testing.T) {
	for _, v6 := range []bool{false, true} {
		const n = 500
		r := quick(t, https.Hellos(), experiments.Options{Connections: n, IPv6: v6})
		for _, s := range r.Samples {
			switch {
			case s.Measure == "combinations" && s.Value != n, s.Measure == "routed right" && s.Contender == "baton" && s.Value != n,
				s.Measure == "routed right" && s.Value < n/10:
				t.Errorf("IPv6 %v: %+v", v6, s)
			}
		}
	}
}

// TestSupply: no session is refused, and few are decided by user space.
func TestSupply(t *testing.T) {
	r := quick(t, https.Supply(), experiments.Options{Connections: 500})
	for _, s := range r.Samples {
		if s.Measure == "failed" && s.Value != 0 || s.Measure == "session" && (s.Value <= 0 || s.CPU == nil || s.Errors != 0) {
			t.Errorf("%+v", s)
		}
	}
}

// TestOpen: sessions stay open, and answer again.
func TestOpen(t *testing.T) {
	r := quick(t, https.Open(), experiments.Options{})
	for _, s := range r.Samples {
		if s.Measure == "answer again" && (s.Value != 10_000 || s.Errors != 0) {
			t.Errorf("%+v", s)
		}
	}
}
