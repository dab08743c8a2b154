package longpath_test

import (
	"testing"
	"time"

	"baton/experiments"
	"baton/experiments/experimentstest"
	"baton/experiments/longpath"
	"baton/lab"
)

// TestRun asks briefly for one case: the figures mean little, but the path must be as long as it says, and a client without
// options must get what its window allows.
func TestRun(t *testing.T) {
	lab.NeedRoot(t)
	path := experimentstest.Program(t)
	e := longpath.Experiment()
	const kase = "rtt 50 ms, loss 0 %"
	r, err := e.Run(t.Context(), experiments.Options{Quick: true, Duration: 2 * time.Second, Cases: []string{kase},
		Contenders: []string{"direct", "stripped", "redirect", "baton-bbr"}, Program: path, Progress: t.Output()})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range r.Samples {
		if s.Value <= 0 || s.Errors != 0 {
			t.Errorf("%+v", s)
		}
	}
	value := func(contender, measure string) float64 {
		v := r.Value(kase, contender, measure)
		if v.Rounds == 0 {
			t.Errorf("%s of %s was not measured", measure, contender)
		}
		return v.Median
	}
	const first = "time to first byte"
	for contender, trips := range map[string]float64{"direct": 2, "baton-bbr": 2, "stripped": 2, "redirect": 4} {
		if got := value(contender, first); got < trips*50 || got > trips*50+45 {
			t.Errorf("%s: first byte after %.1f ms, want %v round trips of 50 ms", contender, got, trips)
		}
	}
	// 64 KiB in each round trip are 10.5 Mbit/s.
	if got := value("stripped", "download"); got > 12 {
		t.Errorf("without window scale: %.1f Mbit/s; want 10.5 at most", got)
	}
}
