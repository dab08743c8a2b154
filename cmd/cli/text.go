package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// Count is a number of things, "1 pool", "2 pools", "2 entries", "2 prefixes".
func Count(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	if stem, ok := strings.CutSuffix(one, "y"); ok {
		return fmt.Sprintf("%d %sies", n, stem)
	}
	if strings.HasSuffix(one, "x") {
		one += "e"
	}
	return fmt.Sprintf("%d %ss", n, one)
}

// Age is how long ago something was, in whole seconds, or a dash for never.
func Age(now, t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return now.Sub(t).Round(time.Second).String()
}

// Dash is a text of a table, or a dash for none.
func Dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// Counted prints the counters above zero as a table of a tabwriter.
func Counted(w io.Writer, what, unit string, counts map[string]uint64) {
	first := true
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		if counts[name] == 0 {
			continue
		}
		if first {
			fmt.Fprintf(w, "\n%s\t%s\t\n", what, unit)
			first = false
		}
		fmt.Fprintf(w, "%s\t%d\t\n", name, counts[name])
	}
}

// Warn prints warnings: each says itself where it is about, as mistakes do.
func Warn(out io.Writer, warnings []string) {
	for _, w := range warnings {
		fmt.Fprintln(out, "warning:", w)
	}
}

// Lines is a text of lines, each with its end.
func Lines(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}
