package experiments

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Markdown writes the report. What the results do not contain (method, claims, caveats) comes from the experiment; plots are the plot
// files, by measure.
func (r *Results) Markdown(a About, plots []Drawn) string {
	w := &writer{}
	w.line("# %s", r.Question)
	w.line("")
	for _, m := range r.marks() {
		w.line("> **%s**", m)
		w.line("")
	}
	if a.Method != "" {
		w.line("%s\n", a.Method)
	}
	w.line("%s\n", r.procedure())
	w.contenders(r.Contenders)
	w.claims(r, a.Claims)
	if a.Summary != nil {
		w.line("%s", a.Summary(r))
	}
	for _, m := range r.Measures {
		if r.has(m.Name) {
			w.measure(r, m, plots)
		}
	}
	if len(a.Caveats) > 0 {
		w.line("## Read with care\n")
		for _, c := range a.Caveats {
			w.line("- %s", c)
		}
		w.line("")
	}
	w.line("## Repeat it\n\n```sh\n%s\n```\n", r.Command())
	w.line("All samples are in [%s](%s); `baton-lab experiment report` draws this page and its plots again from them.\n", resultsFile, resultsFile)
	w.machine(r)
	return w.String()
}

// marks returns the reasons for not trusting the results as those of a complete run on a good machine.
func (r *Results) marks() []string {
	var marks []string
	switch r.Ended {
	case Interrupted:
		marks = append(marks, "Interrupted: these are the samples until then.")
	case Failed:
		marks = append(marks, "Failed: these are the samples until then.")
	}
	if r.Options.Quick {
		marks = append(marks, "A quick run: it shows that all works, not how fast.")
	}
	if r.Machine.Busy > tooBusy {
		marks = append(marks, fmt.Sprintf("The machine was busy: something else used %.0f %% of its processors when the run began.",
			r.Machine.Busy*100))
	}
	if r.Lab != nil && !r.Lab.OK {
		marks = append(marks, "The lab's self-test fails on this machine: "+strings.Join(r.Lab.Failing, "; ")+".")
	}
	return marks
}

// briefMarks returns the marks without explanations.
func (r *Results) briefMarks() []string {
	var brief []string
	for _, m := range r.marks() {
		short, _, _ := strings.Cut(m, ":")
		brief = append(brief, strings.TrimSuffix(short, ".")+".")
	}
	return brief
}

// tooBusy is the share of the processors that an idle machine stays below.
const tooBusy = 0.05

func (r *Results) procedure() string {
	text := fmt.Sprintf("Figures are medians over %d %s", r.Options.Rounds, plural(r.Options.Rounds, "round", "rounds"))
	if len(r.Contenders) > 1 {
		text += fmt.Sprintf(", in which the contenders take turns; ratios are medians of each round's ratio to %s", r.Contenders[0].Name)
	}
	if c := r.coverage(); c > 0 {
		text += fmt.Sprintf("; intervals are from the order of the samples and hold the true median with a probability of %s at least", percent(c))
	}
	text += "."
	if slices.ContainsFunc(r.Samples, func(s Sample) bool { return s.Single != nil }) {
		text += " p50 and p99 are of single requests, from their begin to their last byte."
	}
	if slices.ContainsFunc(r.Samples, func(s Sample) bool { return s.CPU != nil }) {
		text += fmt.Sprintf(" CPU is processor time of the whole machine for a unit of work, \"added\" what it is more than that of %s, "+
			"\"own\" what the contender's own processes used.", r.Contenders[0].Name)
	}
	return text
}

// coverage returns that of the intervals, as far as it is the same for all: a contender may lack the last round of an interrupted run. A
// single round has no interval. 0 if there are none.
func (r *Results) coverage() float64 {
	rounds := map[[3]string]int{}
	for _, s := range r.Samples {
		rounds[[3]string{s.Case, s.Contender, s.Measure}]++
	}
	least := r.Options.Rounds
	for _, n := range rounds {
		if n > 1 {
			least = min(least, n)
		}
	}
	return estimate(make([]float64, least)).Coverage
}

