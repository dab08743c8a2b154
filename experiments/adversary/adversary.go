package adversary

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"baton/experiments"
	"baton/experiments/adversary/script"
)

// contenders are all of them.
func contenders() []contender {
	return []contender{baton("baton", "always", "never"), baton("baton safe", "safe", "safe"), baton("baton always", "always", "always"),
		haproxy("safe"), haproxy("always")}
}

// stage is the network and the state of the current turn.
type stage struct {
	*network
	campaign *campaign
	tally    *tally // nil: nothing played in this turn
}

type (
	turn    = experiments.Turn[*stage]
	measure = experiments.Measure[*stage]
)

// tally is the result of a turn.
type tally struct {
	counts                      map[Kind]int
	scripts, requests, segments int64
	longest                     time.Duration
	took                        time.Duration
	first                       string // finding
}

// Experiment compares Baton and HAProxy.
func Experiment() experiments.Experiment[*stage] {
	e := experiments.Experiment[*stage]{
		Name:     "adversary",
		Question: "What can a client, a surrogate or a stranger off the path do to innocent clients?",
		Method:   method,
		Measures: measures(),
		Build: func(_ context.Context, s *experiments.Setup) (*stage, error) {
			n := build(s.Lab)
			for _, site := range n.sites {
				if site.server != nil {
					s.Serves(site.server.Process, site.server.Version)
				}
			}
			return &stage{network: n}, nil
		},
		Rounds: 1, Duration: 30 * time.Second, Caveats: caveats,
	}
	for _, c := range script.Classes {
		e.Cases = append(e.Cases, experiments.Case{Name: string(c), Quick: true})
	}
	for _, c := range contenders() {
		e.Contenders = append(e.Contenders, experiments.Contender[*stage]{Name: c.name, Is: c.is, Start: func(_ context.Context, t *turn) error {
			t.Topology.begin(t, c)
			return nil
		}})
	}
	return e
}

const method = "Innocent clients of several kinds ask for what they know every byte of: short requests on new connections and kept ones, to two pools by turns, " +
	"posted bodies, downloads, long polls, one without TCP timestamps, one through a plain proxy. Beside them an adversary plays scripts of raw segments: " +
	"first the directed ones of its class, each several times, then drawn ones as long as the sample lasts. As a *client* it has sessions of its own and " +
	"knows their numbers; as a *surrogate* it is the only server of a pool of its own, which two of the innocents ask too; as a *stranger* it knows the " +
	"addresses and ports of others and draws every number at random. After some scripts everybody leaves, and what is left is counted."

var caveats = []string{
	"What a surrogate sends behind a complete answer reaches the next client where connections are used again without limit (HAProxy's `always`, Baton's " +
		"`reuse: always`): that is what these settings assume of surrogates, and not a fault.",
	"HAProxy ends TCP itself, so that what a stranger or a client says to it is its kernel's affair; its row is what that comes to.",
	"`legs left` counts sessions at the contender that outlast their clients; of HAProxy's connections to the surrogates nothing is asked.",
}

// measures are the columns of the result.
func measures() []measure {
	of := func(name, title, unit string, value func(*tally) float64) measure {
		return measure{Name: name, Title: title, Unit: unit, Less: true, Take: func(ctx context.Context, t *turn) (experiments.Sample, error) {
			l, err := t.Topology.played(ctx, t)
			if err != nil {
				return experiments.Sample{}, err
			}
			s := experiments.Sample{Value: value(l), Also: map[string]float64{"segments": float64(l.segments), "scripts/s": float64(l.scripts) / l.took.Seconds(),
				"requests/s": float64(l.requests) / l.took.Seconds(), "longest s": l.longest.Seconds()}}
			return s, nil
		}}
	}
	found := func(kinds ...Kind) func(*tally) float64 {
		return func(l *tally) (sum float64) {
			for _, k := range kinds {
				sum += float64(l.counts[k])
			}
			return sum
		}
	}
	list := []measure{
		of("wrong answers", "Answers that were another's, not whole, or of a wrong pool", "answers", found(Wrong)),
		of("hung", "Requests of innocents without an answer in time", "requests", found(Hung)),
		of("failed", "Requests of innocents that were refused or cut off", "requests", found(Failed)),
		of("surrogates down", "Times that an innocent surrogate was taken out", "times", found(Down)),
		of("legs left", "Times that sessions or connections outlasted their clients", "times", found(Legs)),
		of("connections shared", "Requests by a connection that was bound to another client, or in doubt", "requests", found(Reuse)),
		of("routes passed by", "Requests at a surrogate that no route leads to", "requests", found(Access)),
		of("other findings", "Path MTU, windows, VLAN, and the process", "findings", found(PathMTU, Window, Tag, Process)),
		of("scripts", "Scripts that were played", "scripts", func(l *tally) float64 { return float64(l.scripts) }),
		of("innocent requests", "Requests of innocents", "requests", func(l *tally) float64 { return float64(l.requests) }),
	}
	for i := range list[len(list)-2:] {
		list[len(list)-1-i].Less = false
	}
	return list
}

// begin starts a turn.
func (g *stage) begin(t *turn, c contender) {
	g.tally = nil
	g.campaign = &campaign{n: g.network, with: c, program: t.Options.Program, uses: t.Uses}
	t.OnEnd(g.campaign.stop)
}

// scriptsOfBatch is the number of scripts between two pauses.
const scriptsOfBatch = 60

// played plays the turn's scripts, once.
func (g *stage) played(ctx context.Context, t *turn) (*tally, error) {
	if g.tally != nil {
		return g.tally, nil
	}
	l := &tally{counts: map[Kind]int{}}
	class := script.Class(t.Case.Name)
	if err := g.campaign.calm(ctx); err != nil {
		return nil, err
	}
	seeds := rand.New(rand.NewPCG(max(t.Options.Seed, 1), 0))
	directed := script.Apart(script.DirectedOf(class))
	for began, i := time.Now(), 0; i < len(directed) || time.Since(began) < t.Options.Duration; i++ {
		var b Batch
		if i < len(directed) {
			b = Batch{Class: class, Scripts: directed[i]}
		} else {
			seed := seeds.Uint64()
			b = Batch{Class: class, Seed: seed, Scripts: script.DrawAll(class, seed, scriptsOfBatch)}
		}
		b, err := g.campaign.run(ctx, b)
		if err != nil {
			return nil, err
		}
		l.add(b)
		if len(b.Findings) > 0 {
			fmt.Fprintf(t.Options.Progress, "\n%s: %v\n%s\n", g.campaign.with.name, b, b.Dump)
		}
	}
	g.tally = l
	return l, nil
}

func (l *tally) add(b Batch) {
	for k, n := range b.Counts {
		l.counts[k] += n
	}
	l.scripts += b.Played
	l.requests += b.Requests
	l.segments += b.Segments
	l.longest = max(l.longest, b.Longest)
	l.took += b.Took
	if l.first == "" && len(b.Findings) > 0 {
		l.first = b.String()
	}
}
