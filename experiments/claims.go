package experiments

import "fmt"

// Claim is a line of the report's result: a figure of the paper next to ours, or a goal of our own.
type Claim struct {
	What  string // "bytes a second of a bulk download, Baton relative to a 302"
	Paper string // the paper's figure with its unit; empty: none
	Where string // paper and place in it
	Unit  string // of ours: "×", "ms"
	Ours  Figure

	AtLeast, AtMost float64 // our goal; 0: none
}

// Figure computes a figure from the results.
type Figure func(*Results) (Estimate, error)

// RatioOf returns a contender's ratio to another in a case ("" if there is only one).
func RatioOf(kase, measure, contender, base string) Figure {
	return func(r *Results) (Estimate, error) {
		e := r.Ratio(kase, contender, base, measure)
		return e, e.missing(kase, measure, contender, base)
	}
}

// ValueOf returns a contender's median in a case.
func ValueOf(kase, measure, contender string) Figure {
	return func(r *Results) (Estimate, error) {
		e := r.Value(kase, contender, measure)
		return e, e.missing(kase, measure, contender)
	}
}

// ProcessorOf returns the ratio of two contenders' CPU time of the machine for a unit of work.
func ProcessorOf(kase, measure, contender, base string) Figure {
	return func(r *Results) (Estimate, error) {
		e := r.versus(kase, contender, base, measure, machineUse, func(v, b float64) float64 { return v / b })
		return e, e.missing(kase, measure, contender, base)
	}
}

// FigureOf computes one figure for each round from the samples of some contenders, which combine gets in order. Rounds that lack one of
// them are left out.
func FigureOf(kase, measure string, contenders []string, combine func([]Sample) float64) Figure {
	return func(r *Results) (Estimate, error) {
		e := r.combined(len(contenders), func(s *Sample, i int) bool {
			return s.Case == kase && s.Contender == contenders[i] && s.Measure == measure
		}, combine)
		return e, e.missing(append([]string{kase, measure}, contenders...)...)
	}
}

// AcrossOf is FigureOf for a contender's samples in some cases.
func AcrossOf(cases []string, measure, contender string, combine func([]Sample) float64) Figure {
	return func(r *Results) (Estimate, error) {
		e := r.combined(len(cases), func(s *Sample, i int) bool {
			return s.Case == cases[i] && s.Contender == contender && s.Measure == measure
		}, combine)
		return e, e.missing(append([]string{measure, contender}, cases...)...)
	}
}

// combined computes one figure for each round that has a sample for each of n places.
func (r *Results) combined(n int, at func(s *Sample, place int) bool, combine func([]Sample) float64) Estimate {
	rounds := map[int][]Sample{}
	for i := range n {
		for _, s := range r.Samples {
			if at(&s, i) && len(rounds[s.Round]) == i {
				rounds[s.Round] = append(rounds[s.Round], s)
			}
		}
	}
	var values []float64
	for _, samples := range rounds {
		if len(samples) == n {
			values = append(values, combine(samples))
		}
	}
	return estimate(values)
}

// LargestOf is the figure with the largest median. Figures that were not measured are left out, unless all are.
func LargestOf(figures ...Figure) Figure {
	return func(r *Results) (largest Estimate, missing error) {
		for _, f := range figures {
			e, err := f(r)
			if err != nil {
				missing = err
				continue
			}
			if largest.Rounds == 0 || e.Median > largest.Median {
				largest = e
			}
		}
		if largest.Rounds > 0 {
			return largest, nil
		}
		return largest, missing
	}
}

func (e Estimate) missing(what ...string) error {
	if e.Rounds == 0 {
		return fmt.Errorf("not measured: %s", sentence(what...))
	}
	return nil
}

// verdict says whether the goal is reached. A goal within the interval is open: these rounds cannot decide.
func (c Claim) verdict(e Estimate) string {
	reached, missed := e.Low >= c.AtLeast, e.High < c.AtLeast
	if c.AtMost > 0 {
		reached, missed = e.High <= c.AtMost, e.Low > c.AtMost
	}
	switch {
	case reached:
		return "reached"
	case missed:
		return "missed"
	case e.Median >= c.AtLeast && c.AtLeast > 0 || c.AtMost > 0 && e.Median <= c.AtMost:
		return "reached at the median, not by the whole interval"
	}
	return "missed at the median, not by the whole interval"
}

func (c Claim) goal() string {
	switch {
	case c.AtLeast > 0:
		return fmt.Sprintf("≥ %s", with(figure(c.AtLeast), c.Unit))
	case c.AtMost > 0:
		return fmt.Sprintf("≤ %s", with(figure(c.AtMost), c.Unit))
	}
	return ""
}
