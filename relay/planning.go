package relay

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/api"
	"baton/relay/config"
	"baton/relay/plan"
	"baton/relay/probe"
	"baton/relay/trunkproto"
)

// Limits of the measurements for a plan.
const (
	planTime   = 20 * time.Second // in total; the client waits 30 s for the first byte of a response
	mostPeers  = 16               // the nearest; relays are measured in pairs
	atOnce     = 16               // parallel measurements
	samples    = 3                // the minimum counts: load only adds to a round-trip time
	probeTime  = 3 * time.Second  // per probe
	ownSamples = 5                // of measurements that cost no trunk
	segment    = 1460             // bytes
)

// Plan returns the relays that flows from a client to a server should pass, among this one and its peers. The error wraps api.ErrInvalid
// for an invalid question, and api.ErrConflict while another plan is made.
func (r *Relay) Plan(ctx context.Context, q api.RelayPlanRequest) (api.RelayPlan, error) {
	if !r.planning.TryLock() {
		return api.RelayPlan{}, fmt.Errorf("%w: another plan is in progress", api.ErrConflict)
	}
	defer r.planning.Unlock()
	cfg := r.current()
	peers, far := nearest(cfg.Peers, r.peerRTTs())
	question := plan.Question{
		Client: q.Client.String(), Server: q.Server.String(), RTTs: make(plan.Matrix), Clouds: plan.Clouds(q.Clouds), Most: q.MaxRelays, Size: q.Size,
		Relays: []plan.Relay{{Name: cfg.Name, Cloud: cfg.Cloud}}, Start: r.startBytes(),
	}
	for _, p := range peers {
		question.Relays = append(question.Relays, plan.Relay{Name: p.Name, Cloud: p.Cloud})
	}
	if q.Direct > 0 {
		question.RTTs.Set(question.Client, question.Server, q.Direct)
	}
	if _, err := plan.Choose(question); err != nil { // before anything is measured
		return api.RelayPlan{}, fmt.Errorf("%w: %w", api.ErrInvalid, err)
	}
	s := survey{r: r, rtts: question.RTTs, why: make(map[plan.Pair]string)}
	ctx, cancel := context.WithTimeout(ctx, planTime)
	defer cancel()
	s.measure(ctx, cfg, peers, q.Client, q.Server)
	p, err := plan.Choose(question)
	if err != nil {
		return api.RelayPlan{}, err
	}
	for i := range p.Missing {
		m := &p.Missing[i]
		if why := cmp.Or(s.why[plan.Pair{From: m.From, To: m.To}], s.why[plan.Pair{From: m.To, To: m.From}]); why != "" {
			m.Why += ": " + why
		}
	}
	for _, name := range far {
		p.Missing = append(p.Missing, plan.Missing{From: cfg.Name, To: name, Why: fmt.Sprintf("not among the nearest %d peers", mostPeers)})
	}
	return planned(p), nil
}

// nearest splits the peers into those that a plan considers, and the names of the others.
func nearest(peers []config.Peer, rtts map[string]time.Duration) (near []config.Peer, far []string) {
	near = slices.Clone(peers)
	away := func(p config.Peer) time.Duration {
		return cmp.Or(rtts[p.Name], time.Hour) // unknown: after the known ones
	}
	slices.SortStableFunc(near, func(a, b config.Peer) int { return cmp.Compare(away(a), away(b)) })
	if len(near) > mostPeers {
		for _, p := range near[mostPeers:] {
			far = append(far, p.Name)
		}
		near = near[:mostPeers]
	}
	return near, far
}

// peerRTTs are the round-trip times of trunks, by the peer's name.
func (r *Relay) peerRTTs() map[string]time.Duration {
	out := make(map[string]time.Duration)
	for _, w := range r.workers {
		s, err := w.Stats()
		if err != nil {
			continue
		}
		for _, p := range s.Peers {
			if have := out[p.Name]; p.RTT > 0 && (have == 0 || p.RTT < have) {
				out[p.Name] = p.RTT
			}
		}
	}
	return out
}

// startBytes is the smallest initial window of trunks to peers; 0: the system's.
func (r *Relay) startBytes() int64 {
	if r.kernel == nil {
		return 0
	}
	var least int64
	for _, s := range r.kernel.turbo.status() {
		if n := int64(s.Window) * segment; s.Trunks == "to" && n > 0 && (least == 0 || n < least) {
			least = n
		}
	}
	return least
}

// survey is the measurements for a plan.
type survey struct {
	r    *Relay
	mu   sync.Mutex
	rtts plan.Matrix
	why  map[plan.Pair]string // why there is no measurement
}

