package conformance

import (
	"slices"
	"testing"

	"baton/experiments/experimentstest"
	"baton/lab"
)

// brief are the cases that send single packets, and one of a group and one of a meter under load, which have half a minute each:
// the other 49 have the machine to themselves for so long, and are put by `baton-lab conformance`.
func (s *Suite) brief() []Case {
	var chosen []Case
	for _, c := range s.Cases {
		first := !slices.ContainsFunc(chosen, func(other Case) bool { return other.File == c.File })
		if c.Load == 0 || first && (c.File == "group/01_SELECT_Weight_IP" || c.File == "meter/01_DROP_00_KBPS_00_1M") {
			chosen = append(chosen, c)
		}
	}
	return chosen
}

// TestForwarder puts the suite to the forwarder, and what surprises once more by itself: the tester waits three seconds for a packet,
// and a busy machine may take longer.
func TestForwarder(t *testing.T) {
	lab.NeedRoot(t)
	suite := openSuite(t)
	program := experimentstest.Program(t)
	first := surprising(t, suite, suite.brief(), Options{Program: program})
	if len(first) == 0 {
		return
	}
	var again []Case
	for _, c := range suite.Cases {
		if first[c.String()] != "" {
			again = append(again, c)
			t.Logf("once more: %s", first[c.String()])
		}
	}
	for _, why := range surprising(t, suite, again, Options{Program: program, Benches: 1}) {
		t.Error(why)
	}
}

// surprising puts cases to the forwarder and tells which end otherwise than its list says, and how.
func surprising(t *testing.T, suite *Suite, cases []Case, o Options) map[string]string {
	t.Helper()
	o.Targets, o.Progress = []string{"baton"}, t.Output()
	r, err := Run(t.Context(), suite, cases, o)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Verdicts) != len(cases) {
		t.Errorf("%d verdicts of %d cases", len(r.Verdicts), len(cases))
	}
	surprises, listed, err := r.Surprises()
	if err != nil || len(listed) != 1 {
		t.Fatalf("lists %v, %v", listed, err)
	}
	how := map[string]string{}
	for _, s := range surprises {
		how[s.name()] = s.String()
	}
	return how
}
