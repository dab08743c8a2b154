// Package relay asks what splitting a long path is worth: the figures of Pied Piper (7 to 15), on a path with its round-trip times, with
// Baton's relays beside one connection, and beside proxies that split as well.
package relay

import (
	"context"
	"fmt"
	"slices"
	"time"

	"baton/experiments"
	"baton/lab/emulator"
)

const (
	paper = "Pied Piper (arXiv 1812.05582)"

	method = "The path of the paper's section 3.3: a client, a relay 25 ms from it (round-trip times), a second one 215 ms from the first, a server 25 ms from that. " +
		"The public Internet between client and server is as long, 265 ms, and loses 0.01 % of packets each way: that makes downloads about as much longer as in " +
		"figure 8, of whose losses the paper says nothing. The relays' link loses 0.001 % (the paper: an order of magnitude less, section 3.1) and has 1 Gbit/s; " +
		"the short legs are a tenth of the public path and have a tenth of its loss. The client's " +
		"access has the same rate whichever way it takes. Each link has a queue of 100 ms of its rate. The server is nginx; all hosts have CUBIC, first windows " +
		"of 10 segments and room for windows of 64 MiB, and keep nothing from one connection for the next (`tcp_no_metrics_save`). Times are those that curl calls " +
		"starttransfer and total; every byte is checked."
)

// Experiment is the question of figures 7 and 8.
func Experiment() experiments.Experiment[*Path] {
	return experiments.Experiment[*Path]{
		Name:       "relay",
		Question:   "How soon does a download over a long path come, by relays that split it?",
		Method:     method,
		Cases:      cases(),
		Parameters: []experiments.Parameter{{Name: "size", Title: "size", Unit: "KiB"}, {Name: "access", Title: "client's access", Unit: "Mbit/s"}},
		Contenders: slices.Concat([]Contender{endToEnd(), endToEndBBR(), routed()}, others(), steps(), []Contender{
			bbr("haproxy-bbr", haproxy()), bbr("turbo-bbr", baton("turbo", "", turbo)), ideal(),
		}),
		Measures: []Measure{total(routeOf), first(routeOf)},
		Rounds:   3,
		Build:    func(_ context.Context, s *experiments.Setup) (*Path, error) { return build(s, 2), nil },
		Enter: func(_ context.Context, p *Path, c experiments.Case) error {
			p.set(routeOf(c))
			return nil
		},
		Emulated: true,
		Claims:   claims(),
		Plots: []experiments.Plot{
			{Measure: totalName, Title: "Time of a download (the paper's figure 8); less is better"},
			{Measure: totalName, Of: experiments.OfRatio, Title: "Time of a download beside e2e (the paper's figure 8); less is better"},
			{Measure: firstName, Title: "Time to the first byte (the paper's figure 7); less is better"},
		},
		Caveats: caveats,
	}
}

var caveats = []string{
	"Why the ideal pipe is out of reach for some sizes, whatever relays do: server and client are as they are. The client's handshake takes 25 ms, the " +
		"server's and the first relay's windows open from ten segments in round trips of 25 ms, and headers take 4.6 % of the access. For 1 MiB at " +
		"100 Mbit/s that is 1.33 times the pipe's time, for 10 MiB 1.14 times, for 100 MiB 1.06 times; at 10 Mbit/s 1.07 and 1.05 times. Losses come on top.",
	"A loss halts CUBIC's growth on the leg that it is on, also on the first and the last one: a download of 100 MiB has 0.7 losses on each of them, and one " +
		"that comes early in the server's slow start can double its time. Towards the client, relays' hosts with BBR (`turbo-bbr`, `haproxy-bbr`) avoid that.",
	"CUBIC leaves slow start when round trips grow by 4 ms (HyStart): on a busy machine the lab's own lateness does that, and a download takes twice as long.",
	"Losses are independent of each other and of the load, and one download has the path to itself: real paths lose in bursts, and because of others.",
	"`ideal` has no headers.",
	"Goals are those of `baton`: what one gets by the defaults. Its trunks have a keyed MAC here, and no TLS.",
}

// The sizes of the paper are 10 KB to 50 MB. The slow access is asked for some.
const (
	fastAccess = 100 // Mbit/s
	slowAccess = 10
)

func cases() (list []experiments.Case) {
	add := func(access, kib float64) {
		c := experiments.Case{Name: caseName(access, kib), At: map[string]float64{"size": kib, "access": access}}
		c.Quick = access == fastAccess && kib == 100
		c.Once = kib >= access*(1<<10) // 8 s of the access, and minutes over the public Internet
		list = append(list, c)
	}
	for _, kib := range []float64{10, 100, 1 << 10, 10 << 10, 100 << 10} {
		add(fastAccess, kib)
	}
	for _, kib := range []float64{1 << 10, 10 << 10} {
		add(slowAccess, kib)
	}
	return list
}

