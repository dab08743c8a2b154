package handoff

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Report is what a run found. It marshals to JSON.
type Report struct {
	Kernel     string            `json:"kernel"`
	Processors int               `json:"processors"`
	Rounds     int               `json:"rounds"`
	Family     string            `json:"family"`
	Versions   map[string]string `json:"versions"` // of the surrogates
	Rows       []Row             `json:"rows"`

	samples map[[2]string][]sample // measure, contender
	order   []string               // of contenders
}

// Row is one measure of all contenders.
type Row struct {
	Measure string `json:"measure"`
	Unit    string `json:"unit"`
	Per     string `json:"per"` // unit of work of the processor times
	Less    bool   `json:"less_is_better"`
	Cells   []Cell `json:"cells"`
}

// Cell is one measure of one contender: medians over the rounds.
type Cell struct {
	Contender string        `json:"contender"`
	Value     float64       `json:"value"`
	Ratio     float64       `json:"ratio"` // to the first contender: median of the rounds' ratios
	Values    []float64     `json:"values"`
	P99       time.Duration `json:"p99_ns"`
	Machine   time.Duration `json:"cpu_machine_ns"`   // processor time of the whole machine for a unit of work
	Added     time.Duration `json:"cpu_added_ns"`     // of it, more than the first contender's
	Contend   time.Duration `json:"cpu_contender_ns"` // of it, in the contender's own processes
	Generator time.Duration `json:"cpu_generator_ns"`
	Servers   time.Duration `json:"cpu_servers_ns"`
	Errors    int64         `json:"errors"` // over all rounds
	First     string        `json:"first_error,omitempty"`
	Reopened  int64         `json:"reopened"`
}

func newReport(o Options, t *Topology) *Report {
	r := &Report{Processors: runtime.NumCPU(), Rounds: o.Rounds, Family: "IPv4", Versions: map[string]string{},
		samples: map[[2]string][]sample{}}
	var name unix.Utsname
	if err := unix.Uname(&name); err == nil {
		r.Kernel = unix.ByteSliceToString(name.Release[:])
	}
	if o.IPv6 {
		r.Family = "IPv6"
	}
	for i, s := range t.Servers {
		r.Versions[t.Surrogates[i].Name()] = s.Version
	}
	for _, c := range o.Contenders {
		r.order = append(r.order, c.Name)
	}
	for _, m := range o.measures() {
		r.Rows = append(r.Rows, Row{Measure: m.name, Unit: m.unit, Per: m.per, Less: m.less})
	}
	return r
}

func (r *Report) add(contender string, m measure, s sample) {
	key := [2]string{m.name, contender}
	r.samples[key] = append(r.samples[key], s)
}

func (r *Report) summarize() {
	for i := range r.Rows {
		row := &r.Rows[i]
		base := r.samples[[2]string{row.Measure, r.order[0]}]
		for _, name := range r.order {
			row.Cells = append(row.Cells, cell(name, r.samples[[2]string{row.Measure, name}], base))
		}
	}
}

func cell(name string, samples, base []sample) Cell {
	c := Cell{Contender: name}
	var ratios []float64
	for i, s := range samples {
		c.Values = append(c.Values, s.value)
		ratios = append(ratios, s.value/base[i].value)
		c.Errors += s.errors
		c.Reopened += s.reopened
		if c.First == "" && s.first != nil {
			c.First = s.first.Error()
		}
	}
	c.Value, c.Ratio = median(c.Values), median(ratios)
	middle := func(of func(int) time.Duration) time.Duration {
		var list []time.Duration
		for i := range samples {
			list = append(list, of(i))
		}
		return median(list)
	}
	c.P99 = middle(func(i int) time.Duration { return samples[i].p99 })
	c.Machine = middle(func(i int) time.Duration { return samples[i].cpu.machine })
	c.Added = middle(func(i int) time.Duration { return samples[i].cpu.machine - base[i].cpu.machine })
	c.Contend = middle(func(i int) time.Duration { return samples[i].cpu.contender })
	c.Generator = middle(func(i int) time.Duration { return samples[i].cpu.generator })
	c.Servers = middle(func(i int) time.Duration { return samples[i].cpu.servers })
	return c
}

func median[N float64 | time.Duration](list []N) N {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	if n := len(sorted); n%2 == 0 {
		return (sorted[n/2-1] + sorted[n/2]) / 2
	}
	return sorted[len(sorted)/2]
}

// Markdown writes the report as tables, one a measure.
func (r *Report) Markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "Linux %s, %d processors, %s, medians of %d interleaved rounds. CPU is processor time of the whole machine "+
		"(client, router and servers) for a unit of work; \"added\" is what it is more than %s.\n",
		r.Kernel, r.Processors, r.Family, r.Rounds, r.order[0])
	for _, row := range r.Rows {
		better := "more is better"
		if row.Less {
			better = "less is better"
		}
		fmt.Fprintf(&b, "\n**%s** (%s, %s)\n\n", row.Measure, row.Unit, better)
		fmt.Fprintf(&b, "| | %s | × %s | p99 | CPU/%s | added | own processes | errors |\n|---|---|---|---|---|---|---|---|\n",
			row.Unit, r.order[0], row.Per)
		for _, c := range row.Cells {
			fmt.Fprintf(&b, "| %s | %s | %.2f | %v | %v | %v | %v | %d |\n", c.Contender, figure(c.Value), c.Ratio,
				short(c.P99), short(c.Machine), short(c.Added), short(c.Contend), c.Errors)
		}
		for _, c := range row.Cells {
			if c.First != "" {
				fmt.Fprintf(&b, "\nFirst error of %s: %s\n", c.Contender, c.First)
			}
		}
	}
	return b.String()
}

// figure keeps three digits that mean something.
func figure(v float64) string {
	switch {
	case v >= 1000:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	}
	return fmt.Sprintf("%.2f", v)
}

func short(d time.Duration) time.Duration {
	switch {
	case d.Abs() >= 10*time.Millisecond:
		return d.Round(time.Millisecond)
	case d.Abs() >= 10*time.Microsecond:
		return d.Round(100 * time.Nanosecond)
	}
	return d.Round(10 * time.Nanosecond)
}
