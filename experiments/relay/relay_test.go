package relay_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/experiments/relay"
	"baton/lab"
)

// TestRun asks briefly, and some of the contenders: the figures mean little, but every byte is checked, settings that are not in force are
// an error, and nothing can come sooner than the path is long.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Program(t)
	const roundTrip = 265 // ms
	tests := []struct {
		of         experiments.Experiment[*relay.Path]
		contenders []string
		cases      []string
		least      map[string]map[string]float64 // measure → contender → ms
	}{
		{of: relay.Experiment(), contenders: []string{"e2e", "ssh", "haproxy", "nginx", "trunks", "ideal"}, least: map[string]map[string]float64{
			"first byte": {"e2e": 2 * roundTrip, "ssh": 2 * roundTrip, "trunks": roundTrip + 25, "ideal": roundTrip}}},
		{of: relay.FirstByte(), contenders: []string{"routed", "early"}, least: map[string]map[string]float64{
			"new connection": {"routed": 2 * roundTrip, "early": roundTrip + 215}, "open connection": {"routed": roundTrip, "early": roundTrip}}},
		{of: relay.Weak(), contenders: []string{"turbo"}},
		{of: relay.Chain(), contenders: []string{"turbo"}, cases: []string{"three, the third at a quarter"}},
		{of: relay.Fairness(), contenders: []string{"twin", "bbr"}, cases: []string{"inside the cloud"}},
	}
	for _, tt := range tests {
		t.Run(tt.of.Name, func(t *testing.T) {
			r, err := tt.of.Run(t.Context(), experiments.Options{Quick: true, Duration: 2 * time.Second, Contenders: tt.contenders, Cases: tt.cases,
				Program: program, Progress: t.Output()})
			if err != nil {
				t.Fatal(err)
			}
			if got, want := len(r.Samples), len(r.Cases)*len(tt.contenders)*len(tt.of.Measures); got != want {
				t.Fatalf("%d samples, want %d", got, want)
			}
			for _, s := range r.Samples {
				if least := tt.least[s.Measure][s.Contender]; s.Errors != 0 || s.Value < max(least, 0.001) {
					t.Errorf("%s of %s: %v, %d errors (%s); want %v at least", s.Measure, s.Contender, s.Value, s.Errors, s.First, least)
				}
			}
		})
	}
}
