package relay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

const (
	inside  = "inside the cloud"
	outside = "outside, at the client's access"

	jainName   = "fairness"
	victimName = "neighbour"
	longName   = "long flow"
)

// bottleneck is what both flows share.
const bottleneck emulator.Rate = 100e6

// Fairness is the question of figures 13 to 15.
func Fairness() experiments.Experiment[*Path] {
	return experiments.Experiment[*Path]{
		Name:     "relay-fairness",
		Question: "What do relays leave to others with whom they share a link?",
		Method: method + " Two downloads begin at the same moment and share a link of 100 Mbit/s: a long one, from the server to the client, by the contender; " +
			"and a neighbour's, an ordinary one by CUBIC. Inside the cloud the neighbour's goes from the second relay's host to the first one's, " +
			"over the link between them; outside it goes from the first relay's host to the client. All other links have 1 Gbit/s. `twin` has a second " +
			"flow like the neighbour's in place of the long one: the measure of what an ordinary flow takes. Figures are of the second half of the " +
			"time: two flows of CUBIC need ten to twenty seconds to have equal shares. Those of every second are in results.json.",
		Cases: []experiments.Case{{Name: inside, Quick: true}, {Name: outside, Quick: true}},
		Contenders: []Contender{
			twin(),
			routed(),
			baton("cubic", "relays, CUBIC, the system's first window", settings{trunks: true, congestion: "cubic", start: "system"}),
			baton("turbo", "relays, CUBIC, a first window of 2,000 segments: the paper's", settings{trunks: true, congestion: "cubic", start: strconv.Itoa(turboWindow)}),
			baton("bbr", "relays, BBR, the system's first window", settings{trunks: true, congestion: "bbr", start: "system"}),
			baton("baton", "relays with all defaults: BBR and a first window that is learnt", usually),
		},
		Measures: []Measure{
			shared(jainName, "Jain's index of both flows' goodput", "", jain),
			shared(victimName, "Goodput of the neighbour's flow", "Mbit/s", func(_, neighbour float64) float64 { return neighbour }),
			shared(longName, "Goodput of the long flow", "Mbit/s", func(long, _ float64) float64 { return long }),
		},
		Rounds:   3,
		Duration: 30 * time.Second,
		Build:    buildFair,
		Enter: func(_ context.Context, p *Path, c experiments.Case) error {
			w := twoRelays(cloudRate)
			if c.Name == inside {
				w.legs[1].rate = bottleneck
			} else {
				w.legs[0].rate = bottleneck
			}
			p.set(w)
			return nil
		},
		Emulated: true,
		Claims:   fairClaims(),
		Plots: []experiments.Plot{
			{Measure: jainName, Title: "Jain's index of two flows on one link (the paper's figures 13 to 15); 1 is equal shares"},
			{Measure: victimName, Title: "Goodput of the neighbour's flow (the paper's figures 13 to 15)"},
			{Measure: longName, Title: "Goodput of the long flow (the paper's figures 13 to 15)"},
		},
		Caveats: []string{
			"The flows of `inside the cloud` have other round-trip times: the neighbour's has 215 ms; the long one 265 ms if it is routed, and 215 ms on this " +
				"link if it is split.",
			"Both flows begin at once, which is the worst for the neighbour inside the cloud: a first window of 2,000 segments, and one that was learnt while " +
				"the link was free, meet it in slow start, overflow the queue, and its CUBIC grows slowly from the few segments at which it lost. A cloud's link " +
				"of 100 Mbit/s is ten times slower than that of the other experiments.",
		},
	}
}

func buildFair(_ context.Context, s *experiments.Setup) (*Path, error) {
	p := build(s, 2)
	for _, h := range p.Relays {
		n := peers.Nginx(h, peers.NginxOptions{NoAccessLog: true})
		s.Serves(n.Process, n.Version)
	}
	return p, nil
}

// twin is the neighbour once more.
func twin() Contender {
	return Contender{Name: "twin", Is: "no long flow, but a second one like the neighbour's", Start: func(_ context.Context, t *Turn) error {
		_, from := neighbours(t)
		t.Topology.front = front{target: from}
		return nil
	}}
}

// neighbours are who downloads, and from where, beside the long flow.
func neighbours(t *Turn) (client *lab.Host, server netip.AddrPort) {
	p := t.Topology
	if t.Case.Name == inside {
		return p.Relays[0], netip.AddrPortFrom(p.address(1), sitePort)
	}
	return p.Client, netip.AddrPortFrom(p.address(0), sitePort)
}

