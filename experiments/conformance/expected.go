package conformance

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strings"
)

// lists are the cases that each target is expected to fail: failures/<target>.txt.
//
//go:embed failures/*.txt
var lists embed.FS

// Expected is a case that is expected to fail, and why.
type Expected struct {
	Reason string
	Either bool // it may pass: what decides is outside of the target's hands
}

// Expectations are the cases that a target is expected to fail.
type Expectations map[string]Expected // by the case's String

// Expect reads the list of a target: without one, nothing is expected of it, and ok is false.
func Expect(target string, suite *Suite) (e Expectations, ok bool, err error) {
	name := "failures/" + target + ".txt"
	text, err := lists.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	} else if err != nil {
		return nil, false, err
	}
	e, err = parseExpectations(name, string(text), suite.Cases)
	return e, true, err
}

// parseExpectations reads a list. A line that begins with "# " is the reason of the lines that follow: "FILE: CASE", or "FILE: *"
// for all cases of the file; "? " before it says that the case may pass. Lines that begin with "#:" are remarks.
func parseExpectations(name, text string, cases []Case) (Expectations, error) {
	known, files := map[string]bool{}, map[string][]string{}
	for _, c := range cases {
		known[c.String()] = true
		files[c.File] = append(files[c.File], c.String())
	}
	list, reason := Expectations{}, ""
	for i, line := range strings.Split(text, "\n") {
		fault := func(why string) error { return fmt.Errorf("%s:%d: %s", name, i+1, why) }
		line = strings.TrimSpace(line)
		switch {
		case line == "" || strings.HasPrefix(line, "#:"):
			continue
		case strings.HasPrefix(line, "#"):
			reason = strings.TrimSpace(line[1:])
			continue
		case reason == "":
			return nil, fault("a case without a reason above it")
		}
		name, either := strings.CutPrefix(line, "? ")
		meant := []string{name}
		if file, all := strings.CutSuffix(name, ": *"); all {
			meant = files[file]
		}
		if len(meant) == 0 || !known[meant[0]] {
			return nil, fault(fmt.Sprintf("%q is no case of the suite", name))
		}
		for _, c := range meant {
			if _, twice := list[c]; twice {
				return nil, fault(fmt.Sprintf("%q is in the list twice", c))
			}
			list[c] = Expected{reason, either}
		}
	}
	return list, nil
}

// Surprise is a verdict that is not the expected one.
type Surprise struct {
	Verdict
	Expected string // why it was expected to fail; empty: it was not
}

func (s Surprise) String() string {
	if s.OK {
		return fmt.Sprintf("%s: passes %s: take it out of the list (%s)", s.Target, s.name(), s.Expected)
	}
	return fmt.Sprintf("%s: fails %s: %s", s.Target, s.name(), s.Reason)
}

// surprises are the verdicts that differ from what is expected.
func (e Expectations) surprises(verdicts []Verdict) []Surprise {
	var found []Surprise
	for _, v := range verdicts {
		x, listed := e[v.name()]
		if v.OK == listed && !x.Either {
			found = append(found, Surprise{v, x.Reason})
		}
	}
	return found
}
