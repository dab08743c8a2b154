package anycastpurge

import (
	"fmt"
	"math"

	"baton/experiments"
)

// tableClaims are the paper's table 1.
func tableClaims() (list []experiments.Claim) {
	const where = "Al-Qudah et al. 2009, table 1 (server log)"
	for _, c := range []struct{ contender, paper string }{
		{"0 retries", "2.57 %"}, {"1 retry", "0.167 %"}, {"2 retries", ""}, {"baton", ""}, {"cautious", ""},
	} {
		for _, loss := range []float64{0.1, 1, 3, 10} {
			claim := experiments.Claim{
				What: fmt.Sprintf("connections dropped by %s, at %g %% of loss, all distances combined", c.contender, loss), Unit: "%",
				Ours: pooled(droppedName, c.contender, loss),
			}
			if loss == 1 && c.paper != "" {
				claim.Paper, claim.Where = c.paper, where
			}
			list = append(list, claim)
		}
	}
	return list
}

// liveClaims are the goal.
func liveClaims() (list []experiments.Claim) {
	for _, contender := range []string{"0 retries", "1 retry", "baton", "cautious"} {
		for _, m := range []struct{ measure, what string }{{cutName, "downloads cut by"}, {droppedName, "connections dropped by"}} {
			claim := experiments.Claim{
				What: m.what + " " + contender + ", at 1 % of loss, both sizes combined", Unit: "%", Ours: pooled(m.measure, contender, 1),
			}
			if contender == "baton" || contender == "cautious" {
				claim.AtMost = 0.01
			}
			list = append(list, claim)
		}
	}
	return list
}

// pooled is the share over all rounds and distances, with the interval in which the true share is with 95 %: when none was seen, from 0 to
// 3.7 divided by the downloads (the rule of three, two-sided).
func pooled(measure, contender string, loss float64) experiments.Figure {
	return func(r *experiments.Results) (experiments.Estimate, error) {
		var count, downloads float64
		rounds := make(map[int]bool)
		for _, s := range r.Samples {
			if s.Measure != measure || s.Contender != contender || at(r, s.Case) != loss {
				continue
			}
			count += s.Also["count"]
			downloads += s.Also["downloads"]
			rounds[s.Round] = true
		}
		if downloads == 0 {
			return experiments.Estimate{}, fmt.Errorf("not measured: %s of %s at %g %% of loss", measure, contender, loss)
		}
		low, high := poisson(count)
		return experiments.Estimate{
			Median: count / downloads * 100, Low: low / downloads * 100, High: high / downloads * 100, Coverage: 0.95, Rounds: len(rounds),
		}, nil
	}
}

// at is a case's loss, percent.
func at(r *experiments.Results, name string) float64 {
	for _, c := range r.Cases {
		if c.Name == name {
			return c.At["loss"]
		}
	}
	return math.NaN()
}

// poisson is the interval that holds the mean of what was counted with 95 % (Garwood's): what is rare among many is distributed so.
func poisson(count float64) (low, high float64) {
	const each = 0.025
	// the probability to count at most n when the mean is m
	most := func(n, m float64) float64 {
		sum, term := 0.0, math.Exp(-m)
		for i := 0.0; i <= n; i++ {
			sum += term
			term *= m / (i + 1)
		}
		return sum
	}
	solve := func(below func(m float64) bool) float64 {
		from, to := 0.0, count+20+10*math.Sqrt(count)
		for range 100 {
			if m := (from + to) / 2; below(m) {
				from = m
			} else {
				to = m
			}
		}
		return from
	}
	if count > 0 {
		low = solve(func(m float64) bool { return 1-most(count-1, m) < each })
	}
	return low, solve(func(m float64) bool { return most(count, m) > each })
}
