package plan

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// String formats the plan for people.
func (p *Plan) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "from %s to %s: %s\n  %s\n\n", p.Client, p.Server, p.answer(), p.Why)
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "\tRELAYS\tCLOUDS\tLEGS\tRTT\tNEW\tWARM\t")
	for _, size := range p.Sizes {
		fmt.Fprintf(w, "%s\t", bytes(size))
	}
	fmt.Fprintln(w, "WHY")
	if p.Route != nil {
		p.row(w, "*", p.Route, p.Route.Why)
	}
	for _, c := range p.Others {
		p.row(w, "", &c.Route, "not: "+c.Not)
	}
	if p.Direct != nil {
		fmt.Fprintf(w, "\t-\t-\t%s\t%s\t\n", text(p.Direct.RTT), p.Direct)
	}
	w.Flush()
	if len(p.Missing) > 0 {
		fmt.Fprintln(w, "\nnot measured:")
		for _, m := range p.Missing {
			fmt.Fprintf(w, "  %s to %s\t%s\n", m.From, m.To, m.Why)
		}
		w.Flush()
	}
	return b.String()
}

func (p *Plan) answer() string {
	switch p.Use {
	case UseRelays:
		return "via " + strings.Join(p.Route.Relays, ", ")
	case UseDirect:
		return "directly"
	}
	return "unknown"
}

func (p *Plan) row(w *tabwriter.Writer, mark string, r *Route, why string) {
	var legs []string
	for _, l := range r.Legs {
		legs = append(legs, fmt.Sprintf("%.4g", time.Duration(l.RTT).Seconds()*1e3))
	}
	clouds := r.Clouds
	if !r.mixed() {
		clouds = clouds[:1]
	}
	fmt.Fprintf(w, "%s\t%s\t%s\t%s ms\t%s\t%s\n", mark, strings.Join(r.Relays, " "), orDash(strings.Join(clouds, " ")),
		strings.Join(legs, " + "), &r.Times, why)
}

// String returns the cells of a row.
func (t *Times) String() string {
	cells := []string{text(t.RTT), text(t.New), text(t.Warm)}
	for _, s := range t.Sizes {
		cells = append(cells, text(s))
	}
	return strings.Join(cells, "\t")
}

// text formats a time in milliseconds, without fraction from 100 on, and in seconds from 10 s on.
func text[T ~int64](t T) string {
	d := time.Duration(t)
	ms := float64(d) / 1e6
	switch {
	case d >= 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case ms >= 100:
		return fmt.Sprintf("%.0f ms", ms)
	}
	return fmt.Sprintf("%.1f ms", ms)
}

func bytes(n int64) string {
	for _, unit := range []struct {
		size int64
		name string
	}{{1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}} {
		if n >= unit.size {
			return fmt.Sprintf("%.4g %s", float64(n)/float64(unit.size), unit.name)
		}
	}
	return fmt.Sprintf("%d B", n)
}

func percent(of, less time.Duration) string {
	return fmt.Sprintf("%.1f %%", 100*(float64(of)/float64(less)-1))
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

// list is "a, b and c".
func list(items []string) string {
	if len(items) == 1 {
		return items[0]
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}
