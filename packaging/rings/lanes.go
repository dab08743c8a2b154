package main

import (
	"cmp"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"sync"
	"time"
)

// A lane runs packages one after another. Two lanes run at once: tests that measure time in a lab network must not compete for the machine,
// but they leave half of it idle while they wait. Tests that only compute use that half, at a priority that does not disturb them.
type lane struct {
	packages []string
	fuzz     []test
	nice     int
	cached   bool // tests that passed before and are unchanged count as passed
}

// judgesByResult are packages with lab tests that check results, not times, and so may run in parallel to others.
var judgesByResult = []string{
	"baton/cmd/baton",
	"baton/dashboard",
	"baton/experiments/conformance",
	"baton/packaging/kernels",
	"baton/packaging/packages",
}

// judgesLast are packages with lab tests that check results, not times, and take so long that the lanes end together
// when the lane that ends first runs them.
var judgesLast = []string{"baton/router/test"}

// makeLanes divides the packages that have tests into two lanes and what runs when one of them has ended.
func makeLanes(tests []test) (both [2]lane, last lane) {
	timed, beside := lane{}, lane{nice: 15}
	last = lane{nice: 15}
	lab := map[string]bool{}
	for _, t := range tests {
		if t.ring == 4 && !slices.Contains(judgesByResult, t.pkg) {
			lab[t.pkg] = true
		}
	}
	for _, t := range tests {
		if t.ring == 5 { // a package that has no other test need not be compiled
			continue
		}
		to := &beside.packages
		switch {
		case slices.Contains(judgesLast, t.pkg):
			to = &last.packages
		case lab[t.pkg]:
			to = &timed.packages
		}
		if !slices.Contains(*to, t.pkg) {
			*to = append(*to, t.pkg)
		}
		if t.fuzz {
			beside.fuzz = append(beside.fuzz, t)
		}
	}
	return [2]lane{timed, beside}, last
}

func (l lane) command(args ...string) *exec.Cmd {
	cmd := goCommand(args...)
	if l.nice > 0 {
		cmd = exec.Command("nice", append([]string{"-n", strconv.Itoa(l.nice)}, cmd.Args...)...)
	}
	cmd.Stderr = os.Stderr
	return cmd
}

// run runs the lane's tests, then its fuzz targets.
func (l lane) run(s *summary, skip string) error {
	if err := l.runTests(s, skip); err != nil {
		return err
	}
	for _, t := range l.fuzz {
		began := time.Now()
		out, err := l.fuzzTarget(t)
		s.fuzzEnds(t, out, err, time.Since(began))
	}
	return nil
}

// runTests runs the tests of the lane's packages.
func (l lane) runTests(s *summary, skip string) error {
	for _, m := range modules {
		packages := slices.DeleteFunc(slices.Clone(l.packages), func(pkg string) bool { return moduleOf(pkg) != m })
		if len(packages) == 0 {
			continue
		}
		args := []string{"test", "-C", m, "-json", "-timeout=" + packageTimeout.String(), "-skip=" + skip}
		if !l.cached {
			args = append(args, "-count=1", "-p=1")
		}
		if err := s.goTest(l.command(append(args, packages...)...)); err != nil {
			return err
		}
	}
	return nil
}

// fuzzTarget runs one target for a short time; its seeds have run with the tests. It tries again when nothing but the time ran out.
func (l lane) fuzzTarget(t test) (out []byte, err error) {
	for range 3 {
		cmd := l.command("test", "-C", moduleOf(t.pkg), "-run=^$", "-fuzz=^"+t.name+"$", "-fuzztime="+fuzzTime.String(), "-fuzzminimizetime=1x", "-parallel=1", t.pkg)
		cmd.Stderr = nil
		if out, err = cmd.CombinedOutput(); err == nil || !ranOut(string(out)) {
			return out, err
		}
	}
	return out, err
}

// runLanes runs both at once, and the last packages when one has ended. It returns the first error.
func runLanes(both [2]lane, last lane, s *summary, skip string) error {
	var errs [3]error
	var running sync.WaitGroup
	var oneHasEnded sync.Once
	for i, l := range both {
		running.Go(func() {
			errs[i] = l.run(s, skip)
			oneHasEnded.Do(func() { errs[2] = last.runTests(s, skip) })
		})
	}
	running.Wait()
	return cmp.Or(errs[:]...)
}

// check runs the chosen tests. Of packages that have others, those are skipped by name.
func check(tests []test, s *summary, isChosen func(test) bool) error {
	wanted, mixed := map[string]bool{}, map[string]bool{}
	for _, t := range tests {
		if isChosen(t) {
			wanted[t.pkg] = true
		} else {
			mixed[t.pkg] = true
		}
	}
	var others []test
	pure, rest := lane{cached: true}, lane{cached: true}
	for _, t := range tests {
		if wanted[t.pkg] && !isChosen(t) {
			others = append(others, t)
		}
		to := &pure
		if mixed[t.pkg] {
			to = &rest
		}
		if wanted[t.pkg] && !slices.Contains(to.packages, t.pkg) {
			to.packages = append(to.packages, t.pkg)
		}
	}
	if err := pure.run(s, "$^"); err != nil {
		return err
	}
	return rest.run(s, pattern(others))
}
