package endhost

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"baton/experiments"
	"baton/experiments/load"
	"baton/lab"
)

// The measures' names, which the claims use.
const (
	goodputName = "goodput"
	movedName   = "moved"
	lostName    = "lost"
)

// step is a change of the second link at a part of the sample's time.
type step struct {
	at   float64
	what func(u *uplink)
}

// course is the scenario of a case.
type course struct {
	name       string
	second     int64 // bits a second of the second link, first
	steps      []step
	takes      float64  // of the duration of a sample: measured weights are looked at every 5 s, so that a change of capacity takes all of it
	fails      bool     // from the first step to the second one
	mixed      bool     // files differ in size
	contenders []string // contenders, the oracle first
}

// becomes changes the rate; 0: packets are dropped, and nobody is notified.
func becomes(rate int64) func(*uplink) { return func(u *uplink) { u.set(rate) } }

func pulled(u *uplink) {
	u.capacity.Store(0)
	u.link.Down()
}

func plugged(u *uplink) {
	u.link.Up()
	u.capacity.Store(first)
}

var courses = []course{
	{name: "capacity changes", second: 10e6, takes: 1, steps: []step{{1. / 3, becomes(2.5e6)}, {2. / 3, becomes(20e6)}},
		contenders: []string{"oracle", "even", "round-robin", "round-robin-measured", "least", "fastest", "default"}},
	{name: "carrier lost", second: 10e6, takes: 0.7, steps: []step{{1. / 3, pulled}, {2. / 3, plugged}}, fails: true,
		contenders: []string{"oracle", "ovs-controller", "ovs-hash", "even", "round-robin", "least", "fastest", "ecmp"}},
	{name: "blackhole", second: 10e6, takes: 0.7, steps: []step{{1. / 3, becomes(0)}, {2. / 3, becomes(first)}}, fails: true,
		contenders: []string{"oracle", "even", "least", "mptcp"}},
	{name: "mixed sizes", second: 20e6, takes: 0.7, mixed: true, contenders: []string{"oracle", "even", "round-robin", "least"}},
}

func courseOf(c Case) course {
	return courses[slices.IndexFunc(courses, func(k course) bool { return k.name == c.Name })]
}

const (
	downloads = 4   // at a time
	looks     = 100 // per second: flows that transfer almost nothing, to see when new flows avoid a link
	// retransmission is how long after a SYN Linux sends it again: a flow whose first one was lost takes that long at least. What waits for
	// a link here are four files at most, a third of that.
	retransmission = time.Second
	settled        = 200 * time.Millisecond
	givenUp        = 3 * time.Second // without a byte a download is lost
)

// changeProbe is how links are probed: as often as suits an outage of seconds, and with more patience than what waits for a slow link takes.
const changeProbe = "{every: 250ms, dead: 2s}"

