package redirection

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/miekg/dns"

	"baton/experiments"
	"baton/experiments/cdn"
	"baton/experiments/load"
)

func measures() []measure {
	return []measure{
		timed(start, "From a client's SYN to the first byte of the answer, each request on a connection of its own (figures 11 to 14, 20)",
			func(x load.Exchange) time.Duration { return x.First.Sub(x.Due) }),
		{Name: first, Title: "The same for the first request of a client that the network does not know (figures 13, 14: the dots)", Unit: "ms", Less: true, Take: newcomers},
		timed(handshake, "From a client's SYN to its connection (figure 16)", func(x load.Exchange) time.Duration { return x.Connected.Sub(x.Due) }),
		timed(redirection, "From a client's GET to the first byte of the answer, redirection included (figure 17)",
			func(x load.Exchange) time.Duration { return x.First.Sub(x.Asked) }),
		{Name: keepAlive, Title: "From the GET to the first byte, for the requests of a connection but the first (figure 21)", Unit: "ms", Less: true, Per: "request",
			Take: subsequent},
		{Name: download, Title: "A file of 1 GB, from the SYN to the last byte (figure 18)", Unit: "s", Less: true, Take: downloads},
		{Name: bandwidth, Title: "Bandwidth of that download (figure 19)", Unit: "Mbit/s", Take: bandwidths},
		{Name: goodput, Title: "Goodput of a TCP session of which each packet passes the controller (figure 8)", Unit: "Mbit/s", Take: throughController(false)},
		{Name: packets, Title: "Packets a second of such a session, both ways", Unit: "packets/s", Take: throughController(true)},
		{Name: mods, Title: "Flow mods that the controller sends for a request", Unit: "flow mods", Less: true, Warm: warm, Take: countFlowMods},
		{Name: killed, Title: "Requests that are answered while the controller is killed", Unit: "%", Take: killController},
		{Name: discovery, Title: "From a controller's start until it knows all forwarders and links", Unit: "s", Less: true, Take: discover},
		{Name: cut, Title: "Pause of a stream of packets when a link of its path is cut", Unit: "ms", Less: true, Take: cutLink},
	}
}

// requests is how many a sample of slow requests has.
func requests(o experiments.Options) int64 {
	if o.Quick {
		return 20
	}
	return 200
}

// sampled is a sample of requests that are timed one by one: some thousands of fast ones, as where the scheduler puts client and surrogate changes
// their times for longer than a few requests take. More would use up the client's ports.
func sampled(o experiments.Options) load.Options {
	if o.Quick {
		return load.Options{Path: small, Requests: requests(o)}
	}
	return load.Options{Path: small, Duration: time.Second / 2}
}

// ask has the client ask the front, and returns also what became of each request.
func (t *Topology) ask(ctx context.Context, o load.Options) (load.Result, []load.Exchange, error) {
	if t.front.name == "" {
		return t.askAt(t.front.target, o)
	}
	return t.askByName(ctx, o)
}

// askByName asks the name server before each request: the time that it takes is the request's.
func (t *Topology) askByName(ctx context.Context, o load.Options) (total load.Result, all []load.Exchange, err error) {
	over := func() bool { return total.Requests+total.Errors >= o.Requests }
	if o.Requests == 0 {
		end := time.Now().Add(o.Duration)
		over = func() bool { return time.Now().After(end) }
	}
	single := o
	for single.Requests = 1; !over(); {
		took, at, err := t.lookUp(ctx, o.Sources)
		if err != nil {
			return total, nil, err
		}
		r, one, err := t.askAt(netip.AddrPortFrom(at, 80), single)
		if err != nil {
			return total, nil, err
		}
		add(&total, r)
		for _, x := range one {
			x.Due = x.Due.Add(-took)
			all = append(all, x)
		}
	}
	return total, all, nil
}

// askAt is ask for a front whose address is known.
func (t *Topology) askAt(target netip.AddrPort, o load.Options) (load.Result, []load.Exchange, error) {
	var all []load.Exchange
	o.Targets, o.Workers, o.Size, o.Follow, o.Enter = []netip.AddrPort{target}, 1, -1, t.front.follow, t.Clients[0].Do
	o.Each = func(x load.Exchange) { all = append(all, x) }
	r, err := load.Run(o)
	return r, all, err
}

// add adds up what became of requests.
func add(total *load.Result, r load.Result) {
	total.Requests += r.Requests
	total.Errors += r.Errors
	total.First = errors.Join(total.First, r.First)
}

