package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// schema is the version of results.json. A field that is added does not change it.
const schema = 1

// Names of the files of a run.
const (
	resultsFile = "results.json"
	reportFile  = "README.md"
)

// Results are what a run has seen.
type Results struct {
	Schema    int          `json:"schema"`
	Suite     string       `json:"suite"` // "os-ken 3.1.1"
	Unpatched bool         `json:"unpatched,omitempty"`
	Whole     bool         `json:"whole"` // all cases of the suite were put
	Began     time.Time    `json:"began"`
	Took      float64      `json:"took_seconds"`
	Failure   string       `json:"failure,omitempty"` // why the run ended early
	Kernel    string       `json:"kernel"`
	Targets   []TargetInfo `json:"targets"`
	Verdicts  []Verdict    `json:"verdicts"` // by target, in the suite's order

	cases []Case // that were put
	suite *Suite
}

// TargetInfo is a target as the report names it.
type TargetInfo struct {
	Name    string  `json:"name"`
	Is      string  `json:"is"`
	Version string  `json:"version"`
	Seconds float64 `json:"seconds"` // that its cases took, its benches' making included
}

// Verdict is what the tester says of a case.
type Verdict struct {
	Target  string  `json:"target"`
	File    string  `json:"file"`
	Case    string  `json:"case"`
	OK      bool    `json:"ok"`
	Reason  string  `json:"reason,omitempty"` // why not
	Seconds float64 `json:"seconds"`
}

func (v Verdict) name() string { return v.File + ": " + v.Case }

func newResults(suite *Suite, cases []Case, o Options) *Results {
	r := &Results{Schema: schema, Suite: "os-ken " + suite.Version, Unpatched: o.Unpatched, Whole: len(cases) == len(suite.Cases),
		Began: time.Now().UTC().Round(time.Second), cases: cases, suite: suite}
	var uts unix.Utsname
	if unix.Uname(&uts) == nil {
		r.Kernel = unix.ByteSliceToString(uts.Release[:])
	}
	return r
}

// add takes the verdicts of a target, in any order.
func (r *Results) add(t TargetInfo, verdicts []Verdict, cases []Case) {
	place := map[string]int{}
	for i, c := range cases {
		place[c.String()] = i
	}
	slices.SortFunc(verdicts, func(a, b Verdict) int { return place[a.name()] - place[b.name()] })
	r.Targets = append(r.Targets, t)
	r.Verdicts = append(r.Verdicts, verdicts...)
}

func (r *Results) finish(err error) {
	r.Took = time.Since(r.Began).Round(time.Second).Seconds()
	if err != nil {
		r.Failure = err.Error()
	}
}

// of are the verdicts of a target.
func (r *Results) of(target string) []Verdict {
	var found []Verdict
	for _, v := range r.Verdicts {
		if v.Target == target {
			found = append(found, v)
		}
	}
	return found
}

// expected is the list of a target, with what no switch can pass in the suite as it was put; ok is false where it has none.
func (r *Results) expected(target string) (e Expectations, ok bool, err error) {
	if e, ok, err = Expect(target, r.suite); err != nil || !ok || !r.Unpatched {
		return e, ok, err
	}
	wrong, _, err := Expect("unpatched", r.suite)
	for c, x := range wrong {
		e[c] = x
	}
	return e, true, err
}

// Surprises are the verdicts that are not what the lists of the targets expect, and the targets that have a list. Cases that
// were not put surprise no one.
func (r *Results) Surprises() (found []Surprise, listed []string, err error) {
	for _, t := range r.Targets {
		e, ok, err := r.expected(t.Name)
		if err != nil {
			return nil, nil, err
		}
		if ok {
			listed = append(listed, t.Name)
			found = append(found, e.surprises(r.of(t.Name))...)
		}
	}
	return found, listed, nil
}

// Write writes results.json and the report into a folder and returns the files.
func (r *Results) Write(dir string) ([]string, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("write results: %w", err)
	}
	text, err := json.MarshalIndent(r, "", "\t")
	if err != nil {
		return nil, fmt.Errorf("write results: %w", err)
	}
	report, err := r.Markdown()
	if err != nil {
		return nil, fmt.Errorf("write report: %w", err)
	}
	files := []string{filepath.Join(dir, resultsFile), filepath.Join(dir, reportFile)}
	return files, errors.Join(os.WriteFile(files[0], append(text, '\n'), 0o644), os.WriteFile(files[1], []byte(report), 0o644))
}

// Text is the run in a few lines: what passed, and what was not expected.
func (r *Results) Text() (string, error) {
	var b strings.Builder
	for _, t := range r.Targets {
		verdicts := r.of(t.Name)
		fmt.Fprintf(&b, "%s (%s): %d of %d cases pass, %.0f s\n", t.Name, t.Version, passed(verdicts), len(verdicts), t.Seconds)
	}
	surprises, _, err := r.Surprises()
	for _, s := range surprises {
		fmt.Fprintln(&b, s)
	}
	return b.String(), err
}

func passed(verdicts []Verdict) int {
	n := 0
	for _, v := range verdicts {
		if v.OK {
			n++
		}
	}
	return n
}
