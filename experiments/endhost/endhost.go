// Package endhost asks what balancing all links of a host is worth: the figures of Al-Najjar et al., "Pushing SDN to the End-Host,
// Network Load Balancing using OpenFlow" (4 and 6 to 9), and what the paper leaves as future work: links that change and fail, sizes that
// differ, UDP. Beside `baton balance`, on Baton's data plane and on Open vSwitch, stand what the kernel has by itself and what is possible.
package endhost

import (
	"context"
	"fmt"
	"slices"

	"baton/experiments"
	"baton/lab"
)

const (
	paper = "Al-Najjar, Layeghy and Portmann 2016"

	method = "The paper's figure 5: a host with several links, a gateway at the end of each, a router behind the gateways, a server behind the router, each a network " +
		"namespace. The host's links have the rates of the case both ways, 0.5 ms of delay each way and queues of 1,000 packets (what tc gives a device by " +
		"default; of its own delays and queues the paper says nothing), and take no large frames; all other links have no limit. The server is nginx. Files have " +
		"multiples of 1,000 bytes. A sample is the time of 100 requests, each on a connection of its own, so many at a time (concurrency), from the first " +
		"SYN to the last byte; every byte is checked. `time by ab` is what ab reports (ab 2.3, as in the paper) for the same requests."
)

// Case is a point of an experiment's grid.
type Case = experiments.Case

// most is how many links a host has here.
const most = 5

// Experiment is the question of figures 6 and 9.
func Experiment() experiments.Experiment[*Topology] {
	e := grid("endhost", "How long do 100 downloads take over two links at once, by size?",
		method+" On two links of 10 Mbit/s two requests are under way at a time, as for the paper's figure 6; on links of 10 and 20 Mbit/s twenty, as for its figure 9.")
	e.Parameters = []experiments.Parameter{{Name: "size", Title: "file size", Unit: "kB"}, {Name: "second", Title: "second link", Unit: "Mbit/s"},
		{Name: "concurrency", Title: "requests at a time"}}
	for _, second := range []float64{10, 20} {
		for _, size := range []float64{1, 20, 60, 100} {
			concurrency := map[float64]float64{10: 2, 20: 20}[second] // in the paper's figures 6 and 9
			e.Cases = append(e.Cases, Case{Name: sizeCase(size, second), At: map[string]float64{"size": size, "second": second, "concurrency": concurrency},
				Quick: size == whole})
		}
	}
	byPaper := func(c Case, measure string) bool { return measure == fetchName || sizeOf(c) == whole }
	at := func(sizes ...float64) where {
		return func(c Case, measure string) bool { return measure == fetchName && slices.Contains(sizes, sizeOf(c)) }
	}
	e.Contenders = parts{"one-link": byPaper, "ideal": byPaper, "oracle": byPaper, "ovs-controller": byPaper, "ovs-hash": byPaper, "even": byPaper,
		"ovs-controller-rr": func(c Case, measure string) bool { return weighted(c) && at(whole)(c, measure) },
		"controller":        at(whole), "hash": at(whole), "ecmp": at(20, whole), "mptcp": at(20, whole)}.of(contenders())
	e.Measures = append(e.Measures, bench())
	e.Claims = sizeClaims()
	e.Plots = plots("Time of 100 downloads over two links, by their size (the paper's figures 6 and 9)", fetchName, benchName)
	return e
}

// Concurrency is the question of figure 7.
func Concurrency() experiments.Experiment[*Topology] {
	e := grid("endhost-concurrency", "How many requests at a time does it take to fill two links?", method+" The files have 100 kB.")
	e.Parameters = []experiments.Parameter{{Name: "concurrency", Title: "requests at a time"}, {Name: "second", Title: "second link", Unit: "Mbit/s"}}
	for _, second := range []float64{10, 20} {
		for _, n := range map[float64][]float64{10: {1, 2, 3, 5, 10, 20}, 20: {2, 3, 10, 20}}[second] {
			e.Cases = append(e.Cases, Case{Name: concurrencyCase(n, second), At: map[string]float64{"second": second, "concurrency": n}, Quick: n == 3})
		}
	}
	asPaper := func(c Case, _ string) bool { return !weighted(c) && concurrencyOf(c) != 3 && concurrencyOf(c) != 10 }
	several := func(c Case, _ string) bool { return concurrencyOf(c) > 1 }
	ends := func(c Case, _ string) bool { return concurrencyOf(c) == linksOf(c) || concurrencyOf(c) == 20 }
	e.Contenders = parts{"one-link": always, "ideal": always, "oracle": several, "even": always, "ovs-controller": asPaper, "ovs-hash": asPaper,
		"round-robin": ends, "least": ends, "fastest": ends}.of(contenders())
	e.Claims = append(concurrencyClaims(), goals(e, e.Cases)...)
	e.Plots = plots("Time of 100 downloads of 100 kB, by how many are under way at a time (the paper's figure 7)", fetchName)
	return e
}