// lookUp asks the name server for the front's name.
func (t *Topology) lookUp(ctx context.Context, sources []netip.Addr) (took time.Duration, at netip.Addr, err error) {
	local := ""
	if len(sources) > 0 {
		local = netip.AddrPortFrom(sources[0], 0).String()
	}
	c, err := t.Clients[0].DialFrom(ctx, "udp", local, cdn.Services+":53")
	if err != nil {
		return 0, at, err
	}
	conn := &dns.Conn{Conn: c}
	defer conn.Close()
	q := new(dns.Msg).SetQuestion(t.front.name+".", dns.TypeA)
	if err := conn.SetDeadline(time.Now().Add(5 * time.Second)); err != nil {
		return 0, at, err
	}
	began := time.Now()
	if err := conn.WriteMsg(q); err != nil {
		return 0, at, err
	}
	m, err := conn.ReadMsg()
	took = time.Since(began)
	if err != nil {
		return 0, at, fmt.Errorf("resolve %s: %w", t.front.name, err)
	}
	for _, rr := range m.Answer {
		if a, ok := rr.(*dns.A); ok {
			at, _ = netip.AddrFromSlice(a.A.To4())
			return took, at, nil
		}
	}
	return 0, at, fmt.Errorf("resolve %s: no address in %v", t.front.name, m)
}

// median is that of a time of each request, in ms.
func median(all []load.Exchange, of func(load.Exchange) time.Duration) float64 {
	var times []time.Duration
	for _, x := range all {
		if x.Err == nil {
			times = append(times, of(x))
		}
	}
	slices.Sort(times)
	return float64(times[len(times)/2].Nanoseconds()) / 1e6
}

// answered makes a sample of requests of which one at least was answered.
func answered(r load.Result, value func() float64) (sample, error) {
	if r.Requests == 0 {
		return sample{}, fmt.Errorf("no request was answered: %w", r.First)
	}
	s := sample{Value: value(), Work: float64(r.Requests), Errors: r.Errors}
	if r.First != nil {
		s.First = r.First.Error()
	}
	return s, nil
}

// warm has the network know the ways, and the programs their work.
func warm(ctx context.Context, t *turn) error {
	_, _, err := t.Topology.ask(ctx, load.Options{Path: small, Requests: 10})
	return err
}

// timed is the median of a time of single requests.
func timed(name, title string, of func(load.Exchange) time.Duration) measure {
	return measure{
		Name: name, Title: title, Unit: "ms", Less: true, Per: "request",
		Warm: warm,
		Take: func(ctx context.Context, t *turn) (sample, error) {
			r, all, err := t.Topology.ask(ctx, sampled(t.Options))
			if err != nil {
				return sample{}, err
			}
			s, err := answered(r, func() float64 { return median(all, of) })
			if err == nil && s.Errors > 0 {
				s.First += t.Topology.failures(ctx)
			}
			return s, err
		},
	}
}

// failures are the handoffs that have failed, by reason; "" if none has.
func (t *Topology) failures(ctx context.Context) string {
	now, err := t.Counts(ctx)
	if err != nil || now.Reactive == nil || len(now.Reactive.Failed) == 0 {
		return ""
	}
	return fmt.Sprintf("; handoffs of the controller that have failed: %v", now.Reactive.Failed)
}

// newcomers are clients whose first request it is.
func newcomers(ctx context.Context, t *turn) (sample, error) {
	var total load.Result
	var all []load.Exchange
	for range max(3, requests(t.Options)/20) {
		err := t.Topology.guest(func(from netip.Addr) error {
			r, one, err := t.Topology.ask(ctx, load.Options{Path: small, Requests: 1, Sources: []netip.Addr{from}})
			add(&total, r)
			all = append(all, one...)
			return err
		})
		if err != nil {
			return sample{}, err
		}
	}
	return answered(total, func() float64 { return median(all, func(x load.Exchange) time.Duration { return x.First.Sub(x.Due) }) })
}

// subsequent are the requests of a connection but its first.
func subsequent(ctx context.Context, t *turn) (sample, error) {
	o := sampled(t.Options)
	o.Reuse = true
	r, all, err := t.Topology.ask(ctx, o)
	if err != nil {
		return sample{}, err
	}
	later := slices.DeleteFunc(all, func(x load.Exchange) bool { return !x.Connected.IsZero() })
	if len(later) == 0 {
		return sample{}, errors.New("no connection was kept")
	}
	return answered(r, func() float64 {
		return median(later, func(x load.Exchange) time.Duration { return x.First.Sub(x.Due) })
	})
}

