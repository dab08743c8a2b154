package experiments

import (
	"fmt"
	"image/color"
	"maps"
	"math"
	"slices"
	"strings"
)

// Plot describes a picture: a figure of a measure, of all contenders. Cases without parameters are panels of bars; with them,
// lines run over one, and each combination of the others is a panel.
type Plot struct {
	Measure string
	Of      Aspect
	Over    string // parameter of the x axis; default: the first
	Title   string // default: the quantity, and whether more or less is better
}

// Aspect is which figure of a measure a plot shows.
type Aspect string

const (
	OfValue     Aspect = ""
	OfRatio     Aspect = "ratio"     // to the baseline
	OfProcessor Aspect = "processor" // machine's time for a unit of work
	OfP99       Aspect = "p99"       // of single requests
	OfCourse    Aspect = "course"    // of the first round's samples, over the time
)

// Drawn is a picture that was written: File.svg.
type Drawn struct{ File, Measure, Title string }

// defaultPlots returns each measure's value, and its CPU time if known.
func (r *Results) defaultPlots() []Plot {
	var plots []Plot
	for _, m := range r.Measures {
		plots = append(plots, Plot{Measure: m.Name})
		if m.Per != "" {
			plots = append(plots, Plot{Measure: m.Name, Of: OfProcessor})
		}
	}
	return plots
}

// picture is the content of a plot, in words and numbers.
type picture struct {
	file, measure string
	title         string
	marks         []string // reasons for not trusting it
	foot          []string
	legend        []series // of lines; bars have their names beside them
	panels        []panel
	base          string // the baseline's name
	y             axis
	x             axis // of lines
}

type panel struct {
	title string
	bars  []series // one point each
	lines []series
}

type series struct {
	name   string
	index  int // among all contenders of the picture
	color  color.Color
	points []point
	bare   bool // a line without markers, as it has many points
}

type point struct {
	x      float64
	e      Estimate
	ratio  float64 // to the baseline; NaN for itself
	failed int64
}

type axis struct {
	label  string
	log    bool
	values []float64 // values that occur
}

// picture is the plot of these results; ok is false when there is nothing to show.
func (r *Results) picture(p Plot) (pic picture, ok bool) {
	at := slices.IndexFunc(r.Measures, func(m MeasureInfo) bool { return m.Name == p.Measure })
	if at < 0 || !r.has(p.Measure) {
		return picture{}, false
	}
	m := r.Measures[at]
	if p.Of == OfCourse {
		return r.courses(m, p)
	}
	f := r.aspect(m, p.Of)
	pic = picture{file: slug(m.Name, string(p.Of)), measure: m.Name, title: p.Title,
		marks: r.briefMarks(), foot: r.foot(), base: r.Contenders[0].Name, y: axis{label: f.label}}
	if pic.title == "" {
		pic.title = f.title
	}
	over := p.Over
	if over == "" && len(r.Parameters) > 0 {
		over = r.Parameters[0].Name
	}
	if i := slices.IndexFunc(r.Parameters, func(x Parameter) bool { return x.Name == over }); i >= 0 && r.varies(over, m.Name) {
		pic.x.label = sentence(r.Parameters[i].Title, r.Parameters[i].Unit)
		r.lines(&pic, f, over)
	} else {
		r.bars(&pic, f)
	}
	return pic, len(pic.panels) > 0
}

// varies reports whether a measure was taken at several values of a parameter: a line needs two points.
func (r *Results) varies(parameter, measure string) bool {
	seen := map[float64]bool{}
	for _, s := range r.Samples {
		if s.Measure != measure {
			continue
		}
		for _, c := range r.Cases {
			if v, ok := c.At[parameter]; ok && c.Name == s.Case {
				seen[v] = true
			}
		}
	}
	return len(seen) > 1
}

// shown is the figure that a plot shows for a contender in a case.
type shown struct {
	title, label string
	of           func(kase, contender string) Estimate
	ratio        func(kase, contender string) Estimate // to the baseline; nil: the figure is one
	failed       func(kase, contender string) int64
}

func (r *Results) aspect(m MeasureInfo, of Aspect) shown {
	base := r.Contenders[0].Name
	better := "more is better"
	if m.Less {
		better = "less is better"
	}
	s := shown{title: m.title() + "; " + better, label: m.Unit}
	s.failed = func(kase, contender string) int64 { n, _ := r.errors(kase, contender, m.Name); return n }
	pick := func(of func(Sample) (float64, bool)) {
		s.of = func(kase, contender string) Estimate { return r.over(kase, contender, m.Name, of) }
		s.ratio = func(kase, contender string) Estimate {
			return r.versus(kase, contender, base, m.Name, of, func(v, b float64) float64 { return v / b })
		}
	}
	pick(value)
	switch of {
	case OfRatio:
		s.title, s.label = m.title()+", beside "+base+"; "+better, "× "+base
		s.of, s.ratio = s.ratio, nil
	case OfProcessor:
		s.title, s.label = fmt.Sprintf("Processor time of the whole machine for a %s (%s); less is better", m.Per, m.Name), "s/"+m.Per
		pick(machineUse)
	case OfP99:
		s.title, s.label = fmt.Sprintf("Slowest hundredth of single requests (%s): 99th percentile; less is better", m.Name), "s"
		pick(func(x Sample) (float64, bool) {
			if x.Single == nil {
				return 0, false
			}
			return x.Single.P99, true
		})
	}
	if of == OfProcessor || of == OfP99 {
		s.scale(r)
	}
	return s
}

