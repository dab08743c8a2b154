package relaycost

import "baton/experiments"

// added is the ratio of what two contenders add to the machine's processor time of direct.
func added(measure, contender, base string) experiments.Figure {
	return experiments.FigureOf("", measure, []string{contender, base, "direct"}, func(s []experiments.Sample) float64 {
		return (s[0].CPU.Machine - s[2].CPU.Machine) / (s[1].CPU.Machine - s[2].CPU.Machine)
	})
}

// own is the ratio of the processor time of two contenders' own processes.
func own(measure, contender, base string) experiments.Figure {
	return experiments.FigureOf("", measure, []string{contender, base}, func(s []experiments.Sample) float64 {
		return s[0].CPU.Contender / s[1].CPU.Contender
	})
}

// later is how much later than directly an answer comes.
func later(measure string) experiments.Figure {
	return experiments.FigureOf("", measure, []string{"baton", "direct"}, func(s []experiments.Sample) float64 { return s[0].Value - s[1].Value })
}

// flowsOfAProcessor is how many flows one processor could set up that did nothing else than what a relay adds.
var flowsOfAProcessor = experiments.FigureOf("", newName, []string{"baton", "direct"}, func(s []experiments.Sample) float64 {
	return 1 / (s[0].CPU.Machine - s[1].CPU.Machine)
})

// flowsOfOwn is how many flows a processor could set up if only what is booked on the relay's own processes counted.
var flowsOfOwn = experiments.FigureOf("", newName, []string{"baton"}, func(s []experiments.Sample) float64 { return 1 / s[0].CPU.Contender })
