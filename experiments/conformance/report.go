package conformance

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Markdown is the report: what each target passes, by folder, by what a case needs and by file, and what it fails, with reasons.
func (r *Results) Markdown() (string, error) {
	w := &writer{}
	w.line("# Conformance of OpenFlow 1.3: %s, %d cases\n", r.Suite, len(r.cases))
	if !r.Whole {
		w.line("> **Not the whole suite: %d of its %d cases.**\n", len(r.cases), len(r.suite.Cases))
	}
	if r.Failure != "" {
		first, _, _ := strings.Cut(r.Failure, "\n")
		w.line("> **The run ended early: %s**\n", first)
	}
	rows := [][]string{{"Target", "Is", "Version", "Passed", "Time"}}
	for _, t := range r.Targets {
		v := r.of(t.Name)
		rows = append(rows, []string{t.Name, t.Is, t.Version, fmt.Sprintf("**%d** of %d", passed(v), len(v)), fmt.Sprintf("%.0f s", t.Seconds)})
	}
	w.table(rows)
	checksum := "its SCTP checksum repaired"
	if r.Unpatched {
		checksum = "its SCTP checksum as it is: 16 cases expect a wrong one"
	}
	w.line("%s on Linux %s; the suite with %s. docs/conformance.md explains the cases and how they are put.\n",
		r.Began.Format("2006-01-02 15:04 UTC"), r.Kernel, checksum)

	w.line("## By folder\n")
	w.counts(r, "Folder", func(c Case) []string { return []string{c.Dir()} }, true)
	w.line("## By what a case needs\n\nA case counts in each row whose feature it needs.\n")
	w.counts(r, "Feature", func(c Case) []string { return c.Features }, false)
	w.line("## By file\n")
	w.counts(r, "File", func(c Case) []string { return []string{c.File} }, false)
	for _, t := range r.Targets {
		if err := w.failures(r, t.Name); err != nil {
			return "", err
		}
	}
	return w.String(), nil
}

// writer writes Markdown.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// table writes rows of cells; the first is the head.
func (w *writer) table(rows [][]string) {
	for i, row := range rows {
		for _, cell := range row {
			fmt.Fprintf(w, "| %s ", strings.ReplaceAll(cell, "|", "\\|"))
		}
		w.line("|")
		if i == 0 {
			w.line("%s|", strings.Repeat("|---", len(row)))
		}
	}
	w.line("")
}

// counts writes, for each key that a case has, how many cases have it and how many of those each target passes.
func (w *writer) counts(r *Results, head string, keys func(Case) []string, sum bool) {
	cases, passes := map[string]int{}, map[[2]string]int{}
	ok := map[[2]string]bool{}
	for _, v := range r.Verdicts {
		ok[[2]string{v.Target, v.name()}] = v.OK
	}
	for _, c := range r.cases {
		for _, k := range keys(c) {
			cases[k]++
			for _, t := range r.Targets {
				if ok[[2]string{t.Name, c.String()}] {
					passes[[2]string{t.Name, k}]++
				}
			}
		}
	}
	rows := [][]string{{head, "Cases"}}
	for _, t := range r.Targets {
		rows[0] = append(rows[0], t.Name)
	}
	var order []string
	for k := range cases {
		order = append(order, k)
	}
	slices.Sort(order)
	for _, k := range order {
		row := []string{k, fmt.Sprint(cases[k])}
		for _, t := range r.Targets {
			n := passes[[2]string{t.Name, k}]
			row = append(row, emphasis(n, cases[k]))
		}
		rows = append(rows, row)
	}
	if sum {
		row := []string{"all", fmt.Sprint(len(r.cases))}
		for _, t := range r.Targets {
			row = append(row, emphasis(passed(r.of(t.Name)), len(r.cases)))
		}
		rows = append(rows, row)
	}
	w.table(rows)
}

// emphasis makes what lacks nothing quiet and what lacks something loud.
func emphasis(n, all int) string {
	if n == all {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("**%d**", n)
}

// failures writes the cases that a target fails, under the reason that its list gives.
func (w *writer) failures(r *Results, target string) error {
	expected, _, err := r.expected(target)
	if err != nil {
		return err
	}
	type group struct {
		reason string
		cases  []string
	}
	var groups []*group
	failed := 0
	for _, v := range r.of(target) {
		if v.OK {
			continue
		}
		failed++
		reason := cmp.Or(expected[v.name()].Reason, "Not explained yet.")
		i := slices.IndexFunc(groups, func(g *group) bool { return g.reason == reason })
		if i < 0 {
			groups = append(groups, &group{reason: reason})
			i = len(groups) - 1
		}
		groups[i].cases = append(groups[i].cases, fmt.Sprintf("`%s`: %s", v.name(), oneLine(v.Reason)))
	}
	w.line("## What %s fails: %d\n", target, failed)
	for _, g := range groups {
		w.line("### %s (%d)\n", strings.TrimSuffix(g.reason, "."), len(g.cases))
		long := len(g.cases) > 10
		if long {
			w.line("<details><summary>The cases</summary>\n")
		}
		for _, c := range g.cases {
			w.line("- %s", c)
		}
		if long {
			w.line("\n</details>")
		}
		w.line("")
	}
	return nil
}

// oneLine shortens what the tester says: it quotes whole flow entries.
func oneLine(reason string) string {
	const most = 160
	reason = strings.Join(strings.Fields(reason), " ")
	if len(reason) > most {
		return strings.ToValidUTF8(reason[:most], "") + "…"
	}
	return reason
}