// scale converts seconds to the unit that suits the largest of them.
func (s *shown) scale(r *Results) {
	largest, of := 0.0, s.of
	for _, c := range r.Cases {
		for _, k := range r.Contenders {
			if e := of(c.Name, k.Name); e.Rounds > 0 {
				largest = max(largest, e.Median)
			}
		}
	}
	for _, u := range []struct {
		name   string
		factor float64
	}{{"s", 1}, {"ms", 1e3}, {"µs", 1e6}, {"ns", 1e9}} {
		if largest*u.factor < 1 && u.name != "ns" {
			continue
		}
		s.label = u.name + strings.TrimPrefix(s.label, "s")
		s.of = func(kase, contender string) Estimate {
			e := of(kase, contender)
			e.Median, e.Low, e.High = e.Median*u.factor, e.Low*u.factor, e.High*u.factor
			return e
		}
		return
	}
}

// bars has a panel a case.
func (r *Results) bars(pic *picture, f shown) {
	colors := palette(r.Contenders)
	for _, c := range r.Cases {
		p := panel{title: c.Name}
		for i, k := range r.Contenders {
			e := f.of(c.Name, k.Name)
			if e.Rounds == 0 {
				continue
			}
			pt := point{e: e, ratio: math.NaN(), failed: f.failed(c.Name, k.Name)}
			if i > 0 && f.ratio != nil {
				pt.ratio = f.ratio(c.Name, k.Name).Median
			}
			p.bars = append(p.bars, series{name: k.Name, index: i, color: colors[i], points: []point{pt}})
			pic.y.values = append(pic.y.values, e.Median, e.High)
		}
		if len(p.bars) > 0 {
			pic.panels = append(pic.panels, p)
		}
	}
}

// lines has a panel for each combination of the parameters that are not on the x axis.
func (r *Results) lines(pic *picture, f shown, over string) {
	colors := palette(r.Contenders)
	var titles []string
	groups := map[string][]Case{}
	for _, c := range r.Cases {
		if _, ok := c.At[over]; !ok {
			continue
		}
		title := r.elsewhere(c, over)
		if _, ok := groups[title]; !ok {
			titles = append(titles, title)
		}
		groups[title] = append(groups[title], c)
	}
	for _, title := range titles {
		p := panel{title: title}
		for i, k := range r.Contenders {
			s := series{name: k.Name, index: i, color: colors[i]}
			for _, c := range groups[title] {
				e := f.of(c.Name, k.Name)
				if e.Rounds == 0 {
					continue
				}
				s.points = append(s.points, point{x: c.At[over], e: e, failed: f.failed(c.Name, k.Name)})
				pic.x.values = append(pic.x.values, c.At[over])
				pic.y.values = append(pic.y.values, e.Median, e.Low, e.High)
			}
			if len(s.points) == 0 {
				continue
			}
			slices.SortFunc(s.points, func(a, b point) int { return int(math.Copysign(1, a.x-b.x)) })
			p.lines = append(p.lines, s)
			if !slices.ContainsFunc(pic.legend, func(l series) bool { return l.name == k.Name }) {
				pic.legend = append(pic.legend, series{name: k.Name, index: i, color: colors[i]})
			}
		}
		if len(p.lines) > 0 {
			pic.panels = append(pic.panels, p)
		}
	}
	if pic.fails() {
		pic.legend = append(pic.legend, series{name: "requests failed", index: failures})
	}
	pic.x.settle(20)
	pic.y.settle(30)
}

func (p picture) fails() bool {
	for _, panel := range p.panels {
		for _, s := range panel.lines {
			if slices.ContainsFunc(s.points, func(pt point) bool { return pt.failed > 0 }) {
				return true
			}
		}
	}
	return false
}

// elsewhere names a case's place on all axes but one: "loss 1 %".
func (r *Results) elsewhere(c Case, over string) string {
	var parts []string
	known := map[string]bool{over: true}
	for _, p := range r.Parameters {
		if v, ok := c.At[p.Name]; ok && !known[p.Name] {
			parts = append(parts, sentence(p.Title)+" "+p.text(v))
			known[p.Name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.At)) {
		if !known[name] {
			parts = append(parts, Parameter{Name: name}.named(c.At[name]))
		}
	}
	return strings.Join(parts, ", ")
}

// settle makes the axis logarithmic if the values span more than this factor.
func (a *axis) settle(factor float64) {
	if len(a.values) == 0 {
		return
	}
	low, high := slices.Min(a.values), slices.Max(a.values)
	a.log = low > 0 && high/low >= factor
	slices.Sort(a.values)
	a.values = slices.Compact(a.values)
}

// foot says where the figures are from.
func (r *Results) foot() []string {
	text := "Single samples"
	if r.Options.Rounds > 1 {
		text = fmt.Sprintf("Medians of %d rounds; whiskers are their %s intervals", r.Options.Rounds, percent(r.coverage()))
	}
	return []string{fmt.Sprintf("%s. Linux %s, %d processors, all parts on one machine. Baton %s, %s.", text, r.Machine.Kernel,
		r.Machine.Processors, r.Source, r.Began.Format("2 January 2006"))}
}

// slug is a name that files and links can have.
func slug(parts ...string) string {
	var b strings.Builder
	for _, c := range strings.ToLower(strings.Join(strings.Fields(strings.Join(parts, " ")), "-")) {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' || c == '-' {
			b.WriteRune(c)
		}
	}
	return b.String()
}
