package experiments

import (
	"fmt"
	"slices"
)

// Course is how a value changed while a sample was taken.
type Course struct {
	Of     string    `json:"of"`      // the value and its unit: "packets in the queue"
	Every  float64   `json:"every_s"` // seconds from one value to the next
	Values []float64 `json:"values"`
}

// courses plots a measure's courses in the first round that has any: a panel for each case, a line for each contender.
func (r *Results) courses(m MeasureInfo, p Plot) (pic picture, ok bool) {
	pic = picture{file: slug(m.Name, string(p.Of)), measure: m.Name, title: p.Title, marks: r.briefMarks(),
		x: axis{label: "s"}, y: axis{values: []float64{0}}}
	if pic.title == "" {
		pic.title = m.title()
	}
	round, longest := 0, 0.0
	colors := palette(r.Contenders)
	for _, c := range r.Cases {
		of := panel{title: c.Name}
		for i, k := range r.Contenders {
			at := slices.IndexFunc(r.Samples, func(s Sample) bool {
				return s.Measure == m.Name && s.Case == c.Name && s.Contender == k.Name && s.Course != nil && (round == 0 || s.Round == round)
			})
			if at < 0 {
				continue
			}
			course := r.Samples[at].Course
			round, pic.y.label = r.Samples[at].Round, course.Of
			s := series{name: k.Name, index: i, color: colors[i], bare: true}
			for j, v := range course.Values {
				s.points = append(s.points, point{x: float64(j) * course.Every, e: Estimate{Median: v, Low: v, High: v, Rounds: 1}})
				pic.y.values = append(pic.y.values, v)
			}
			longest = max(longest, float64(len(course.Values)-1)*course.Every)
			of.lines = append(of.lines, s)
			if !slices.ContainsFunc(pic.legend, func(l series) bool { return l.name == k.Name }) {
				pic.legend = append(pic.legend, series{name: k.Name, index: i, color: colors[i], bare: true})
			}
		}
		if len(of.lines) > 0 {
			pic.panels = append(pic.panels, of)
		}
	}
	if len(pic.panels) == 0 || longest == 0 {
		return picture{}, false
	}
	ticks := linearTicks(0, longest)
	for _, t := range ticks {
		pic.x.values = append(pic.x.values, t.Value)
	}
	if last := ticks[len(ticks)-1].Value; last < longest {
		pic.x.values = append(pic.x.values, last+ticks[1].Value)
	}
	pic.y.settle(30)
	pic.foot = []string{fmt.Sprintf("Round %d. Linux %s, %d processors, all parts on one machine. Baton %s, %s.", round, r.Machine.Kernel,
		r.Machine.Processors, r.Source, r.Began.Format("2 January 2006"))}
	return pic, true
}
