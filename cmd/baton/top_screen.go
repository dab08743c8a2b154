package main

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"baton/cmd/cli"
)

// Shares of a screen: the first tables get what they need up to these lines, the last one the rest.
const (
	topMostParts = 6
	topMostItems = 2 // of 3 of the lines that parts leave
)

// topScreen is a sample as lines that fit a terminal.
func topScreen(s *topSample, by string, paused bool, width, height int) []string {
	head := fmt.Sprintf("baton top  %s  %s", s.At.Format("15:04:05"), cli.Count(len(s.Parts), "part"))
	if paused {
		head += "  paused"
	}
	parts := table(func(w io.Writer) { topParts(w, s) })
	items := table(func(w io.Writer) { topItems(w, s, by) })
	verdicts := table(func(w io.Writer) { topVerdicts(w, s) })
	lines := append([]string{head, ""}, fit(parts, topMostParts+1)...)
	rest := height - len(lines) - 4 // two empty lines, and the help with one before it
	share := max(rest*topMostItems/3, rest-len(verdicts))
	lines = append(append(lines, ""), fit(items, share)...)
	lines = append(append(lines, ""), fit(verdicts, rest-min(share, len(items)))...)
	for len(lines) < height-1 {
		lines = append(lines, "")
	}
	lines = append(lines[:max(height-1, 0)], "sort by: l live, r rate, b bytes, n name   space: pause   q: quit")
	for i, line := range lines {
		if runes := []rune(line); len(runes) > width {
			lines[i] = string(runes[:width])
		}
	}
	return lines
}

// table is what a tabwriter makes, in lines.
func table(print func(io.Writer)) []string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	print(w)
	_ = w.Flush() // a builder takes everything
	return strings.Split(strings.TrimRight(b.String(), "\n"), "\n")
}

// fit shortens a table, and says by how much.
func fit(lines []string, most int) []string {
	if len(lines) <= max(most, 2) {
		return lines
	}
	most = max(most, 2)
	return append(lines[:most-1:most-1], fmt.Sprintf("... and %d more", len(lines)-most+1))
}

func topParts(w io.Writer, s *topSample) {
	fmt.Fprintln(w, "PART\tNAME\tPID\tUP\tLIVE\tRATE")
	for _, p := range s.Parts {
		if p.Error != "" {
			fmt.Fprintf(w, "%s\t%s\n", cli.Dash(p.Part), p.Control+": "+p.Error)
			continue
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%s\t%d %s\t%s %s/s\n", p.Part, cli.Dash(p.Name), p.PID, cli.Age(s.At, p.Started), p.Live, p.Lives, perSecond(p.Rate), p.Totals)
	}
}

func topItems(w io.Writer, s *topSample, by string) {
	mark := func(name, key string) string {
		if key == by {
			return name + "*"
		}
		return name
	}
	fmt.Fprintf(w, "%s\tSTATE\t%s\t%s\tTOTAL\t%s\n", mark("ITEM", "name"), mark("LIVE", "live"), mark("RATE", "rate"), mark("BYTES", "bytes"))
	for _, i := range s.Items {
		fmt.Fprintf(w, "%s %s %s\t%s\t%d\t%s/s\t%d\t%s/s\n", i.Part, i.Kind, i.Name, cli.Dash(i.State), i.Live, perSecond(i.Rate), i.Total, scaled(i.ByteRate, 1000, "B", "kB", "MB", "GB"))
	}
}

func topVerdicts(w io.Writer, s *topSample) {
	fmt.Fprintln(w, "VERDICT\tRATE\tTOTAL")
	for _, v := range s.Verdicts {
		fmt.Fprintf(w, "%s %s\t%s/s\t%d\n", v.Part, v.Verdict, perSecond(v.Rate), v.Total)
	}
}

// perSecond is a rate with three digits.
func perSecond(rate float64) string {
	return strings.ReplaceAll(scaled(rate, 1000, "", "k", "M", "G"), " ", "")
}

// printTop prints a sample without a terminal's bounds.
func printTop(out io.Writer, s *topSample, by string) error {
	for _, print := range []func(io.Writer){
		func(w io.Writer) { topParts(w, s) }, func(w io.Writer) { topItems(w, s, by) }, func(w io.Writer) { topVerdicts(w, s) },
	} {
		if _, err := fmt.Fprintln(out, strings.Join(table(print), "\n")+"\n"); err != nil {
			return err
		}
	}
	return nil
}