// Command returns the command that repeats the run.
func (r *Results) Command() string {
	b := &strings.Builder{}
	fmt.Fprintf(b, "baton-lab experiment run %s", r.Experiment)
	if r.Options.Quick {
		b.WriteString(" --quick")
	}
	if !r.Options.Defaults {
		fmt.Fprintf(b, " --rounds %d --duration %v", r.Options.Rounds, time.Duration(r.Options.Duration*float64(time.Second)))
	}
	if r.Options.IPv6 {
		b.WriteString(" --ipv6")
	}
	if r.Options.Seed != 0 {
		fmt.Fprintf(b, " --seed %d", r.Options.Seed)
	}
	if r.Options.Connections != 0 {
		fmt.Fprintf(b, " --connections %d", r.Options.Connections)
	}
	for _, f := range []struct {
		flag   string
		values []string
	}{{"case", r.Options.Cases}, {"contender", r.Options.Contenders}, {"measure", r.Options.Measures}} {
		for _, v := range f.values {
			if strings.Contains(v, " ") {
				v = "'" + v + "'"
			}
			fmt.Fprintf(b, " --%s %s", f.flag, v)
		}
	}
	return b.String()
}

// writer writes Markdown.
type writer struct{ strings.Builder }

func (w *writer) line(format string, args ...any) { fmt.Fprintf(w, format+"\n", args...) }

// table writes rows of cells; the first is the head. Columns that are empty in all other rows are left out.
func (w *writer) table(rows [][]string) {
	var keep []int
	for i := range rows[0] {
		if slices.ContainsFunc(rows[1:], func(row []string) bool { return row[i] != "" }) {
			keep = append(keep, i)
		}
	}
	for i, row := range rows {
		for _, k := range keep {
			fmt.Fprintf(w, "| %s ", strings.ReplaceAll(row[k], "|", "\\|"))
		}
		w.line("|")
		if i == 0 {
			w.line("%s|", strings.Repeat("|---", len(keep)))
		}
	}
	w.line("")
}

func (w *writer) contenders(list []ContenderInfo) {
	rows := [][]string{{"Contender", "Is"}}
	for _, c := range list {
		if c.Is != "" {
			rows = append(rows, []string{c.Name, c.Is})
		}
	}
	if len(rows) > 1 {
		w.table(rows)
	}
}

// claims writes the result: the papers' figures and ours.
func (w *writer) claims(r *Results, claims []Claim) {
	if len(claims) == 0 {
		return
	}
	rows := [][]string{{"What", "Paper", "Where", "Here", "Interval", "Goal", "Result"}}
	for _, c := range claims {
		e, err := c.Ours(r)
		if err != nil {
			rows = append(rows, []string{c.What, c.Paper, c.Where, "not measured", "", c.goal(), ""})
			continue
		}
		row := []string{c.What, c.Paper, c.Where, "**" + with(figure(e.Median), c.Unit) + "**", spread(e, figure), c.goal(), ""}
		if c.goal() != "" {
			row[6] = c.verdict(e)
		}
		rows = append(rows, row)
	}
	w.line("## The answer\n")
	w.table(rows)
}

func (w *writer) measure(r *Results, m MeasureInfo, plots []Drawn) {
	better := "more is better"
	if m.Less {
		better = "less is better"
	}
	w.line("## %s\n\n%s (%s; %s).\n", strings.ToUpper(m.Name[:1])+m.Name[1:], m.title(), m.Unit, better)
	for _, p := range plots {
		if p.Measure == m.Name {
			w.line("![%s](%s.svg)\n", p.Title, p.File)
		}
	}
	base := r.Contenders[0].Name
	per := ""
	if m.Per != "" {
		per = "CPU/" + m.Per
	}
	rows := [][]string{{"Case", "Contender", m.Unit, "interval", "× " + base, "interval", "p50", "p99", per, "added", "own", "errors"}}
	for _, c := range r.Cases {
		for _, k := range r.Contenders {
			if e := r.Value(c.Name, k.Name, m.Name); e.Rounds > 0 {
				rows = append(rows, r.row(c.Name, k.Name, m, e))
			}
		}
	}
	w.table(rows)
	w.failures(r, m)
}

