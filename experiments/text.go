package experiments

import (
	"fmt"
	"io"
	"text/tabwriter"
)

// Text writes the medians and the result for a terminal.
func (r *Results) Text(out io.Writer, a About) {
	for _, m := range r.marks() {
		fmt.Fprintln(out, m)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	base := r.Contenders[0].Name
	for _, m := range r.Measures {
		if !r.has(m.Name) {
			continue
		}
		fmt.Fprintf(w, "\n%s, %s\t\t\t× %s\n", m.Name, m.Unit, base)
		for _, c := range r.Cases {
			for _, k := range r.Contenders {
				e := r.Value(c.Name, k.Name, m.Name)
				if e.Rounds == 0 {
					continue
				}
				note := ""
				if n, first := r.errors(c.Name, k.Name, m.Name); n > 0 {
					note = fmt.Sprintf("%d failed: %s", n, first)
				}
				fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t%s\n", sentence(c.Name, k.Name), figure(e.Median), spread(e, figure),
					figure(r.Ratio(c.Name, k.Name, base, m.Name).Median), note)
			}
		}
	}
	w.Flush()
	if len(a.Claims) == 0 {
		return
	}
	fmt.Fprintf(w, "\nthe answer\there\tpaper\tgoal\t\n")
	for _, c := range a.Claims {
		e, err := c.Ours(r)
		if err != nil {
			continue
		}
		row := fmt.Sprintf("  %s\t%s\t%s\t%s\t", c.What, with(figure(e.Median), c.Unit), orDash(c.Paper), orDash(c.goal()))
		if c.goal() != "" {
			row += c.verdict(e)
		}
		fmt.Fprintln(w, row)
	}
	w.Flush()
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
