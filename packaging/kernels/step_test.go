package kernels

import (
	"bytes"
	"context"
	"fmt"
	"path"
	"regexp"
	"strings"
	"time"

	"baton/lab/guest"
)

// step is one thing to see on a kernel: compiled tests of a package, or a script.
type step struct {
	name   string // unique
	part   string // the column of the table that it belongs to
	shows  string // in the words of a user
	pkg    string // of the module
	tests  string // for -test.run; "": all
	skip   string // for -test.skip
	script string // instead of tests
	bound  time.Duration

	systemd bool // in a guest with Debian's init
}

func (s step) binary() string { return path.Join("tree", s.pkg, path.Base(s.pkg)+".test") }

// reads tells if a step may read a file of the stage: its own test and what lies beside it; a lab or a script also the programs and the
// tree. Packages are of the same programs, and differ by the date of the commit alone.
func (s step) reads(file string) bool {
	if strings.HasSuffix(file, ".test") {
		return s.pkg != "" && file == s.binary()
	}
	if strings.HasPrefix(s.pkg, "datapath/") {
		return strings.HasPrefix(file, "tree/"+s.pkg+"/")
	}
	return !strings.HasPrefix(file, "packages/")
}

// outcome is what a step came to on a kernel.
type outcome struct {
	Step    string   `json:"step"`
	Digest  string   `json:"digest"` // of what the step read: a step of another one has not run
	Passed  bool     `json:"passed"`
	Tests   int      `json:"tests"`   // that ran to their end
	Skipped []string `json:"skipped"` // with the reason
	Failed  []string `json:"failed"`
	Seconds int      `json:"seconds"`
	Output  string   `json:"-"`
}

// environment is that of every step in a guest.
const environment = "export BATON_LAB_PATIENCE=10 BATON_PROGRAMS=/srv/programs PATH=/srv/programs:$PATH\n"

// command is what the guest's shell runs.
func (s step) command() string {
	if s.script != "" {
		return environment + "cd /srv/tree\n" + s.script
	}
	command := fmt.Sprintf(environment+"cd /srv/tree/%s && ./%s -test.v -test.short -test.timeout=%v",
		s.pkg, path.Base(s.binary()), s.bound)
	for flag, value := range map[string]string{"run": s.tests, "skip": s.skip} {
		if value != "" {
			command += fmt.Sprintf(" -test.%s='%s'", flag, value)
		}
	}
	return command
}

// try runs the step in a guest.
func (s step) try(ctx context.Context, g *guest.Guest) (outcome, error) {
	ctx, cancel := context.WithTimeout(ctx, s.bound+time.Minute)
	defer cancel()
	began := time.Now()
	var both bytes.Buffer
	r, err := g.Run(ctx, guest.Command{Script: s.command(), Output: &both})
	if err != nil && ctx.Err() == nil {
		return outcome{}, err // the guest has ended
	}
	o := s.judge(both.String(), r.Status)
	if o.Seconds = int(time.Since(began).Seconds()); err != nil {
		o.Passed, o.Failed = false, append(o.Failed, fmt.Sprintf("%s took more than %v", s.name, s.bound))
	}
	return o, nil
}

// report is what a failed step says: the tests' own lines, and the end of all.
func (o outcome) report() string {
	var said []string
	for line := range strings.Lines(o.Output) {
		if testLine.MatchString(line) && !strings.Contains(line, "--- log of") {
			said = append(said, line)
		}
	}
	return fmt.Sprintf("%v\n%s…\n%s", o.Failed, tail(strings.Join(said, ""), 4000), tail(o.Output, 2000))
}

var testLine = regexp.MustCompile(`^\s+\w+_test\.go:\d+: |^\s*--- FAIL`)

var ended = regexp.MustCompile(`(?m)^--- (PASS|FAIL|SKIP): (\S+)`)

// judge reads the output of tests, or the exit status of a script. Tests that all skip show nothing, and do not pass.
func (s step) judge(output string, status int) outcome {
	o := outcome{Step: s.name, Passed: status == 0, Output: output}
	if s.script != "" {
		if o.Tests = 1; status != 0 {
			o.Failed = []string{fmt.Sprintf("%s: exit status %d", s.name, status)}
		}
		return o
	}
	for _, m := range ended.FindAllStringSubmatch(output, -1) {
		switch m[1] {
		case "FAIL":
			o.Failed = append(o.Failed, m[2])
		case "SKIP":
			o.Skipped = append(o.Skipped, m[2]+": "+reasonOf(output, m[0]))
		}
		if m[1] != "SKIP" {
			o.Tests++
		}
	}
	if o.Tests == 0 {
		o.Passed = false
	}
	if !o.Passed && len(o.Failed) == 0 {
		o.Failed = []string{fmt.Sprintf("%s: exit status %d, %d tests ended", s.name, status, o.Tests)}
	}
	return o
}

// reasonOf is what a test said before it was skipped, on the line before or after its end.
func reasonOf(output, end string) string {
	_, after, _ := strings.Cut(output, end)
	lines := strings.SplitN(after, "\n", 3)
	if len(lines) > 1 {
		_, reason, _ := strings.Cut(lines[1], ": ")
		return strings.TrimSpace(reason)
	}
	return ""
}