// jain is Jain's index of fairness: 1 for equal shares, 1/2 if one has all.
func jain(a, b float64) float64 {
	if a+b == 0 {
		return 1
	}
	return (a + b) * (a + b) / (2 * (a*a + b*b))
}

// shares are what both flows of a turn have had.
type shares struct {
	of              *Turn
	long, neighbour []int64 // bytes, of each second
}

// shared completes a measure of the turn's two downloads: of is of their goodputs.
func shared(name, title, unit string, of func(long, neighbour float64) float64) Measure {
	return Measure{Name: name, Title: title, Unit: unit, Take: func(ctx context.Context, t *Turn) (experiments.Sample, error) {
		p := t.Topology
		if p.shares.of != t {
			s, err := race(ctx, t)
			if err != nil {
				return experiments.Sample{}, err
			}
			p.shares = s
		}
		half := len(p.shares.long) / 2
		s := experiments.Sample{Value: of(rate(p.shares.long[half:]), rate(p.shares.neighbour[half:])), Also: map[string]float64{}}
		for i := range p.shares.long {
			s.Also[fmt.Sprintf("long flow, second %d", i+1)] = rate(p.shares.long[i : i+1])
			s.Also[fmt.Sprintf("neighbour, second %d", i+1)] = rate(p.shares.neighbour[i : i+1])
		}
		return s, nil
	}}
}

// rate is the mean of some seconds, in Mbit/s.
func rate(seconds []int64) float64 {
	sum := int64(0)
	for _, n := range seconds {
		sum += n
	}
	return float64(sum) * 8 / 1e6 / float64(len(seconds))
}

// race has both downloads go on for as long as a sample takes.
func race(ctx context.Context, t *Turn) (shares, error) {
	p := t.Topology
	client, server := neighbours(t)
	longClient := p.Client
	if p.front.target == server { // the twin
		longClient = client
	}
	ctx, cancel := context.WithTimeout(ctx, t.Options.Duration)
	defer cancel()
	var long, neighbour atomic.Int64
	var failed [2]error
	var both sync.WaitGroup
	both.Go(func() { failed[0] = follow(ctx, longClient, p.front.target, &long) })
	both.Go(func() { failed[1] = follow(ctx, client, server, &neighbour) })
	s := shares{of: t}
	var before [2]int64
	note := func() {
		now := [2]int64{long.Load(), neighbour.Load()}
		s.long, s.neighbour = append(s.long, now[0]-before[0]), append(s.neighbour, now[1]-before[1])
		before = now
	}
	seconds := time.NewTicker(time.Second)
	defer seconds.Stop()
	for left := int(t.Options.Duration / time.Second); left > 1; left-- {
		select {
		case <-seconds.C:
			note()
		case <-ctx.Done():
		}
	}
	both.Wait()
	note()
	return s, errors.Join(failed[0], failed[1])
}

// follow downloads until the context is done, and counts.
func follow(ctx context.Context, h *lab.Host, from netip.AddrPort, count *atomic.Int64) error {
	client := h.HTTPClient(0)
	defer client.CloseIdleConnections()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/1g", from), nil)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return fmt.Errorf("download from %s: %w", from, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("download from %s: %s", from, response.Status)
	}
	for b := make([]byte, 256<<10); ; {
		n, err := response.Body.Read(b)
		count.Add(int64(n))
		switch {
		case ctx.Err() != nil:
			return nil
		case err == io.EOF:
			return fmt.Errorf("download from %s: it has ended", from)
		case err != nil:
			return fmt.Errorf("download from %s: %w", from, err)
		}
	}
}

func fairClaims() (list []experiments.Claim) {
	const where = paper + ", section 6.3, figure "
	for _, c := range []struct{ name, contender, paper, figure string }{
		{inside, "turbo", "more throughput, bursts that are no worse", "13"},
		{outside, "routed", "the short flow pushes the long one out", "14"},
		{outside, "turbo", "roughly equal shares", "15"},
		{inside, "baton", "", ""},
		{outside, "baton", "", ""},
	} {
		claim := experiments.Claim{What: fmt.Sprintf("%s: Jain's index, %s", c.name, c.contender),
			Ours: experiments.ValueOf(c.name, jainName, c.contender), Paper: c.paper}
		slower := experiments.Claim{What: fmt.Sprintf("%s: the neighbour's goodput beside that with a twin, %s", c.name, c.contender), Unit: "×",
			Ours: experiments.RatioOf(c.name, victimName, c.contender, "twin")}
		if c.figure != "" {
			claim.Where = where + c.figure
		}
		if c.name == outside && c.contender == "baton" {
			claim.AtLeast = 0.9
		}
		list = append(list, claim, slower)
	}
	return list
}