// Change is the question of what the paper leaves as future work.
func Change() experiments.Experiment[*Topology] {
	of := func(name, is string, o settings) Contender {
		o.probe = changeProbe
		return balance(name, is, o)
	}
	contenders := []Contender{
		oracle(),
		of("ovs-controller", "`baton balance` with Open vSwitch, a packet-in for each flow, weighted round-robin", settings{datapath: "ovs", method: "controller"}),
		of("ovs-hash", "`baton balance` with Open vSwitch, a weighted select group", settings{datapath: "ovs", method: "hash"}),
		of("even", "`baton balance`, weighted round-robin among links below twice their share; weights are the initial rates", settings{method: "even"}),
		of("round-robin", "`baton balance`, weighted round-robin; weights are the initial rates", settings{method: "round-robin"}),
		of("round-robin-measured", "`baton balance`, weighted round-robin; weights are measured", settings{method: "round-robin", measured: true}),
		of("least", "`baton balance`, fewest active flows for the weight; weights are the initial rates", settings{method: "least"}),
		of("fastest", "`baton balance`, shortest handshakes for the number of flows", settings{method: "fastest"}),
		of("default", "`baton balance` with defaults: as even; weights are measured", settings{measured: true}),
		ecmp(), multipath(),
	}
	for i := range contenders {
		name := contenders[i].Name
		contenders[i].Skips = func(c Case, measure string) bool {
			k := courseOf(c)
			return !slices.Contains(k.contenders, name) || measure == movedName && !k.fails
		}
	}
	e := experiments.Experiment[*Topology]{
		Name:     "endhost-change",
		Question: "How do downloads over two links cope with links that change, fail and come back?",
		Method: fmt.Sprintf("The topology of `endhost`, with two links. %d downloads are under way at a time, each on a connection of its own, "+
			"of 100 kB, for 15 s where the capacity changes and 10.5 s elsewhere (mixed sizes: two in three of 10 kB, one in twelve of 1 MB). `capacity changes`: the second link has 10 Mbit/s, after a third of the time 2.5, after two thirds 20. `carrier lost`: its cable is "+
			"pulled after a third of the time and plugged in after two. `blackhole`: nothing passes in that time, and the carrier stays. Beside the downloads %d "+
			"flows a second are begun that ask for next to nothing. `moved` is from the failure to the last begin of one of these that was not connected before Linux sends a "+
			"SYN again (1 s), before all of them were for 200 ms. A download is lost when nothing comes for %v, or its connection ends before its time. `baton balance` has `probe: %s`.",
			downloads, looks, givenUp, changeProbe),
		Contenders: contenders,
		Measures: []Measure{
			changing(Measure{Name: goodputName, Title: "Bytes a second of downloads that became whole", Unit: "Mbit/s"}, func(c *changed) experiments.Sample {
				return experiments.Sample{Value: c.goodput, Single: experiments.NewDistribution(c.times), Course: &c.course}
			}),
			changing(Measure{Name: movedName, Title: "Time until new flows avoid a link that has failed", Unit: "ms", Less: true}, func(c *changed) experiments.Sample {
				return experiments.Sample{Value: float64(c.moved) / float64(time.Millisecond), Also: map[string]float64{"late": float64(c.late)}}
			}),
			changing(Measure{Name: lostName, Title: "Downloads lost", Unit: "downloads", Less: true}, func(c *changed) experiments.Sample {
				return experiments.Sample{Value: float64(c.lost), Also: map[string]float64{"whole": float64(c.whole)}}
			}),
		},
		Rounds: 3, Duration: 15 * time.Second,
		Build: func(_ context.Context, s *experiments.Setup) (*Topology, error) {
			return build(s, 2, func(int) lab.LinkOptions { return lab.LinkOptions{Emulated: true, NoOffloads: true} })
		},
		Enter: func(ctx context.Context, t *Topology, c Case) error {
			t.begin(courseOf(c))
			return t.use(ctx, t.Links)
		},
		Emulated: true,
		Claims:   changeClaims(),
		Plots: []experiments.Plot{
			{Measure: goodputName}, {Measure: goodputName, Of: experiments.OfCourse, Title: "Received over both links, first round"},
			{Measure: movedName}, {Measure: lostName},
		},
		Caveats: []string{
			"The oracle knows of each change at once. It looks for the link by which a file is whole first: one that is much slower than the other it leaves idle now and then, " +
				"so that others may carry more together.",
			"Downloads that were under way on a link that fails are lost with it, whatever chooses links for new ones; only `mptcp` can go on elsewhere.",
			"`moved` has the resolution of the flows that it is seen by, a hundredth of a second, and cannot be more than the time that the link is away.",
		},
	}
	for _, k := range courses {
		e.Cases = append(e.Cases, Case{Name: k.name, Quick: true})
	}
	return e
}

// begin gives the links what they have at first.
func (t *Topology) begin(k course) {
	t.Links[0].set(first)
	t.Links[1].set(k.second)
}

// changed is the result of a turn's downloads, for several measures.
type changed struct {
	of      *Turn
	goodput float64 // Mbit/s
	times   *hdrhistogram.Histogram
	course  experiments.Course
	moved   time.Duration
	late    int // flows that were not connected in time, while the link was away
	lost    int64
	whole   int64
}

func changing(m Measure, of func(*changed) experiments.Sample) Measure {
	m.Take = func(ctx context.Context, t *Turn) (experiments.Sample, error) {
		if p := t.Topology; p.changed == nil || p.changed.of != t {
			c, err := p.change(ctx, t)
			if err != nil {
				return experiments.Sample{}, err
			}
			p.changed = c
		}
		return of(t.Topology.changed), nil
	}
	return m
}

// change downloads while the second link changes.
func (t *Topology) change(ctx context.Context, turn *Turn) (*changed, error) {
	k := courseOf(turn.Case)
	length := time.Duration(k.takes * float64(turn.Options.Duration))
	var got load.Result
	var files, flows []load.Exchange
	small := kilobytes(1)
	began := time.Now()
	var g errgroup.Group
	g.Go(func() (err error) {
		got, err = t.ask(load.Options{Files: k.files(), Connections: downloads, Duration: length, Timeout: givenUp,
			Each: func(x load.Exchange) { files = append(files, x) }})
		return err
	})
	g.Go(func() error {
		_, err := t.ask(load.Options{Path: small.path, Body: small.body, Arrivals: looks, Even: true, Duration: length, Timeout: givenUp,
			Each: func(x load.Exchange) { flows = append(flows, x) }})
		return err
	})
	every := min(glance, length/8)
	watched, watchErr := t.watch(ctx, began, length, every, k.steps)
	err := g.Wait()
	t.restore(k)
	if err != nil || watchErr != nil {
		return nil, fmt.Errorf("downloads: %v, %v", err, watchErr)
	}
	if got.Requests == 0 {
		return nil, fmt.Errorf("no download became whole: %w", got.First)
	}
	c := &changed{of: turn, times: got.Total, lost: got.Errors, whole: got.Requests, goodput: useful(files, began, length) * 8 / 1e6 / length.Seconds(),
		course: experiments.Course{Of: "Mbit/s", Every: every.Seconds(), Values: watched.rates}}
	if k.fails {
		c.moved, c.late = moved(flows, watched.steps[0], watched.steps[1])
	}
	return c, nil
}

