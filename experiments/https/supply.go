package https

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"baton/experiments"
	"baton/experiments/scale"
	"baton/lab"
)

// Supply is the question whether legs that serve once come as fast as sessions begin.
func Supply() experiments.Experiment[*Stage] {
	return experiments.Experiment[*Stage]{
		Name:     "https-supply",
		Question: "Are there legs for 5,000 new TLS sessions a second to one surrogate, and what do they cost?",
		Method: "Clients without sockets send captured hellos that have a name and fit into a segment, at a fixed rate after two seconds at that rate. One surrogate, whose kernel has a socket for each " +
			"connection, answers and closes first, so that a port waits there for a minute. The router starts legs from eight addresses (`legs.sources`). " +
			"`--connections` in each case, by default 5 s of them; at 5,000 a second 1,500,000 are five minutes.",
		Parameters: []experiments.Parameter{{Name: "rate", Title: "new sessions", Unit: "per second", Values: []float64{1000, 3000, 5000}}},
		Contenders: []experiments.Contender[*Stage]{{Name: "baton", Is: "`baton router`, `protocol: tls`, `legs.sources`", Start: supplyBaton}},
		Measures:   supplyMeasures(),
		Rounds:     1, IPv6: true,
		Build:  buildSupply,
		Plots:  []experiments.Plot{{Measure: costName}},
		Claims: supplyClaims(),
		Caveats: []string{"The router's process is charged for what the kernel does while it runs: for the surrogate's TCP that receives its SYN and ACK on the same machine, and for packets " +
			"that come meanwhile."},
	}
}

// sources are the router's addresses for legs, beside that of its interface.
const sources = 8

func (s *Stage) either(v4, v6 string, args ...any) string {
	if s.IPv6 {
		return fmt.Sprintf(v6, args...)
	}
	return fmt.Sprintf(v4, args...)
}

// source is an address of the router towards the surrogate.
func (s *Stage) source(n int) string { return s.either("10.2.1.%d", "fd02:0:0:1::%x", 16+n) }

func quoted(list []string) string { return `["` + strings.Join(list, `", "`) + `"]` }

func buildSupply(_ context.Context, s *experiments.Setup) (*Stage, error) {
	t, err := buildStage(s, 1)
	if err != nil {
		return nil, err
	}
	if t.list, err = newList(); err != nil {
		return nil, err
	}
	for n := range sources {
		t.ServerSide[0].Address(t.source(n) + t.either("/24", "/64"))
	}
	return t, sink(t.Surrogates[0], "a", ":443")
}

func supplyBaton(ctx context.Context, t *experiments.Turn[*Stage]) error {
	s := t.Topology
	var from []string
	for n := range sources {
		from = append(from, s.source(n))
	}
	config := fmt.Sprintf("limits: {sessions: 200000}\nvips:\n  - {address: %q, interfaces: [%s, %s], protocol: tls, routes: [{match: {no_sni: true}, pool: a}, {pool: a}]}\n"+
		"pools:\n  a: {legs: {max: 100000, sources: %s}, surrogates: [{name: a, address: %q}]}\n", s.vip(), s.ClientSide.Name, s.side.Name, quoted(from), s.address("a"))
	if err := s.start(t, config); err != nil {
		return err
	}
	return lab.Poll(10*time.Second, func() error { return s.serves(ctx, &s.list.hellos[0]) })
}

const (
	costName   = "session"
	failedName = "failed"
	upcallName = "upcalls"
)

// supplied is what came of the sessions at a rate.
type supplied struct {
	outcome
	times   *hdrhistogram.Histogram // from the SYN to the answer
	late    time.Duration           // behind the rate, at most
	upcalls float64
}

