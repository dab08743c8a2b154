package relay

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/emulator"
)

// place is which of three relays split the path, and how far the middle one is from the first.
type place struct {
	name   string
	relays []int         // numbers, from 0
	middle time.Duration // round trip from the first relay
}

// Of figure 10: one relay of a region, two nearest to the ends, and these with a third.
var places = []place{
	{"one, near the client", []int{0}, middleRTT / 2},
	{"one, in the middle", []int{1}, middleRTT / 2},
	{"one, near the server", []int{2}, middleRTT / 2},
	{"two", []int{0, 2}, middleRTT / 2},
	{"three, the third at a quarter", []int{0, 1, 2}, middleRTT / 4},
	{"three, the third in the middle", []int{0, 1, 2}, middleRTT / 2},
}

func placeOf(c experiments.Case) place {
	return places[slices.IndexFunc(places, func(p place) bool { return p.name == c.Name })]
}

// route has the third relay between the two, which routes where it does not split. A part of the cloud's link has its part of the losses.
func (p place) route() route {
	w := twoRelays(fastAccess * 1e6)
	near, far := w.legs[1], w.legs[1]
	near.rtt = p.middle
	far.rtt -= p.middle
	near.loss, far.loss = near.loss*near.part(), far.loss*far.part()
	w.legs = []leg{w.legs[0], near, far, w.legs[2]}
	return w
}

// predicted is by which factor a third relay shortens a download, by the paper's estimator (section 4.4): the round trip between two
// relays by the longer one of those to the third.
func (p place) predicted() float64 {
	return middleRTT.Seconds() / max(p.middle, middleRTT-p.middle).Seconds()
}

// Chain is the question of figures 10 to 12.
func Chain() experiments.Experiment[*Path] {
	e := experiments.Experiment[*Path]{
		Name:     "relay-chain",
		Question: "How many relays does a path need, and which congestion control?",
		Method: method + " A third host between the relays splits the path too, or only routes. The file has 4 MiB, as that of the paper's server in Mumbai. " +
			"CUBIC, BBR and turbo-start are on the relays alone, all of their sockets; turbo-start is CUBIC, with a first window of 2,000 " +
			"segments between relays. Early SYN is off.",
		Contenders: []Contender{
			endToEnd(),
			chain("cubic", "relays with CUBIC", "cubic", "cubic", "system"),
			chain("bbr", "relays with BBR", "bbr", "bbr", "system"),
			chain("turbo", "relays with CUBIC that begins with 2,000 segments between them", "cubic", "cubic", strconv.Itoa(turboWindow)),
		},
		Measures: []Measure{total(func(c experiments.Case) route { return placeOf(c).route() })},
		Rounds:   3,
		Build:    func(_ context.Context, s *experiments.Setup) (*Path, error) { return build(s, 3), nil },
		Enter: func(_ context.Context, p *Path, c experiments.Case) error {
			p.set(placeOf(c).route())
			return nil
		},
		Emulated: true,
		Claims:   chainClaims(),
		Plots: []experiments.Plot{
			{Measure: totalName, Title: "Time of 4 MiB by one, two and three relays (the paper's figures 10 and 11); less is better"},
			{Measure: totalName, Of: experiments.OfRatio, Title: "The same beside e2e (the paper's figures 10 and 11); less is better"},
		},
		Caveats: []string{
			"The paper's relays are in regions of a cloud, each with a path of its own. Here all ways are equally long and equally good, so that only " +
				"how they are divided counts.",
		},
	}
	for _, p := range places {
		e.Cases = append(e.Cases, experiments.Case{Name: p.name, At: map[string]float64{"size": 4 << 10}, Quick: p.name == "two"})
	}
	return e
}

// chain is Baton's relays on those places that the case has, with a congestion control on their hosts and on trunks.
func chain(name, is, hosts, trunks, start string) Contender {
	c := batonOn(name, is, settings{trunks: true, congestion: trunks, start: start}, func(t *Turn) []int { return placeOf(t.Case).relays })
	if hosts == "cubic" {
		return c
	}
	return onHosts(c, hosts, func(p *Path) []*lab.Host { return p.Relays })
}

func chainClaims() (list []experiments.Claim) {
	const where = paper + ", sections 4.1 to 4.4, figures "
	const two = "two"
	for _, c := range []string{"bbr", "turbo"} {
		claim := experiments.Claim{What: "time by two relays, " + c + " beside cubic", Unit: "×", Ours: experiments.RatioOf(two, totalName, c, "cubic"),
			Paper: "no better", Where: where + "11"}
		if c == "turbo" {
			claim.Paper, claim.AtMost = "significantly better", 0.9
		}
		list = append(list, claim)
	}
	for _, p := range places {
		if len(p.relays) < 3 {
			continue
		}
		for _, c := range []string{"cubic", "turbo"} {
			claim := experiments.Claim{What: fmt.Sprintf("%s: how many times sooner than by two, %s", p.name, c), Unit: "×", Ours: sooner(two, p.name, c),
				Paper: fmt.Sprintf("%.2f × by its estimator", p.predicted()), Where: where + "10 and 12(b)"}
			if c == "turbo" {
				claim.Paper = "hardly"
			}
			list = append(list, claim)
		}
	}
	return list
}

// sooner is a ratio of two cases: of medians, as rounds are too far apart to be paired.
func sooner(kase, than, contender string) experiments.Figure {
	return func(r *experiments.Results) (experiments.Estimate, error) {
		a, err := experiments.ValueOf(kase, totalName, contender)(r)
		if err != nil {
			return a, err
		}
		b, err := experiments.ValueOf(than, totalName, contender)(r)
		return experiments.Estimate{Median: a.Median / b.Median, Low: a.Low / b.High, High: a.High / b.Low, Rounds: b.Rounds}, err
	}
}

// part is a leg's of the link between the two relays.
func (l leg) part() emulator.Share { return emulator.Share(l.rtt.Seconds() / middleRTT.Seconds()) }