// restore has the second link as it was.
func (t *Topology) restore(k course) {
	if k.fails {
		plugged(t.Links[1])
	}
	t.begin(k)
}

// files are requested round-robin. Their number has no factor in common with the number of links or the sum of weights.
func (k course) files() (list []load.File) {
	add := func(n float64, times int) {
		f := kilobytes(n)
		for range times {
			list = append(list, load.File{Path: f.path, Body: f.body})
		}
	}
	if !k.mixed {
		add(100, 1)
		return list
	}
	add(10, 31)
	add(100, 12)
	add(1000, 4)
	random := rand.New(rand.NewPCG(1, 1)) // the same order for all contenders
	random.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	return list
}

// glance is how often what comes is looked at.
const glance = 250 * time.Millisecond

// watched is what happened while a sample was taken.
type watched struct {
	rates []float64   // Mbit/s that came by all links, in each time
	steps []time.Time // when each was made
}

// watch makes the steps at their times, and samples the received bytes.
func (t *Topology) watch(ctx context.Context, began time.Time, length, every time.Duration, steps []step) (w watched, err error) {
	sum := func() (n uint64, err error) {
		all, err := t.received()
		for _, v := range all {
			n += v
		}
		return n, err
	}
	last, err := sum()
	at := began
	for next := began.Add(every); err == nil && next.Sub(began) <= length; next = next.Add(every) {
		for len(steps) > 0 {
			due := began.Add(time.Duration(steps[0].at * float64(length)))
			if due.After(next) {
				break
			}
			if err := sleepUntil(ctx, due); err != nil {
				return w, err
			}
			w.steps = append(w.steps, time.Now())
			steps[0].what(t.Links[1])
			steps = steps[1:]
		}
		if err := sleepUntil(ctx, next); err != nil {
			return w, err
		}
		var n uint64
		n, err = sum()
		now := time.Now()
		w.rates = append(w.rates, float64(n-last)*8/1e6/now.Sub(at).Seconds())
		last, at = n, now
	}
	return w, err
}

func sleepUntil(ctx context.Context, t time.Time) error {
	timer := time.NewTimer(time.Until(t))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// useful is how many bytes of whole files came within a time; of one that came partly within it, that part.
func useful(files []load.Exchange, began time.Time, length time.Duration) (sum float64) {
	for _, x := range files {
		if x.Err != nil {
			continue
		}
		in := 1.0
		if over := x.Ended.Sub(began.Add(length)); over > 0 {
			in = 1 - min(over.Seconds()/x.Ended.Sub(x.Due).Seconds(), 1)
		}
		sum += in * float64(x.Bytes)
	}
	return sum
}

// moved returns how long after a failure the last flow was started that did not connect in time, before all did for settled; and their
// number until the link was back. Flows are reported as they end.
func moved(flows []load.Exchange, failed, back time.Time) (last time.Duration, late int) {
	slices.SortFunc(flows, func(a, b load.Exchange) int { return a.Due.Compare(b.Due) })
	for _, x := range flows {
		if x.Due.Before(failed) || !x.Due.Before(back) {
			continue
		}
		if x.Connected.IsZero() || x.Connected.Sub(x.Due) >= retransmission {
			late++
			if at := x.Due.Sub(failed); at-last <= settled {
				last = at
			}
		}
	}
	return last, late
}

func changeClaims() (list []experiments.Claim) {
	const quick = 200 // ms
	for _, c := range append([]string{"ovs-controller", "ovs-hash"}, choices...) {
		list = append(list, experiments.Claim{What: "carrier lost: until new flows are elsewhere, " + c, Unit: "ms", AtMost: quick,
			Ours: experiments.ValueOf("carrier lost", movedName, c)})
	}
	for _, k := range courses {
		for _, c := range k.contenders[1:] {
			list = append(list, experiments.Claim{What: fmt.Sprintf("%s: goodput of %s beside oracle", k.name, c), Unit: "×",
				Ours: experiments.RatioOf(k.name, goodputName, c, "oracle")})
		}
	}
	return list
}
