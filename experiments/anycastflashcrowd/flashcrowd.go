package anycastflashcrowd

import (
	"context"
	"math"

	"baton/experiments"
)

// The names of what is measured, of a move of all downloads,
const (
	oscillation = "move: oscillation of the queue"
	queueSwing  = "move: swing of the queue"
	linkUse     = "move: use of the link"
	movedAway   = "move: until the site is empty"
	moveDone    = "move: all downloads"
)

// and of a flash crowd.
const (
	relief    = "crowd: until the new site helps"
	meanTime  = "crowd: time of a download"
	emptied   = "crowd: until the site can go"
	crowdDone = "crowd: all downloads"
)

// Experiment is the question.
func Experiment() experiments.Experiment[*Network] {
	return experiments.Experiment[*Network]{
		Name:     "anycast-flashcrowd",
		Question: "What is it worth that downloads which are under way follow the routes, and does it do harm?",
		Method: "Two ingresses with clients, two sites with nginx, each nearer to one ingress; `baton anycast` at both sites announces to BIRD at the ingresses, and all " +
			"changes are its. With `anycast` downloads have the service's address, go where the routes lead, and go on at another site when those change; with " +
			"`redirect` they are bound to a site: the service's address sends each to the address of the site that it reaches first (302), as CDNs do that fear for " +
			"their connections. Downloads are those of `baton get`, with one connection each.\n\n" +
			"*A move.* 1,000 downloads of 1 MiB at one ingress, over a link of 50 Mbit/s with a queue of 100 ms (tbf) and no delay but the hosts' own: the case in " +
			"which the paper expects the worst. After 40 s the site is drained. The link's queue is looked at every 200 ms; of 40 s, from 5 s after the order on, are the " +
			"swing (standard deviation beside the mean) and the oscillation, which is that of the part that repeats itself: the swing times the root of the greatest " +
			"autocorrelation beyond its first zero. A queue that alternates between full and empty has 1 in both.\n\n" +
			"*A flash crowd.* 150 downloads of 4 MiB begin within 30 s, half of them at each ingress. One site can send 40 Mbit/s, a quarter of what is asked for. " +
			"After 15 s the second one begins to announce. When 30 downloads are left it is drained, and taken down once no download is at it.\n\n" +
			"Every byte is checked. A download that fails, or begins again from zero, is an error.",
		Contenders: []Contender{
			{Name: "redirect", Is: "downloads are bound to the site that they reach first", Start: starting(true)},
			{Name: "anycast", Is: "downloads move with the routes", Start: starting(false)},
		},
		Measures: []Measure{
			ofMove(oscillation, "Standard deviation of what repeats itself of the queue's length after the order, beside the mean", "of the mean", true,
				func(m *move) float64 { return swing(m.watched) * math.Sqrt(rhythm(m.watched)) }),
			ofMove(queueSwing, "Standard deviation of the queue's length after the order, beside the mean", "of the mean", true,
				func(m *move) float64 { return swing(m.watched) }),
			ofMove(linkUse, "Bytes on the link after the order, beside its rate", "of the rate", false, func(m *move) float64 { return m.use }),
			ofMove(movedAway, "Time from the order until no download is at the site", "s", true, func(m *move) float64 { return m.empty.Seconds() }),
			ofMove(moveDone, "Time until the last download is complete", "s", true, func(m *move) float64 { return m.last.Seconds() }),
			ofCrowd(relief, "Time from the new site's begin until it sends a quarter of its rate", func(c *crowd) float64 { return c.help.Seconds() }),
			ofCrowd(meanTime, "Mean time of a download", func(c *crowd) float64 { return c.mean.Seconds() }),
			ofCrowd(emptied, "Time from the order until no download is at the site", func(c *crowd) float64 { return c.empty.Seconds() }),
			ofCrowd(crowdDone, "Time until the last download is complete", func(c *crowd) float64 { return c.last.Seconds() }),
		},
		Rounds: 2,
		Build:  build,
		Claims: claims(),
		Plots: []experiments.Plot{
			{Measure: oscillation, Of: experiments.OfCourse, Title: "The link's queue: 1,000 downloads begin, and after 40 s the site is drained"},
			{Measure: oscillation}, {Measure: queueSwing}, {Measure: linkUse}, {Measure: movedAway}, {Measure: moveDone},
			{Measure: meanTime, Of: experiments.OfCourse, Title: "Downloads of the flash crowd that are under way; the second site begins after 15 s"},
			{Measure: relief}, {Measure: meanTime}, {Measure: emptied}, {Measure: crowdDone},
		},
		Caveats: []string{
			"All downloads of an ingress begin at one host, as in the paper: what differs between them is the hosts' own processing.",
			"Files of 1 and 4 MiB make a bound download short: with files that take hours, the site that is to go waits for hours.",
			"Downloads that begin when the new site is there reach it with a redirect, too.",
			"The drained site goes on sending to those that have gone, until its retransmissions run out: `baton purge` would end them. They share the link here.",
		},
	}
}

