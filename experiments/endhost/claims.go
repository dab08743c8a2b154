package endhost

import (
	"fmt"
	"slices"

	"baton/experiments"
)

// near is the goal beside what is possible, in percent: the paper's controller comes as near to the ideal (section VI.C, figure 8).
const near = 0.5

// choices are the kernel's own methods, on Baton's data plane.
var choices = []string{"even", "round-robin", "least", "fastest"}

// beside is the goal of a contender in a case: how much longer it takes than the oracle.
func beside(kase, what, contender string, goal float64) experiments.Claim {
	return experiments.Claim{What: fmt.Sprintf("%s: how much longer %s takes than oracle", what, contender), Unit: "%",
		Ours: longer(kase, fetchName, contender, "oracle"), AtMost: goal}
}

// longer is by how many percent a time is longer than another.
func longer(kase, measure, contender, base string) experiments.Figure {
	return experiments.FigureOf(kase, measure, []string{contender, base}, func(s []experiments.Sample) float64 { return (s[0].Value/s[1].Value - 1) * 100 })
}

// published is a figure of the paper, next to ours by ab.
func published(kase, what, contender, unit, theirs, where string) experiments.Claim {
	return experiments.Claim{What: what + ", " + contender, Unit: unit, Paper: theirs, Where: paper + ", section VI, " + where,
		Ours: experiments.ValueOf(kase, benchName, contender)}
}

// more is how much longer a time is than another in the paper, beside ours.
func more(kase, what, measure, contender, base, theirs, where string) experiments.Claim {
	return experiments.Claim{What: fmt.Sprintf("%s: how much longer %s takes than %s", what, contender, base), Unit: "%", Paper: theirs,
		Where: paper + ", section VI, " + where, Ours: longer(kase, measure, contender, base)}
}

// goals are those of the kernel's methods in the cases with as many requests at a time as links, or more.
func goals(e experiments.Experiment[*Topology], cases []Case) (list []experiments.Claim) {
	for _, c := range cases {
		if linksOf(c) < 2 || concurrencyOf(c) < linksOf(c) {
			continue
		}
		for _, k := range e.Contenders {
			if slices.Contains(choices, k.Name) && !k.Skips(c, fetchName) {
				list = append(list, beside(c.Name, c.Name, k.Name, near))
			}
		}
	}
	return list
}

func sizeClaims() (list []experiments.Claim) {
	const what = "100 × 100 kB"
	even, uneven := sizeCase(100, 10), sizeCase(100, 20)
	list = append(list,
		published(even, what+" by 10 Mbit/s", "one-link", "s", "8.4 s", "figure 6"),
		published(even, what+" by 2 × 10 Mbit/s", "ovs-controller", "s", "4.2 s", "figure 6"),
		more(even, what+" by 2 × 10 Mbit/s, 2 at a time", benchName, "ovs-controller", "ideal", "0 %", "figure 6"),
		more(even, what+" by 2 × 10 Mbit/s, 2 at a time", benchName, "ovs-hash", "ideal", "significant", "figure 6"),
		published(uneven, what+" by 10 + 20 Mbit/s", "ideal", "s", "2.8 s", "figure 9"),
		published(uneven, what+" by 10 + 20 Mbit/s", "ovs-controller", "s", "2.82 s", "figure 9"),
		published(uneven, what+" by 10 + 20 Mbit/s", "ovs-hash", "s", "2.99 s", "figure 9"),
		more(uneven, what+" by 10 + 20 Mbit/s", benchName, "ovs-controller", "ideal", "0.7 %", "figure 9"),
		more(uneven, what+" by 10 + 20 Mbit/s", benchName, "ovs-hash", "ideal", "less than 7 %", "figure 9"),
	)
	return append(list, beside(even, "100 kB, 2 × 10 Mbit/s, 2 at a time", "even", near), beside(uneven, "100 kB, 10 + 20 Mbit/s, 20 at a time", "even", near))
}

func concurrencyClaims() []experiments.Claim {
	return []experiments.Claim{
		more(concurrencyCase(2, 10), "2 at a time", fetchName, "ovs-controller", "ideal", "0 %", "figure 7"),
		more(concurrencyCase(2, 10), "2 at a time", fetchName, "ovs-hash", "ideal", "significant", "figure 7"),
		more(concurrencyCase(20, 10), "20 at a time", fetchName, "ovs-hash", "ideal", "little", "figure 7"),
	}
}

func linksClaims() (list []experiments.Claim) {
	for n := 2.0; n <= most; n++ {
		what := fmt.Sprintf("%g links, 20 at a time", n)
		list = append(list, more(linksCase(n, 20), what, fetchName, "ovs-controller", "ideal", "at most 0.5 %", "figure 8"),
			more(linksCase(n, 20), what, fetchName, "ovs-hash", "ideal", "at most 6 %", "figure 8"))
	}
	return list
}
