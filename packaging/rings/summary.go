package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"
)

var ringNames = []string{1: "pure", 2: "wire (fuzzing)", 3: "kernel programs", 4: "lab", 5: "long"}

// tally is what became of the tests of one ring; subtests count with their test.
type tally struct {
	passed, failed, skipped int
	reasons                 []string // of skips, each once
}

type summary struct {
	rings    map[[2]string]int // package and test → ring
	tallies  [6]tally
	packages []string
	failures []string
	output   map[[2]string][]string
	lock     sync.Mutex // of all of it: two lanes report at once
}

func newSummary(tests []test) *summary {
	s := &summary{rings: map[[2]string]int{}, output: map[[2]string][]string{}}
	for _, t := range tests {
		s.rings[[2]string{t.pkg, t.name}] = t.ring
	}
	return s
}

// event is a line of `go test -json` (cmd/test2json).
type event struct {
	Action, Package, Test, Output string
	ImportPath                    string // of a build's output
	Elapsed                       float64
}

func (s *summary) goTest(cmd *exec.Cmd) error {
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("go test: %w", err)
	}
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			fmt.Println(lines.Text())
			continue
		}
		s.take(e)
	}
	failed := cmd.Wait()
	if err := lines.Err(); err != nil {
		return fmt.Errorf("read go test: %w", err)
	}
	s.lock.Lock()
	defer s.lock.Unlock()
	if failed != nil && len(s.failures) == 0 {
		return fmt.Errorf("go test: %w", failed)
	}
	return nil
}

func (s *summary) take(e event) {
	s.lock.Lock()
	defer s.lock.Unlock()
	key := [2]string{e.Package, e.Test}
	switch e.Action {
	case "output", "build-output":
		if e.Action == "build-output" {
			fmt.Print(e.Output)
		}
		s.output[key] = append(s.output[key], e.Output)
	case "pass", "fail", "skip":
		if e.Test == "" {
			s.packageEnds(e)
			return
		}
		s.testEnds(e, key)
	}
}

func (s *summary) packageEnds(e event) {
	key := [2]string{e.Package, ""}
	switch e.Action {
	case "pass":
		fmt.Printf("ok    %-28s %6.1f s\n", e.Package, e.Elapsed)
		s.packages = append(s.packages, e.Package)
	case "fail":
		fmt.Printf("FAIL  %-28s %6.1f s\n%s", e.Package, e.Elapsed, strings.Join(s.output[key], ""))
		s.packages = append(s.packages, e.Package)
		cut := s.cutShort(e.Package)
		// Named only when none of its tests explains it: a build failure, a panic, a timeout.
		if !slices.ContainsFunc(s.failures, func(f string) bool { return strings.HasPrefix(f, e.Package+" ") }) {
			s.failures = append(s.failures, strings.TrimSpace(e.Package+" "+strings.Join(cut, " ")))
		}
	}
}

// cutShort prints what the tests said that had not ended when their package did: the stacks of a timeout are theirs.
func (s *summary) cutShort(pkg string) []string {
	var names []string
	for key := range s.output {
		if key[0] == pkg && key[1] != "" {
			names = append(names, key[1])
		}
	}
	slices.Sort(names)
	for _, name := range names {
		fmt.Printf("CUT   %s %s\n%s", pkg, name, strings.Join(s.output[[2]string{pkg, name}], ""))
	}
	return names
}

func (s *summary) testEnds(e event, key [2]string) {
	top, _, sub := strings.Cut(e.Test, "/")
	ring := s.rings[[2]string{e.Package, top}]
	if ring == 0 {
		ring = 1 // an example
	}
	t := &s.tallies[ring]
	switch e.Action {
	case "pass":
		if !sub {
			t.passed++
		}
	case "fail":
		fmt.Printf("FAIL  %s %s\n%s", e.Package, e.Test, strings.Join(s.output[key], ""))
		if !sub {
			t.failed++
			s.failures = append(s.failures, e.Package+" "+e.Test)
		}
	case "skip":
		t.skipped++
		if r := reason(s.output[key]); !slices.Contains(t.reasons, r) {
			t.reasons = append(t.reasons, r)
		}
	}
	delete(s.output, key)
}

// reason is what the test said when it skipped: its last line but for the runner's.
func reason(output []string) string {
	said := "no reason given"
	for _, line := range output {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			said = line
		}
	}
	if _, text, found := strings.Cut(said, ".go:"); found {
		if _, text, found = strings.Cut(text, ": "); found {
			said = text
		}
	}
	return said
}

func (s *summary) fuzzEnds(t test, out []byte, err error, took time.Duration) {
	s.lock.Lock()
	defer s.lock.Unlock()
	if err != nil {
		fmt.Printf("FAIL  %s %s\n%s", t.pkg, t.name, out)
		s.tallies[2].failed++
		s.failures = append(s.failures, t.pkg+" "+t.name+" (fuzzing)")
		return
	}
	fmt.Printf("fuzz  %-28s %6.1f s  %s\n", t.pkg, took.Seconds(), t.name)
}

// ranOut tells whether a target failed by nothing but the end of its time, which Go's fuzzer sometimes takes for a fault of the target when a
// worker has an input in hand. A real fault names the input that it has written.
func ranOut(output string) bool {
	_, fault, failed := strings.Cut(output, "--- FAIL: ")
	lines := strings.Split(fault, "\n")
	return failed && len(lines) > 2 && strings.TrimSpace(lines[1]) == "context deadline exceeded" && strings.HasPrefix(lines[2], "FAIL") &&
		!strings.Contains(output, "Failing input written to")
}

func (s *summary) table() string {
	var b strings.Builder
	for ring := 1; ring <= 5; ring++ {
		t := s.tallies[ring]
		fmt.Fprintf(&b, "ring %d  %-16s", ring, ringNames[ring])
		switch {
		case t.passed+t.failed+t.skipped == 0 && ring == 5:
			b.WriteString(" not run: by hand and nightly, BATON_RINGS=long\n")
			continue
		case t.passed+t.failed+t.skipped == 0:
			b.WriteString(" no tests\n")
			continue
		case t.passed+t.failed == 0:
			b.WriteString(" SKIP")
		default:
			fmt.Fprintf(&b, " %d passed", t.passed)
		}
		if t.failed > 0 {
			fmt.Fprintf(&b, ", %d FAILED", t.failed)
		}
		if t.skipped > 0 {
			fmt.Fprintf(&b, ", %d skipped", t.skipped)
		}
		b.WriteByte('\n')
		for _, r := range t.reasons {
			fmt.Fprintf(&b, "        %s\n", r)
		}
	}
	return b.String()
}

// verdict is nil when the run counts as passed.
func (s *summary) verdict(strict bool) error {
	if len(s.failures) > 0 {
		return fmt.Errorf("failed: %s", strings.Join(s.failures, ", "))
	}
	skipped := 0
	for _, t := range s.tallies {
		skipped += t.skipped
	}
	if strict && skipped > 0 {
		return fmt.Errorf("%d tests were skipped where none may be (CI=true or BATON_RINGS=all)", skipped)
	}
	if len(s.packages) == 0 {
		return errors.New("no package was tested")
	}
	return nil
}
