package kernels

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

const page = sources + "/docs/kernels.md"

const head = `# Kernels

Which kernels Baton runs on is what this table shows: a run of ` + "`make kernels`" + ` (TestKernelMatrix) on the newest kernel of each series in
Debian's archive, in virtual machines ([guests](lab.md#virtual-machines)). The oldest series here is the oldest that is supported. A series whose
modules the archive has no more cannot be booted, and is not here.

`

// writeTable writes docs/kernels.md from the records of the kernels: a row each, a column for each part.
func writeTable(t *testing.T, rows []row) {
	t.Helper()
	steps := matrix() // those of all rows
	var parts []string
	for _, p := range steps {
		if !slices.Contains(parts, p.part) {
			parts = append(parts, p.part)
		}
	}
	var b strings.Builder
	b.WriteString(head)
	fmt.Fprintf(&b, "| Kernel | Date | %s |\n|---|---|%s\n", strings.Join(parts, " | "), strings.Repeat("---|", len(parts)))
	var notes []string
	for _, row := range rows {
		r := row.record()
		if r == nil {
			fmt.Fprintf(&b, "| %s | not run |%s\n", row.kernel, strings.Repeat(" |", len(parts)))
			continue
		}
		fmt.Fprintf(&b, "| %s | %s |", r.Kernel, r.Date)
		for _, part := range parts {
			cell, more := r.cell(part, row.steps)
			fmt.Fprintf(&b, " %s |", cell)
			for _, m := range more {
				notes = append(notes, fmt.Sprintf("- %s, %s", row.name(), m))
			}
		}
		b.WriteString("\n")
	}
	b.WriteString("\nA number is how many tests passed, – that nothing of the part is run there.\n\n## What each step shows\n\n| Part | Step | What it shows |\n|---|---|---|\n")
	for _, p := range steps {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.part, p.name, p.shows)
	}
	if len(notes) > 0 {
		fmt.Fprintf(&b, "\n## What did not pass, or was skipped\n\n%s\n", strings.Join(slices.Compact(notes), "\n"))
	}
	if err := os.WriteFile(page, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// cell sums up a part's steps on a kernel, and tells what else there is to know.
func (r *record) cell(part string, steps []step) (cell string, notes []string) {
	passed, failed, missing := 0, 0, 0
	for _, p := range steps {
		if p.part != part {
			continue
		}
		o, ok := r.Outcomes[p.name]
		switch {
		case !ok:
			missing++
		case !o.Passed:
			failed++
			notes = append(notes, p.name+": failed: "+strings.Join(o.Failed, ", "))
		}
		passed += o.Tests - len(o.Failed)
		for _, s := range o.Skipped {
			notes = append(notes, p.name+": skipped: "+s)
		}
	}
	if passed+failed+missing == 0 {
		return "–", nil
	}
	cell = fmt.Sprint(passed)
	if failed > 0 {
		cell += fmt.Sprintf(", **%d steps failed**", failed)
	}
	if missing > 0 {
		cell += fmt.Sprintf(", %d steps not run", missing)
	}
	return cell, notes
}