func claims() []experiments.Claim {
	return []experiments.Claim{
		{What: "oscillation of the queue after all have moved", Paper: "no evidence of it", Where: "Al-Qudah et al. 2009, section 4.3, figure 8", Unit: "of the mean",
			Ours: experiments.ValueOf("", oscillation, "anycast"), AtMost: 0.1},
		{What: "the same, of downloads that nobody moves", Unit: "of the mean", Ours: experiments.ValueOf("", oscillation, "redirect")},
		{What: "use of the link after all have moved, beside undisturbed", Where: "the same", Unit: "×",
			Ours: experiments.RatioOf("", linkUse, "anycast", "redirect"), AtLeast: 0.97},
		{What: "time until all are complete, moved beside undisturbed", Unit: "×", Ours: experiments.RatioOf("", moveDone, "anycast", "redirect"), AtMost: 1.05},
		{What: "time until a site with 1,000 downloads is empty, beside a redirect", Paper: "bound downloads: hours, for large files", Where: "section 1", Unit: "×",
			Ours: experiments.RatioOf("", movedAway, "anycast", "redirect"), AtMost: 0.25},
		{What: "time until a new site helps a flash crowd, beside a redirect", Paper: "bound downloads: it does not help them", Where: "section 1", Unit: "×",
			Ours: experiments.RatioOf("", relief, "anycast", "redirect"), AtMost: 1},
		{What: "mean time of a download in a flash crowd, beside a redirect", Unit: "×", Ours: experiments.RatioOf("", meanTime, "anycast", "redirect"), AtMost: 0.9},
		{What: "time until all of a flash crowd are complete, beside a redirect", Unit: "×",
			Ours: experiments.RatioOf("", crowdDone, "anycast", "redirect"), AtMost: 1},
		{What: "time until the site of a flash crowd can go", Paper: "bound downloads: hours, for large files", Where: "section 1", Unit: "s",
			Ours: experiments.ValueOf("", emptied, "anycast"), AtMost: 2},
	}
}

// starting has site a announce, and downloads bound to the site that they reach first, or not.
func starting(binds bool) func(ctx context.Context, t *Turn) error {
	return func(ctx context.Context, t *Turn) error {
		n := t.Topology
		n.binds, n.moved, n.crowded = binds, nil, nil
		a := n.Sites[0]
		t.OnEnd(a.withdraw)
		if err := a.announce(ctx); err != nil {
			return err
		}
		t.Runs(a.process, "")
		return nil
	}
}

// ofMove completes a measure of the turn's only move.
func ofMove(name, title, unit string, less bool, of func(m *move) float64) Measure {
	return Measure{Name: name, Title: title, Unit: unit, Less: less, Take: func(ctx context.Context, t *Turn) (_ experiments.Sample, err error) {
		n := t.Topology
		if n.moved == nil {
			if n.moved, err = n.move(ctx, moves(t.Options.Quick)); err != nil {
				return experiments.Sample{}, err
			}
		}
		s := n.moved.fleet.sample()
		s.Value = of(n.moved)
		if name == oscillation {
			s.Course = &experiments.Course{Of: "packets in the queue", Every: lookEvery.Seconds(), Values: n.moved.queue}
		}
		return s, nil
	}}
}

// ofCrowd completes a measure of the turn's only flash crowd.
func ofCrowd(name, title string, of func(c *crowd) float64) Measure {
	return Measure{Name: name, Title: title, Unit: "s", Less: true, Take: func(ctx context.Context, t *Turn) (_ experiments.Sample, err error) {
		n := t.Topology
		if n.crowded == nil {
			if n.crowded, err = n.flash(ctx, flashes(t.Options.Quick)); err != nil {
				return experiments.Sample{}, err
			}
		}
		s := n.crowded.fleet.sample()
		s.Value = of(n.crowded)
		if name == meanTime {
			s.Course = &experiments.Course{Of: "downloads under way", Every: lookEvery.Seconds(), Values: n.crowded.running}
		}
		return s, nil
	}}
}