// row is a contender's result in a case.
func (r *Results) row(kase, contender string, m MeasureInfo, e Estimate) []string {
	base := r.Contenders[0].Name
	row := []string{kase, contender, figure(e.Median), spread(e, figure), "", "", "", "", "", "", "", ""}
	if contender != base {
		ratio := r.Ratio(kase, contender, base, m.Name)
		row[4], row[5] = figure(ratio.Median), spread(ratio, figure)
	} else if len(r.Contenders) > 1 {
		row[4] = "1"
	}
	single := func(of func(*Distribution) float64) string {
		e := r.over(kase, contender, m.Name, func(s Sample) (float64, bool) {
			if s.Single == nil {
				return 0, false
			}
			return of(s.Single), true
		})
		if e.Rounds == 0 {
			return ""
		}
		return seconds(e.Median)
	}
	row[6], row[7] = single(func(d *Distribution) float64 { return d.P50 }), single(func(d *Distribution) float64 { return d.P99 })
	if m.Per != "" {
		row[8] = seconds(r.over(kase, contender, m.Name, machineUse).Median)
		row[10] = seconds(r.over(kase, contender, m.Name, ownUse).Median)
		if contender != base {
			added := r.versus(kase, contender, base, m.Name, machineUse, func(v, b float64) float64 { return v - b })
			row[9] = seconds(added.Median)
		}
	}
	n, _ := r.errors(kase, contender, m.Name)
	row[11] = grouped(fmt.Sprint(n))
	return row
}

func machineUse(s Sample) (float64, bool) {
	if s.CPU == nil {
		return 0, false
	}
	return s.CPU.Machine, true
}

func ownUse(s Sample) (float64, bool) {
	if s.CPU == nil {
		return 0, false
	}
	return s.CPU.Contender, true
}

// failures repeats the message of each contender's first failed request.
func (w *writer) failures(r *Results, m MeasureInfo) {
	any := false
	for _, c := range r.Cases {
		for _, k := range r.Contenders {
			if n, first := r.errors(c.Name, k.Name, m.Name); n > 0 {
				w.line("- %s: %s failed, the first: %s", sentence(c.Name, k.Name), grouped(fmt.Sprint(n)), first)
				any = true
			}
		}
	}
	if any {
		w.line("")
	}
}

func (m MeasureInfo) title() string {
	if m.Title != "" {
		return m.Title
	}
	return strings.ToUpper(m.Name[:1]) + m.Name[1:]
}

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func (w *writer) machine(r *Results) {
	m := r.Machine
	w.line("## Machine\n")
	rows := [][]string{{"", ""}}
	add := func(key, value string) {
		if value != "" {
			rows = append(rows, []string{key, value})
		}
	}
	kind := ""
	if m.Virtual {
		kind = ", virtual"
	}
	add("processors", fmt.Sprintf("%d × %s%s", m.Processors, m.Processor, kind))
	add("frequency governor", m.Governor)
	add("memory", fmt.Sprintf("%.0f GiB", float64(m.Memory)/(1<<30)))
	add("kernel", "Linux "+m.Kernel)
	add("distribution", m.Distribution)
	add("busy before the run", fmt.Sprintf("%.0f %%", m.Busy*100))
	add("programs", versions(r.Versions))
	add("Baton", r.Source.String())
	add("Go", strings.TrimPrefix(m.Go, "go"))
	for _, key := range sysctls {
		add("`"+key+"`", m.Sysctls[key])
	}
	switch {
	case r.Lab != nil && r.Lab.OK:
		add("lab's self-test", "passed")
	case r.Lab != nil:
		add("lab's self-test", "failed: "+strings.Join(r.Lab.Failing, "; "))
	}
	add("run", fmt.Sprintf("%s, %s", r.Began.Format("2006-01-02 15:04 UTC"), roughly(time.Duration(r.Took*float64(time.Second)))))
	w.table(rows)
}

func versions(of map[string]string) string {
	var list []string
	for name, number := range of {
		list = append(list, name+" "+number)
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}

// String returns the revision, and whether the tree had changes.
func (s Source) String() string {
	switch {
	case s.Revision == "":
		return "revision unknown"
	case s.Dirty:
		return s.Revision[:min(12, len(s.Revision))] + ", and changes that are not committed"
	}
	return s.Revision[:min(12, len(s.Revision))]
}