func downloads(ctx context.Context, t *turn) (sample, error) {
	r, all, err := t.Topology.ask(ctx, load.Options{Path: large, Requests: 1})
	if err != nil {
		return sample{}, err
	}
	return answered(r, func() float64 {
		t.Topology.download = all[0].Ended.Sub(all[0].Due).Seconds()
		return t.Topology.download
	})
}

// bandwidths are those of the downloads that were timed before.
func bandwidths(ctx context.Context, t *turn) (sample, error) {
	if t.Topology.download == 0 {
		if s, err := downloads(ctx, t); err != nil || s.Errors > 0 {
			return s, err
		}
	}
	return sample{Value: float64(t.Topology.largeSize()) * 8 / t.Topology.download / 1e6, Work: 1}, nil
}

// countFlowMods counts all that the controller sends for a request until its session has ended everywhere. It is the median of several counts: in the
// background paths of other hosts may be installed or removed.
func countFlowMods(ctx context.Context, t *turn) (sample, error) {
	var counts []float64
	var total load.Result
	for range 5 {
		before, err := t.Topology.Counts(ctx)
		if err != nil {
			return sample{}, err
		}
		r, _, err := t.Topology.ask(ctx, load.Options{Path: small, Requests: requests(t.Options) / 5})
		if err != nil {
			return sample{}, err
		}
		add(&total, r)
		if r.Requests == 0 {
			return answered(total, nil)
		}
		select { // the ends of sessions
		case <-time.After(time.Second):
		case <-ctx.Done():
			return sample{}, ctx.Err()
		}
		after, err := t.Topology.Counts(ctx)
		if err != nil {
			return sample{}, err
		}
		counts = append(counts, float64(after.FlowMods-before.FlowMods)/float64(r.Requests))
	}
	slices.Sort(counts)
	return answered(total, func() float64 { return counts[len(counts)/2] })
}

// killController kills the controller while the client keeps asking, and starts another afterwards.
func killController(ctx context.Context, t *turn) (sample, error) {
	length := max(t.Options.Duration, 2*time.Second)
	// By handoffs in the router's kernel also new sessions go on. The controller's own go on where they are.
	o := load.Options{Path: small, Duration: length, Connections: 8, Even: true, Think: 20 * time.Millisecond, Reuse: t.Topology.front.target == byController}
	kill := make(chan error, 1)
	time.AfterFunc(length/3, func() { kill <- t.Topology.Controller.Kill() })
	r, _, err := t.Topology.ask(ctx, o)
	if err := errors.Join(err, <-kill); err != nil {
		return sample{}, err
	}
	if err := errors.Join(t.Topology.Replace(ctx, nil), t.Topology.Joined(ctx)); err != nil {
		return sample{}, err
	}
	return answered(r, func() float64 { return 100 * float64(r.Requests) / float64(r.Requests+r.Errors) })
}

// discover replaces the controller by one that knows nothing.
func discover(ctx context.Context, t *turn) (sample, error) {
	began := time.Now()
	if err := t.Topology.Replace(ctx, nil); err != nil {
		return sample{}, err
	}
	return sample{Value: time.Since(began).Seconds(), Work: 1}, t.Topology.Joined(ctx)
}

// throughController measures a session to a service that is tracked and never handed over: its bits or its packets.
func throughController(counted bool) func(context.Context, *turn) (sample, error) {
	return func(ctx context.Context, t *turn) (sample, error) {
		before, err := t.Topology.Counts(ctx)
		if err != nil {
			return sample{}, err
		}
		bytes, took, err := t.Topology.stream(ctx, max(t.Options.Duration, time.Second))
		if err != nil {
			return sample{}, err
		}
		after, err := t.Topology.Counts(ctx)
		if err != nil {
			return sample{}, err
		}
		passed := float64(after.Packets - before.Packets)
		if passed < float64(bytes)/mss {
			return sample{}, fmt.Errorf("%.0f packets passed the controller, for %d bytes", passed, bytes)
		}
		if counted {
			return sample{Value: passed / took.Seconds(), Work: 1}, nil
		}
		return sample{Value: float64(bytes) * 8 / took.Seconds() / 1e6, Work: 1}, nil
	}
}

// mss is the most bytes of a packet's content, by Ethernet.
const mss = 1460
