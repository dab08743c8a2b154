package https

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"strings"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
)

// Hellos is the question whether every hello reaches the server of its name, however it is cut.
func Hellos() experiments.Experiment[*Stage] {
	return experiments.Experiment[*Stage]{
		Name:     "https-hellos",
		Question: "Does every hello reach the server of its name, however it is cut, reordered, repeated and lost?",
		Method: "The captured hellos of 152 real clients, as they are and in records of 1, 5, 100 and all bytes but one, split in two at every byte, in order, reordered, duplicated, and with one " +
			"of the parts lost (it comes 200 ms later) and 1 % of all segments. The clients send raw segments, so they choose their order. Two servers have names, " +
			"and a third is the default: of hellos without a name, and of the two whose name is an address. Each answers by its own name and a sum of all bytes. " +
			"`--connections` of the combinations are tried, evenly chosen, by 1,000 clients at the same time.",
		Contenders: []experiments.Contender[*Stage]{
			{Name: "baton", Is: "`baton router`, `protocol: tls`, mode `handoff`", Start: helloBaton},
			{Name: "haproxy", Is: "TCP mode, `req.ssl_sni` with `inspect-delay 5s`", Start: helloProxy(peers.HAProxySNI)},
			{Name: "nginx", Is: "stream module, `ssl_preread`", Start: helloProxy(peers.NginxSNI)},
		},
		Measures: helloMeasures(),
		Rounds:   1, IPv6: true,
		Build:  buildHellos,
		Plots:  []experiments.Plot{{Measure: "routed right"}},
		Claims: helloClaims(),
	}
}

func buildHellos(_ context.Context, s *experiments.Setup) (*Stage, error) {
	t, err := buildStage(s, len(sinks))
	if err != nil {
		return nil, err
	}
	if t.list, err = newList(); err != nil {
		return nil, err
	}
	for i, name := range sinks {
		if err := sink(t.Surrogates[i], name, ":443"); err != nil {
			return nil, err
		}
	}
	return t, nil
}

// sinks are the servers' names; the last one is the default.
var sinks = []string{"a", "b", "default"}

const byDefault = "default"

// sinkOf is the server of each name.
func (s *Stage) sinkOf() map[string]string {
	to := make(map[string]string)
	for i, name := range s.list.names() {
		to[name] = sinks[i%2]
	}
	return to
}

// address is a server's.
func (s *Stage) address(sink string) string {
	for i, name := range sinks {
		if name == sink {
			return net.JoinHostPort(s.Addresses()[i].Addr().String(), "443")
		}
	}
	return ""
}

func helloBaton(ctx context.Context, t *experiments.Turn[*Stage]) error {
	s := t.Topology
	s.said = nil
	var b strings.Builder
	fmt.Fprintf(&b, "vips:\n  - address: %q\n    interfaces: [%s, %s]\n    protocol: tls\n    routes:\n", s.vip(), s.ClientSide.Name, s.side.Name)
	for name, to := range s.sinkOf() {
		fmt.Fprintf(&b, "      - {match: {sni: %q}, pool: %s}\n", name, to)
	}
	fmt.Fprintf(&b, "      - {match: {no_sni: true}, pool: %[1]s}\n      - {pool: %[1]s}\npools:\n", byDefault)
	for _, name := range sinks {
		fmt.Fprintf(&b, "  %s: {legs: {max: 4000}, surrogates: [{name: %[1]s, address: %[2]q}]}\n", name, s.address(name))
	}
	if err := s.start(t, b.String()); err != nil {
		return err
	}
	return lab.Poll(10*time.Second, func() error { return s.serves(ctx, &s.list.hellos[0]) })
}

func helloProxy(start func(*lab.Host, peers.SNIOptions) *peers.Server) func(context.Context, *experiments.Turn[*Stage]) error {
	return func(_ context.Context, t *experiments.Turn[*Stage]) error {
		s := t.Topology
		s.said = nil
		servers := make(map[string]string)
		for name, to := range s.sinkOf() {
			servers[name] = s.address(to)
		}
		s.proxy(t, start, peers.SNIOptions{Servers: servers, Default: s.address(byDefault)})
		return nil
	}
}

// helloMeasures are what came of one run of the list.
func helloMeasures() []experiments.Measure[*Stage] {
	measure := func(name, title string, less bool, of func(outcome) int) experiments.Measure[*Stage] {
		return experiments.Measure[*Stage]{Name: name, Title: title, Unit: "connections", Less: less,
			Take: func(ctx context.Context, t *experiments.Turn[*Stage]) (experiments.Sample, error) {
				out, err := t.Topology.say(ctx, t.Options)
				if err != nil {
					return experiments.Sample{}, err
				}
				s := experiments.Sample{Value: float64(of(*out)), Also: map[string]float64{"seconds": out.took.Seconds()}}
				if name == rightName && out.first != "" {
					maps.Copy(s.Also, out.failed)
					s.Errors, s.First = int64(out.tried-out.fates[right]), out.first
				}
				return s, nil
			}}
	}
	of := func(f fate) func(outcome) int { return func(o outcome) int { return o.fates[f] } }
	return []experiments.Measure[*Stage]{
		measure(triedName, "Combinations tried", false, func(o outcome) int { return o.tried }),
		measure(rightName, "Hellos that reached the server of their name, whole", false, of(right)),
		measure("wrong", "Hellos that reached another server, or damaged", true, of(wrong)),
		measure("fell through", "Hellos with a name that reached the default", true, of(fellThrough)),
		measure("refused", "Connections that were ended without an answer", true, of(refused)),
		measure("timed out", "Connections without an answer for 10 s", true, of(timedOut)),
	}
}

const (
	triedName = "combinations"
	rightName = "routed right"
)

// usual is how many combinations are tried by default.
const usual = 100_000

// say runs the list, once a turn.
func (s *Stage) say(ctx context.Context, o experiments.Options) (*outcome, error) {
	if s.said != nil {
		return s.said, nil
	}
	n := usual
	if o.Quick {
		n = 2000
	}
	if o.Connections > 0 {
		n = o.Connections
	}
	to := s.sinkOf()
	out, err := s.list.run(ctx, newCrowd(s.crowd, s.from), s.vip(), min(n, s.list.size()), func(name string) string {
		if sink := to[name]; sink != "" {
			return sink
		}
		return byDefault
	}, byDefault)
	if err == nil && out.tried == 0 {
		err = errors.New("nothing was said")
	}
	s.said = &out
	return s.said, err
}

func helloClaims() []experiments.Claim {
	var claims []experiments.Claim
	for _, c := range []struct {
		contender string
		goal      float64
	}{{"baton", 100}, {"haproxy", 0}, {"nginx", 0}} {
		claims = append(claims, experiments.Claim{What: "hellos routed right by " + c.contender, Unit: "%", AtLeast: c.goal,
			Ours: func(r *experiments.Results) (experiments.Estimate, error) {
				tried, err := experiments.ValueOf("", triedName, c.contender)(r)
				if err != nil {
					return tried, err
				}
				e, err := experiments.ValueOf("", rightName, c.contender)(r)
				share := 100 / tried.Median
				return experiments.Estimate{Median: e.Median * share, Low: e.Low * share, High: e.High * share, Rounds: e.Rounds}, err
			}})
	}
	return claims
}
