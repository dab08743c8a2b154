// Package selftest measures the lab's link emulator on the machine at hand: whether it carries what it should, as
// fast, as late, at the rate and with the losses that it was asked for. Results on a machine that fails are no results.
package selftest

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"baton/lab"
)

// Check is one property of the emulator, measured.
type Check struct {
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Bound   float64 `json:"bound"`
	AtLeast bool    `json:"at_least"` // the value must be the bound at least, else at most

	// Alone is what the machine adds by itself: the same, measured in the same run without an emulated link. 0: not measured.
	Alone float64 `json:"alone,omitempty"`
}

// Pass reports whether the value is within its bound.
func (c Check) Pass() bool {
	if c.AtLeast {
		return c.Value >= c.Bound
	}
	return c.Value <= c.Bound
}

// Within is Pass with a bound that is so many times wider, and wider by what the machine adds by itself.
func (c Check) Within(times float64) bool {
	if c.AtLeast {
		return c.Value >= c.Bound/times
	}
	return c.Value <= c.Bound*times+c.Alone
}

// Result is what a self-test found.
type Result struct {
	Checks []Check       `json:"checks"`
	Took   time.Duration `json:"took_ns"`
}

// Failed are the checks that did not pass.
func (r Result) Failed() (list []Check) {
	for _, c := range r.Checks {
		if !c.Pass() {
			list = append(list, c)
		}
	}
	return list
}

// Verdict says in one line whether the emulator can be trusted here.
func (r Result) Verdict() string {
	failed := r.Failed()
	if len(failed) == 0 {
		return fmt.Sprintf("passed: all %d checks of the link emulator are within bounds", len(r.Checks))
	}
	var list []string
	for _, c := range failed {
		list = append(list, c.String())
	}
	return "FAILED: " + strings.Join(list, "; ")
}

// String formats the check in one line.
func (c Check) String() string {
	alone := ""
	if c.Alone != 0 {
		alone = fmt.Sprintf(" (without the emulator %s)", number(c.Alone))
	}
	return fmt.Sprintf("%s %s %s%s, want %s", c.Name, number(c.Value), c.Unit, alone, c.want())
}

func (c Check) want() string {
	if c.AtLeast {
		return "≥ " + number(c.Bound)
	}
	return "≤ " + number(c.Bound)
}

// Write prints the table.
func (r Result) Write(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "check\tmeasured\twant\tunit\twithout emulator\t")
	for _, c := range r.Checks {
		mark, alone := "ok", ""
		if c.Alone != 0 {
			alone = number(c.Alone)
		}
		if !c.Pass() {
			mark = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", c.Name, number(c.Value), c.want(), c.Unit, alone, mark)
	}
	return w.Flush()
}

func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%d", int64(v))
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.3g", v)
}

// step measures some checks on two hosts of its own.
type step struct {
	name string
	run  func(ctx context.Context, p *pair) ([]Check, error)
}

var steps = []step{
	{"bulk", bulk},
	{"small packets", smallPackets},
	{"round trips", roundTrips},
	{"rates", rates},
	{"losses", losses},
	{"order", order},
	{"slow start", slowStart},
}

// Run measures everything: 30 s, or 10 s when it is to be quick. Progress goes to out.
func Run(ctx context.Context, out io.Writer, quick bool) (Result, error) {
	began := time.Now()
	var r Result
	for i, s := range steps {
		if err := ctx.Err(); err != nil {
			return r, fmt.Errorf("self-test: %w", err)
		}
		fmt.Fprintf(out, "self-test %d/%d: %s\n", i+1, len(steps), s.name)
		err := lab.Run(out, func(l *lab.Lab) error {
			checks, err := s.run(ctx, newPair(l, quick))
			r.Checks = append(r.Checks, checks...)
			return err
		})
		if err != nil {
			return r, fmt.Errorf("self-test: %s: %w", s.name, err)
		}
	}
	r.Took = time.Since(began)
	return r, nil
}
