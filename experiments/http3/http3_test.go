package http3

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/lab"
)

// TestRun takes the measures of costs briefly: the figures mean nothing, but every response must be complete.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	r, err := Experiment().Run(t.Context(), experiments.Options{
		Quick: true, Duration: 100 * time.Millisecond, Program: experimentstest.Program(t), Progress: t.Output(), Cases: []string{costs, restart},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := len(r.Samples), 3*2+3; got != want {
		t.Errorf("%d samples, want %d", got, want)
	}
	for _, s := range r.Samples {
		switch {
		case s.Measure == "broken" && s.Contender != "nginx" && s.Value != 0: // nginx's sessions end with it
			t.Errorf("%s: %v downloads are broken: %s", s.Contender, s.Value, s.First)
		case s.Case == costs && (s.Value <= 0 || s.CPU == nil):
			t.Errorf("%+v", s)
		}
	}
	for _, c := range Experiment().About().Claims[1:] { // the first is of the matrix
		if _, err := c.Ours(r); err != nil {
			t.Errorf("%s: %v", c.What, err)
		}
	}
}

// TestInterop tries through Baton what clients and servers offer: each of them but Chromium, which takes seconds for each situation, at least once. What
// fails is tried again: a datagram may be lost at a moment when neither side would say more. It is a failure when it fails twice.
func TestInterop(t *testing.T) {
	lab.NeedRoot(t)
	o := experiments.Options{Quick: true, Program: experimentstest.Program(t), Progress: t.Output(), Contenders: []string{"baton"}, Cases: []string{
		pair("quic-go", "quic-go"), pair("quic-go", "aioquic"), pair("quic-go", "caddy"), pair("aioquic", "quic-go"), pair("aioquic", "aioquic"), pair("curl", "quic-go"),
	}}
	first := failing(t, o)
	o.Cases = nil
	for c := range first {
		o.Cases = append(o.Cases, c)
	}
	if len(o.Cases) == 0 {
		return
	}
	for c, failed := range failing(t, o) {
		for situation, why := range failed {
			if before, twice := first[c][situation]; twice {
				t.Errorf("%s: %s: %s; before: %s", c, situation, why, before)
			}
		}
	}
}

// failing gives why situations failed, by case and situation.
func failing(t *testing.T, o experiments.Options) map[string]map[string]string {
	t.Helper()
	r, err := Experiment().Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Samples) != len(o.Cases) {
		t.Errorf("%d samples, want %d", len(r.Samples), len(o.Cases))
	}
	failed := make(map[string]map[string]string)
	for _, s := range r.Samples {
		if len(s.Also)+len(s.Notes) < len(situations) || s.Value < 6 { // of Caddy
			t.Errorf("%s: %d situations tried, %d not offered", s.Case, len(s.Also), len(s.Notes))
		}
		for situation, ok := range s.Also {
			if ok > 0 {
				continue
			}
			t.Logf("failed: %s: %s: %s", s.Case, situation, s.Notes[situation])
			if failed[s.Case] == nil {
				failed[s.Case] = make(map[string]string)
			}
			failed[s.Case][situation] = s.Notes[situation]
		}
	}
	t.Log(matrix(r))
	return failed
}