// Links is the question of figure 8.
func Links() experiments.Experiment[*Topology] {
	e := grid("endhost-links", "What is each further link worth?", method+" The files have 100 kB, all links 10 Mbit/s.")
	e.Parameters = []experiments.Parameter{{Name: "links", Title: "links"}, {Name: "concurrency", Title: "requests at a time (0: one a link)"}}
	for _, concurrency := range []float64{20, oneEach} {
		least := 1.0
		if concurrency == oneEach {
			least = 2
		}
		for n := least; n <= most; n++ {
			e.Cases = append(e.Cases, Case{Name: linksCase(n, concurrency), At: map[string]float64{"links": n, "concurrency": concurrency}, Quick: n == 3})
		}
	}
	several := func(c Case, _ string) bool { return linksOf(c) > 1 }
	many := func(c Case, _ string) bool { return linksOf(c) > 1 && c.At["concurrency"] != oneEach }
	twenty := func(c Case, _ string) bool { return c.At["concurrency"] != oneEach }
	few := func(c Case, _ string) bool { return c.At["concurrency"] == oneEach }
	e.Contenders = parts{"one-link": always, "ideal": always, "oracle": several, "ovs-controller": twenty, "ovs-hash": many, "even": always,
		"round-robin": few, "least": few, "fastest": few, "ecmp": many}.of(contenders())
	e.Claims = append(linksClaims(), goals(e, e.Cases)...)
	e.Plots = plots("Time of 100 downloads of 100 kB, by the number of links (the paper's figure 8)", fetchName)
	return e
}

// grid is what the three have in common.
func grid(name, question, method string) experiments.Experiment[*Topology] {
	return experiments.Experiment[*Topology]{
		Name: name, Question: question, Method: method,
		Measures: []Measure{fetch()},
		Rounds:   3,
		Build: func(_ context.Context, s *experiments.Setup) (*Topology, error) {
			return build(s, most, func(int) lab.LinkOptions { return lab.LinkOptions{Emulated: true, NoOffloads: true} })
		},
		Enter: func(ctx context.Context, t *Topology, c Case) error {
			used := t.Links[:linksOf(c)]
			for i, u := range used {
				rate := first
				if i > 0 {
					rate = secondOf(c)
				}
				u.set(rate)
			}
			return t.use(ctx, used)
		},
		Emulated: true,
		Caveats:  caveats,
	}
}

func sizeCase(size, second float64) string {
	return fmt.Sprintf("%g kB, 10 + %g Mbit/s", size, second)
}

func concurrencyCase(n, second float64) string {
	return fmt.Sprintf("%g at a time, 10 + %g Mbit/s", n, second)
}

func linksCase(n, concurrency float64) string {
	if concurrency == oneEach {
		concurrency = n
	}
	return fmt.Sprintf("%g × 10 Mbit/s, %g at a time", n, concurrency)
}

// plots are the times, and those beside what is possible.
func plots(title string, measures ...string) (list []experiments.Plot) {
	for _, m := range measures {
		by := ""
		if m == benchName {
			by = ", measured by ab"
		}
		list = append(list, experiments.Plot{Measure: m, Title: title + by + "; less is better"},
			experiments.Plot{Measure: m, Of: experiments.OfRatio, Title: title + by + ", beside one link; less is better"})
	}
	return list
}

// whole is the size for which the paper gives figures (kB).
const whole = 100

// first is what the first link takes (bits a second), and the others where a case says nothing of them.
const first int64 = 10e6

// oneEach is a concurrency of as many requests as there are links.
const oneEach = 0

func sizeOf(c Case) float64 { return at(c, "size", whole) } // kB
func linksOf(c Case) int    { return int(at(c, "links", 2)) }
func secondOf(c Case) int64 { return int64(at(c, "second", float64(first)/1e6) * 1e6) } // bits a second

// at is what a case says of a parameter, or of all cases of its experiment.
func at(c Case, parameter string, otherwise float64) float64 {
	if v, ok := c.At[parameter]; ok {
		return v
	}
	return otherwise
}

// concurrencyOf is how many requests are under way at a time.
func concurrencyOf(c Case) int {
	if n := int(c.At["concurrency"]); n != oneEach {
		return n
	}
	return linksOf(c)
}

// weighted is whether the links of a case differ: else contenders with equal weights are the same as those with their rates.
func weighted(c Case) bool { return linksOf(c) > 1 && secondOf(c) != first }

var caveats = []string{
	"`ideal` divides the time of one link by what all links take. 100 requests are not divisible by three, and a connection's handshake and slow start take time in " +
		"which its link has nothing to send, unless other connections have: that no balancing can change. `oracle` has both, and the goals are beside it.",
	"Round-robin starts with its first link, as in the paper's controller. In the middle of a period a link with a third of the rates has 34 of 100 requests as often as 33, " +
		"which takes 2 % longer.",
	"`one-link` is asked once a round for as many requests of a size at a time, as its time has nothing to do with the other links: cases that differ in those alone " +
		"share the sample.",
	"For ab the oracle is one ab for each link with a fixed part of the requests.",
	"`mptcp` has another server than the others, as nginx has no MPTCP, and is not asked by ab, which has none either.",
	"An application on a host with `ecmp` gets one of the links' addresses as its own: connections break when the kernel chooses another path for them.",
}
