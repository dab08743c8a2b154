package explain

import (
	"fmt"
	"strings"
)

// String formats the explanation for people, a line for each step.
func (e *Explanation) String() string {
	var b strings.Builder
	step := func(name, format string, values ...any) {
		fmt.Fprintf(&b, "%-10s %s\n", name, fmt.Sprintf(format, values...))
	}
	step("request", "%s", e.Request)
	if e.Client != "" {
		step("client", "%s", e.Client)
	}
	step("vip", "%s, mode %s%s", e.VIP, e.Mode, prefixed(", pipelining ", string(e.Pipelining)))
	for _, m := range e.Missed {
		step("", "not the route on line %d: %s", m.Line, m.Why)
	}
	if e.MissedMore > 0 {
		step("", "nor %d more routes", e.MissedMore)
	}
	if e.Route != nil {
		step("route", "line %d: %s", e.Route.Line, e.Route.Match)
		step("pool", "%s, policy %s%s%s", e.Pool, e.Policy, prefixed(", ", e.Key), prefixed(", reuse ", string(e.Reuse)))
	}
	for _, line := range e.Reasons {
		step("", "%s", line)
	}
	for _, c := range e.Candidates {
		at := c.Address + prefixed(", of ", c.Origin)
		switch {
		case c.Excluded != "":
			step("", "%s (%s) cannot be chosen: %s", c.Name, at, c.Excluded)
		case c.Share == 0:
			step("", "%s (%s) is not chosen%s", c.Name, at, sessions(c.Sessions))
		default:
			step("", "%s (%s) gets %.0f %%%s", c.Name, at, 100*c.Share, sessions(c.Sessions))
		}
	}
	if e.Rewritten != "" {
		step("rewritten", "%s", e.Rewritten)
	}
	for i, line := range e.Fields {
		step([]string{"fields", ""}[min(i, 1)], "%s", line)
	}
	switch {
	case e.Alert != "":
		step("answer", "alert %s: %s", e.Alert, e.Reason)
	case e.Status != 0:
		step("answer", "%d: %s", e.Status, e.Reason)
	case len(e.Chosen) == 1:
		step("chosen", "%s, %s", e.Chosen[0], e.Action)
	default:
		step("chosen", "in turn %s, %s", strings.Join(e.Chosen, ", "), e.Action)
	}
	step("decided", "in %s: %s", article(e.Decides), e.Because)
	return b.String()
}

func prefixed(prefix, s string) string {
	if s == "" {
		return ""
	}
	return prefix + s
}

func sessions(n int) string {
	if n < 0 {
		return ""
	}
	return fmt.Sprintf(", %d sessions", n)
}

func article(decides string) string {
	if decides == inKernel {
		return "the kernel"
	}
	return decides
}