// measure fills the matrix as far as possible. Client and server are named by their addresses.
func (s *survey) measure(ctx context.Context, cfg *config.Config, peers []config.Peer, client, server netip.AddrPort) {
	known := s.r.peerRTTs()
	var running errgroup.Group
	running.SetLimit(atOnce)
	for _, end := range []netip.AddrPort{client, server} {
		running.Go(func() error { s.measureOwn(ctx, cfg.Name, end.String(), end); return nil })
	}
	for i := range peers {
		p := &peers[i]
		if rtt := known[p.Name]; rtt > 0 {
			s.record(plan.Pair{From: cfg.Name, To: p.Name}, rtt, "")
		} else {
			running.Go(func() error { s.measureOwn(ctx, cfg.Name, p.Name, p.Address); return nil })
		}
		for _, end := range []netip.AddrPort{client, server} {
			running.Go(func() error { s.measureFrom(ctx, p.Name, end.String(), end); return nil })
		}
		for k := range peers[:i] {
			q := &peers[k]
			running.Go(func() error {
				if !s.measureFrom(ctx, p.Name, q.Name, q.Address) { // either may have the other as a peer
					s.measureFrom(ctx, q.Name, p.Name, p.Address)
				}
				return nil
			})
		}
	}
	_ = running.Wait() // never returns an error
}

func (s *survey) record(p plan.Pair, rtt time.Duration, why string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rtt > 0 {
		s.rtts.Set(p.From, p.To, rtt)
	} else {
		s.why[p] = why
	}
}

// measureOwn measures from this relay.
func (s *survey) measureOwn(ctx context.Context, self, name string, address netip.AddrPort) {
	result, err := probe.RTT(ctx, address, probe.Options{Count: ownSamples, Every: 50 * time.Millisecond})
	why := result.Why
	if err != nil {
		why = err.Error()
	}
	s.record(plan.Pair{From: self, To: name}, result.Min, why)
}

// measureFrom makes a peer measure, and reports whether it succeeded.
func (s *survey) measureFrom(ctx context.Context, peer, name string, address netip.AddrPort) bool {
	var least time.Duration
	why := ""
	for range samples {
		rtt, refusal := s.probeFrom(ctx, peer, address)
		if refusal != "" {
			why = refusal
			break
		}
		if least == 0 || rtt < least {
			least = rtt
		}
	}
	s.record(plan.Pair{From: peer, To: name}, least, why)
	return least > 0
}

func (s *survey) probeFrom(ctx context.Context, peer string, address netip.AddrPort) (rtt time.Duration, why string) {
	a, err := s.r.probePeer(ctx, peer, address)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return 0, "no answer"
	case err != nil:
		return 0, err.Error()
	case a.Status != trunkproto.Connected:
		return 0, a.Status.String()
	case a.RTT == 0:
		return 0, "the peer does not report it"
	}
	return a.RTT, ""
}

// probePeer makes a peer measure once. Workers are used in round-robin order.
func (r *Relay) probePeer(ctx context.Context, peer string, address netip.AddrPort) (trunkproto.Answer, error) {
	w := r.workers[r.nextProber.Add(1)%uint64(len(r.workers))]
	one, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	return w.Probe(one, []string{peer}, address)
}

func planned(p *plan.Plan) api.RelayPlan {
	out := api.RelayPlan{
		Client: p.Client, Server: p.Server, Use: string(p.Use), Why: p.Why, Size: p.Size, Sizes: p.Sizes,
		Text: strings.Split(strings.TrimRight(p.String(), "\n"), "\n"),
	}
	if p.Route != nil {
		route := plannedRoute(p.Route)
		out.Route = &route
	}
	if p.Direct != nil {
		direct := plannedTimes(p.Direct)
		out.Direct = &direct
	}
	for _, c := range p.Others {
		out.Others = append(out.Others, api.RelayPlanCandidate{RelayPlanRoute: plannedRoute(&c.Route), Not: c.Not})
	}
	for _, m := range p.Missing {
		out.Missing = append(out.Missing, api.RelayPlanMissing(m))
	}
	return out
}

func plannedRoute(r *plan.Route) api.RelayPlanRoute {
	out := api.RelayPlanRoute{Relays: r.Relays, Clouds: r.Clouds, Longest: time.Duration(r.Longest), Times: plannedTimes(&r.Times), Why: r.Why}
	for _, l := range r.Legs {
		out.Legs = append(out.Legs, api.RelayPlanLeg{From: l.From, To: l.To, RTT: time.Duration(l.RTT)})
	}
	return out
}

func plannedTimes(t *plan.Times) api.RelayPlanTimes {
	out := api.RelayPlanTimes{RTT: time.Duration(t.RTT), New: time.Duration(t.New), Warm: time.Duration(t.Warm)}
	for _, s := range t.Sizes {
		out.Sizes = append(out.Sizes, time.Duration(s))
	}
	return out
}
