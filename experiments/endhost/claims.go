package endhost

import (
	"fmt"

	"baton/experiments"
)

// near is the goal beside what is possible, in percent: the paper's controller comes as near to the ideal (section VI.C, figure 8).
const near = 0.5

// choices are the kernel's own methods, on Baton's data plane.
var choices = []string{"even", "turns", "least", "fastest"}

// beside is the goal of a contender in a case: how much longer it takes than the oracle.
func beside(kase, what, contender string, goal float64) experiments.Claim {
	return experiments.Claim{What: fmt.Sprintf("%s: how much longer %s takes than oracle", what, contender), Unit: "%",
		Ours: longer(kase, fetchName, contender, "oracle"), AtMost: goal}
}

// longer is by how many percent a time is longer than another.
func longer(kase, measure, contender, base string) experiments.Figure {
	return experiments.FigureOf(kase, measure, []string{contender, base}, func(s []experiments.Sample) float64 { return (s[0].Value/s[1].Value - 1) * 100 })
}

// told is a figure that the paper tells, beside ours.
func told(kase, what, contender, unit, theirs, where string) experiments.Claim {
	return experiments.Claim{What: what + ", " + contender, Unit: unit, Paper: theirs, Where: paper + ", section VI, " + where,
		Ours: experiments.ValueOf(kase, benchName, contender)}
}

// more is how much longer a time is than another in the paper, beside ours.
func more(kase, what, contender, base, theirs, where string) experiments.Claim {
	return experiments.Claim{What: fmt.Sprintf("%s: how much longer %s takes than %s", what, contender, base), Unit: "%", Paper: theirs,
		Where: paper + ", section VI, " + where, Ours: longer(kase, benchName, contender, base)}
}

func sizeClaims() (list []experiments.Claim) {
	const what = "100 × 100 kB"
	even, uneven := sizeCase(100, 10), sizeCase(100, 20)
	list = append(list,
		told(even, what+" by 10 Mbit/s", "one-link", "s", "8.4 s", "figure 6"),
		told(even, what+" by 2 × 10 Mbit/s", "ovs-controller", "s", "4.2 s", "figure 6"),
		more(even, what+" by 2 × 10 Mbit/s, 2 at a time", "ovs-controller", "ideal", "0 %", "figure 6"),
		more(even, what+" by 2 × 10 Mbit/s, 2 at a time", "ovs-hash", "ideal", "significant", "figure 6"),
		told(uneven, what+" by 10 + 20 Mbit/s", "ideal", "s", "2.8 s", "figure 9"),
		told(uneven, what+" by 10 + 20 Mbit/s", "ovs-controller", "s", "2.82 s", "figure 9"),
		told(uneven, what+" by 10 + 20 Mbit/s", "ovs-hash", "s", "2.99 s", "figure 9"),
		more(uneven, what+" by 10 + 20 Mbit/s", "ovs-controller", "ideal", "0.7 %", "figure 9"),
		more(uneven, what+" by 10 + 20 Mbit/s", "ovs-hash", "ideal", "less than 7 %", "figure 9"),
	)
	for _, c := range choices {
		list = append(list, beside(even, "100 kB, 2 × 10 Mbit/s, 2 at a time", c, near), beside(uneven, "100 kB, 10 + 20 Mbit/s, 20 at a time", c, near))
	}
	return list
}

func concurrencyClaims() (list []experiments.Claim) {
	list = append(list,
		more(concurrencyCase(2, 10), "2 at a time", "ovs-controller", "ideal", "0 %", "figure 7"),
		more(concurrencyCase(2, 10), "2 at a time", "ovs-hash", "ideal", "significant", "figure 7"),
		more(concurrencyCase(20, 10), "20 at a time", "ovs-hash", "ideal", "little", "figure 7"),
	)
	for _, second := range []float64{10, 20} {
		for _, n := range []float64{2, 3, 5, 10, 20} {
			for _, c := range choices {
				list = append(list, beside(concurrencyCase(n, second), fmt.Sprintf("10 + %g Mbit/s, %g at a time", second, n), c, near))
			}
		}
	}
	return list
}

func linksClaims() (list []experiments.Claim) {
	for n := 2.0; n <= most; n++ {
		what := fmt.Sprintf("%g links, 20 at a time", n)
		list = append(list, more(linksCase(n, 20), what, "ovs-controller", "ideal", "at most 0.5 %", "figure 8"),
			more(linksCase(n, 20), what, "ovs-hash", "ideal", "at most 6 %", "figure 8"))
	}
	for _, concurrency := range []float64{20, oneEach} {
		for n := 2.0; n <= most; n++ {
			what := linksCase(n, concurrency)
			for _, c := range choices {
				list = append(list, beside(what, what, c, near))
			}
		}
	}
	return list
}