func supplyMeasures() []experiments.Measure[*Stage] {
	return []experiments.Measure[*Stage]{
		{Name: costName, Title: "Time from a client's SYN to the answer, median", Unit: "µs", Less: true, Per: "session",
			Warm: func(ctx context.Context, t *experiments.Turn[*Stage]) error {
				_, err := t.Topology.atRate(ctx, t.Case.At["rate"], int(2*t.Case.At["rate"]))
				return err
			},
			Take: func(ctx context.Context, t *experiments.Turn[*Stage]) (experiments.Sample, error) {
				n := int(5 * t.Case.At["rate"])
				if t.Options.Quick {
					n /= 5
				}
				if t.Options.Connections > 0 {
					n = t.Options.Connections
				}
				s, err := t.Topology.atRate(ctx, t.Case.At["rate"], n)
				if err != nil {
					return experiments.Sample{}, err
				}
				t.Topology.supplied = s
				return experiments.Sample{Value: float64(s.times.ValueAtQuantile(50)) / 1e3, Work: float64(n), Single: experiments.NewDistribution(s.times),
					Errors: int64(s.tried - s.fates[right]), First: s.first, Also: map[string]float64{"behind the rate, s": s.late.Seconds()}}, nil
			}},
		{Name: failedName, Title: "Sessions that were refused, or not answered", Unit: "sessions", Less: true,
			Take: func(_ context.Context, t *experiments.Turn[*Stage]) (experiments.Sample, error) {
				s := t.Topology.supplied
				return experiments.Sample{Value: float64(s.tried - s.fates[right])}, nil
			}},
		{Name: upcallName, Title: "Packets that user space had to decide, for a thousand sessions", Unit: "packets", Less: true,
			Take: func(_ context.Context, t *experiments.Turn[*Stage]) (experiments.Sample, error) {
				s := t.Topology.supplied
				return experiments.Sample{Value: 1000 * s.upcalls / float64(s.tried)}, nil
			}},
	}
}

// atRate has clients make so many sessions, each at its time.
func (s *Stage) atRate(ctx context.Context, rate float64, n int) (*supplied, error) {
	fit := s.list.fit()
	before, err := s.upcalls()
	if err != nil {
		return nil, err
	}
	out := &supplied{outcome: outcome{failed: make(map[string]float64)}, times: hdrhistogram.New(1, longest, 3)}
	if s.clients == nil {
		s.clients = newCrowd(s.crowd, s.from)
	}
	c, i, began := s.clients, 0, s.clients.now()
	err = c.drive(ctx, func(_ int, now time.Duration) (*talk, bool) {
		due := began + time.Duration(float64(i)/rate*float64(time.Second))
		if i >= n || now < due {
			return nil, i < n
		}
		h := fit[i%len(fit)]
		i++
		out.late = max(out.late, now-due)
		return &talk{to: s.vip(), stream: h.stream, pieces: h.pieces(0, inOrder), done: func(t *talk) {
			_ = out.times.RecordValue(int64(t.ended - t.began)) // within its range
			if !out.add(judge(t, "a", h.sum, "")) && out.first == "" {
				out.first = fmt.Sprintf("%s: answered %q, reset %v", h.name, t.answer, t.reset)
			}
		}}, true
	})
	if err != nil {
		return nil, err
	}
	after, err := s.upcalls()
	out.upcalls = after - before
	return out, err
}

// upcalls counts the router's.
func (s *Stage) upcalls() (float64, error) {
	return scale.Metric(s.Router, "packets_total", `verdict="upcall"`)
}

func supplyClaims() []experiments.Claim {
	const most = "rate 5000 per second"
	return []experiments.Claim{
		{What: "own processor time of a session, at 5,000 a second", Unit: "µs", AtMost: 30, Ours: ownTime(most)},
		{What: "sessions refused or not answered, at 5,000 a second", Unit: "", Ours: experiments.ValueOf(most, failedName, "baton")},
	}
}

// ownTime is the processor time of the contender's processes for a session.
func ownTime(kase string) experiments.Figure {
	return func(r *experiments.Results) (experiments.Estimate, error) {
		for _, s := range r.Samples {
			if s.Case == kase && s.Measure == costName && s.CPU != nil {
				own := s.CPU.Contender * 1e6
				return experiments.Estimate{Median: own, Low: own, High: own, Rounds: 1}, nil
			}
		}
		return experiments.Estimate{}, errors.New("no sample")
	}
}