func caseName(access, kib float64) string {
	if kib >= 1<<10 {
		return fmt.Sprintf("%g MiB at %g Mbit/s", kib/(1<<10), access)
	}
	return fmt.Sprintf("%g KiB at %g Mbit/s", kib, access)
}

func routeOf(c experiments.Case) route { return twoRelays(emulator.Rate(c.At["access"] * 1e6)) }

func claims() (list []experiments.Claim) {
	w := twoRelays(fastAccess * 1e6)
	const ms = float64(time.Millisecond)
	kase := caseName(fastAccess, 100)
	between := func(measure, a, b string) experiments.Figure {
		return experiments.FigureOf(kase, measure, []string{a, b}, difference)
	}
	list = append(list,
		experiments.Claim{What: "first byte: what early SYN saves", Unit: "ms", Ours: between(firstName, "split", "early"),
			Paper: "the round trips of both outer legs", Where: paper + ", section 3.3, figure 7", AtLeast: float64(clientRTT+serverRTT)/ms - 2},
		experiments.Claim{What: "first byte: what trunks save besides", Unit: "ms", Ours: between(firstName, "early", "trunks"),
			Paper: "a round trip between the relays, less the client's handshake", Where: paper + ", section 3.3, figure 7",
			AtLeast: float64(middleRTT-clientRTT)/ms - 2},
		experiments.Claim{What: "first byte on a new connection", Unit: "ms", Ours: experiments.ValueOf(kase, firstName, "baton"),
			AtMost: float64(w.firstByte())/ms + 1},
		experiments.Claim{What: "the same, more than the lab's own round trip (half of routed) and the longer outer leg", Unit: "ms",
			Ours: experiments.FigureOf(kase, firstName, []string{"baton", "routed"}, moreThanPath), AtMost: 1},
	)
	for _, c := range cases() {
		list = append(list, experiments.Claim{What: "time of " + c.Name + ", beside e2e", Unit: "×",
			Ours: experiments.RatioOf(c.Name, totalName, "baton", "e2e"), Paper: "down to 0.33 ×", Where: paper + ", section 3.3, figure 8"})
	}
	for _, c := range cases() {
		list = append(list, experiments.Claim{What: "time of " + c.Name + ", beside the best that is not Baton's", Unit: "×", Ours: besideBest(c.Name), AtMost: 1})
	}
	for _, c := range cases() {
		if sizeOf(c) >= 1<<20 {
			list = append(list, experiments.Claim{What: "time of " + c.Name + ", turbo-bbr beside haproxy-bbr", Unit: "×",
				Ours: experiments.RatioOf(c.Name, totalName, "turbo-bbr", "haproxy-bbr"), AtMost: 1})
		}
	}
	for _, c := range cases() {
		size := sizeOf(c)
		if size < 1<<20 {
			continue
		}
		least := float64(routeOf(c).reachable(size)) / ms
		beside := func(contender string) experiments.Figure {
			return experiments.FigureOf(c.Name, totalName, []string{contender}, func(s []experiments.Sample) float64 { return s[0].Value / least })
		}
		list = append(list,
			experiments.Claim{What: "time of " + c.Name + ", beside the ideal pipe", Unit: "×", Ours: experiments.RatioOf(c.Name, totalName, "baton", "ideal"),
				AtMost: 1.1},
			experiments.Claim{What: fmt.Sprintf("the same, beside what ends leave that are as they are (%.0f ms)", least), Unit: "×", Ours: beside("baton"),
				AtMost: 1.1},
			experiments.Claim{What: "the same, turbo-bbr", Unit: "×", Ours: beside("turbo-bbr"), AtMost: 1.1})
	}
	return list
}

// moreThanPath is how much later than the path allows a first byte comes: of the relays' and of a connection that is only routed, which
// takes two round trips.
func moreThanPath(s []experiments.Sample) float64 {
	return s[0].Value - s[1].Value/2 - milliseconds(max(clientRTT, serverRTT))
}

// besideBest is a round's ratio to the fastest of those that are not Baton's.
func besideBest(kase string) experiments.Figure {
	all := []string{"baton", "e2e", "e2e-bbr", "routed", "ssh", "haproxy", "nginx"}
	return experiments.FigureOf(kase, totalName, all, func(s []experiments.Sample) float64 {
		best := s[1].Value
		for _, other := range s[2:] {
			best = min(best, other.Value)
		}
		return s[0].Value / best
	})
}
