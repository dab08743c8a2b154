package relaycost

import (
	"fmt"

	"baton/experiments"
)

// rounds are a contender's samples of a measure, by round.
func rounds(r *experiments.Results, measure, contender string) map[int]experiments.Sample {
	found := map[int]experiments.Sample{}
	for _, s := range r.Samples {
		if s.Measure == measure && s.Contender == contender {
			found[s.Round] = s
		}
	}
	return found
}

// figure makes one of what combine says of each round in which all contenders have a sample, which it gets in their order.
func figure(measure string, contenders []string, combine func(samples []experiments.Sample) float64) experiments.Figure {
	return func(r *experiments.Results) (experiments.Estimate, error) {
		var values []float64
	next:
		for round, first := range rounds(r, measure, contenders[0]) {
			samples := []experiments.Sample{first}
			for _, c := range contenders[1:] {
				s, ok := rounds(r, measure, c)[round]
				if !ok {
					continue next
				}
				samples = append(samples, s)
			}
			values = append(values, combine(samples))
		}
		if len(values) == 0 {
			return experiments.Estimate{}, fmt.Errorf("not measured: %s of %v", measure, contenders)
		}
		return experiments.NewEstimate(values), nil
	}
}

// added is the ratio of what two contenders add to the machine's processor time of direct.
func added(measure, contender, base string) experiments.Figure {
	return figure(measure, []string{contender, base, "direct"}, func(s []experiments.Sample) float64 {
		return (s[0].CPU.Machine - s[2].CPU.Machine) / (s[1].CPU.Machine - s[2].CPU.Machine)
	})
}

// own is the ratio of the processor time of two contenders' own processes.
func own(measure, contender, base string) experiments.Figure {
	return figure(measure, []string{contender, base}, func(s []experiments.Sample) float64 { return s[0].CPU.Contender / s[1].CPU.Contender })
}

// later is how much later than directly an answer comes.
func later(measure string) experiments.Figure {
	return figure(measure, []string{"baton", "direct"}, func(s []experiments.Sample) float64 { return s[0].Value - s[1].Value })
}

// flowsOfAProcessor is how many flows one processor could set up that did nothing else than what a relay adds.
var flowsOfAProcessor = figure(newName, []string{"baton", "direct"}, func(s []experiments.Sample) float64 {
	return 1 / (s[0].CPU.Machine - s[1].CPU.Machine)
})
