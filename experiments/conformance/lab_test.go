package conformance

import (
	"testing"

	"baton/experiments/experimentstest"
	"baton/lab"
)

// sample takes a case of each file that sends single packets, another one from file to file, so that all kinds of answers and
// packets occur; and a group and a meter under load, which have half a minute each.
func (s *Suite) sample() []Case {
	byFile, order := map[string][]Case{}, []string{}
	for _, c := range s.Cases {
		if byFile[c.File] == nil {
			order = append(order, c.File)
		}
		byFile[c.File] = append(byFile[c.File], c)
	}
	var chosen []Case
	for i, f := range order {
		switch cases := byFile[f]; {
		case cases[0].Load == 0:
			chosen = append(chosen, cases[i%len(cases)])
		case f == "group/01_SELECT_Weight_IP", f == "meter/01_DROP_00_KBPS_00_1M":
			chosen = append(chosen, cases[0])
		}
	}
	return chosen
}

// TestSample puts a part of the suite to the forwarder.
func TestSample(t *testing.T) {
	lab.NeedRoot(t)
	suite := openSuite(t)
	program := experimentstest.Program(t)
	cases := suite.sample()
	r, err := Run(t.Context(), suite, cases, Options{Targets: []string{"baton"}, Program: program, Progress: t.Output()})
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
	for _, s := range surprises {
		t.Error(s)
	}
}
