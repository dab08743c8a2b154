package endhost

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"baton/experiments"
	"baton/experiments/load"
	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

// The measures' names, which the claims use.
const (
	downName  = "download"
	upName    = "upload"
	rateName  = "requests"
	firstName = "first packet"
)

// The cases: what a network card with segmentation offload gives, what one without does, and a link of an ordinary rate.
const (
	largeCase   = "large frames"
	wholeCase   = "whole frames"
	gigabitCase = "1 Gbit/s"
)

// gigabit is the rate of the last case's link (bits a second), and gigabitLink its place.
const (
	gigabit     = emulator.Rate(1e9)
	gigabitLink = 2
)

// Switch is the question of figure 4.
func Switch() experiments.Experiment[*Topology] {
	contenders := []Contender{
		{Name: "none", Is: "no SDN: the host's default route", Start: func(ctx context.Context, t *Turn) error {
			t.Topology.front = front{}
			return t.Topology.passes(ctx, t.Topology.used)
		}},
		balance("baton", "`baton balance` with one link, round-robin, in the kernel", settings{method: "round-robin"}),
		perFlow(balance("baton-controller", "`baton balance` with one link, a packet-in for each flow", settings{method: "controller"})),
		openVSwitch(balance("ovs", "`baton balance` with one link, Open vSwitch (userspace datapath), a select group",
			settings{datapath: "ovs", method: "hash"})),
		perFlow(openVSwitch(balance("ovs-controller", "`baton balance` with one link, Open vSwitch, a packet-in for each flow",
			settings{datapath: "ovs", method: "controller"}))),
	}
	for i := range contenders {
		skips := contenders[i].Skips
		contenders[i].Skips = func(c Case, measure string) bool { // neither goes by the link's rate
			return c.Name == gigabitCase && (measure == firstName || measure == rateName) || skips != nil && skips(c, measure)
		}
	}
	return experiments.Experiment[*Topology]{
		Name:     "endhost-switch",
		Question: "What does a switch on the host cost that has only one link?",
		Method: "The paper's figure 3: a host, a gateway, a router, a server, each a network namespace, joined by links without a limit (veth). Large frames hold up to " +
			"64 KiB of several segments, as those of a network card with segmentation offload; whole frames at most 1,500 bytes on the host's link; " +
			"the link of 1 Gbit/s takes those, and the kernel holds it to its rate (tbf). A download and " +
			"an upload are iperf3's, one flow. Requests have 1 kB and a connection each, 16 at a time, to 64 addresses of the server, round-robin. A first packet is a SYN of a new " +
			"flow to a closed port: from connect(2) to its answer, the server's RST, one flow at a time; p50 and p99 are of single flows. What a contender adds to that is the delay of the " +
			"first packet and that of its answer. A packet-in for each flow changes nothing within a flow, so that those contenders are asked for requests and first packets alone.",
		Cases: []Case{{Name: largeCase, At: map[string]float64{"link": 0}, Quick: true}, {Name: wholeCase, At: map[string]float64{"link": 1}, Quick: true},
			{Name: gigabitCase, At: map[string]float64{"link": gigabitLink}, Quick: true}},
		Contenders: contenders,
		Measures: []Measure{
			transfer(downName, "Bits a second of a download of one flow", true),
			transfer(upName, "Bits a second of an upload of one flow", false),
			{Name: rateName, Title: "Requests a second, each on a connection of its own", Unit: "requests/s", Per: "request", Take: requestRate},
			{Name: firstName, Title: "Time from the first packet of a flow to its answer, median", Unit: "µs", Less: true, Take: firstPackets},
		},
		Rounds: 6, Duration: 2 * time.Second, // six rounds are the fewest whose interval holds the median with 95 %
		Build: func(_ context.Context, s *experiments.Setup) (*Topology, error) {
			t, err := build(s, gigabitLink+1, options)
			if err != nil {
				return nil, err
			}
			iperf := peers.Iperf3Server(t.Server)
			s.Serves(iperf.Process, iperf.Version)
			return t, nil
		},
		Enter: func(ctx context.Context, t *Topology, c Case) error {
			i := int(c.At["link"])
			return t.use(ctx, t.Links[i:i+1])
		},
		Claims: switchClaims(),
		Plots: []experiments.Plot{
			{Measure: downName, Title: "Bits a second of a download through a switch on the host (the paper's figure 4); more is better"},
			{Measure: downName, Of: experiments.OfProcessor}, {Measure: upName}, {Measure: upName, Of: experiments.OfProcessor}, {Measure: rateName},
			{Measure: rateName, Of: experiments.OfProcessor}, {Measure: firstName}, {Measure: firstName, Of: experiments.OfP99},
		},
		Caveats: []string{
			"Open vSwitch here is the one with the datapath in user space, which needs no module of the kernel; the paper's has it in the kernel, and its ofdatapath is " +
				"the one in user space. It takes no large frames without other settings than the balance makes, and is not asked with them.",
			"All hosts share the machine's processors: what one of them spends is missing to the others. Processor time for a unit of work is the steadier figure.",
			"The tail of the time of first packets is mostly the machine's: compare it with that of `none`.",
		},
	}
}

// options are those of the i-th link.
func options(i int) lab.LinkOptions {
	o := lab.LinkOptions{NoOffloads: i > 0}
	if i == gigabitLink {
		o.Rate = gigabit
	}
	return o
}

// openVSwitch restricts a contender to whole frames.
func openVSwitch(c Contender) Contender {
	c.Skips = func(c Case, _ string) bool { return c.Name == largeCase }
	return c
}

// perFlow restricts a contender to the cost of new flows, without a rate limit: a transfer is a single flow.
func perFlow(c Contender) Contender {
	skips := c.Skips
	c.Skips = func(c Case, measure string) bool {
		return c.Name == gigabitCase || measure == downName || measure == upName || skips != nil && skips(c, measure)
	}
	return c
}

// quickBytes is how much a quick run transfers: iperf3 knows whole seconds alone.
const quickBytes = 8 << 20

func transfer(name, title string, down bool) Measure {
	return Measure{Name: name, Title: title, Unit: "Gbit/s", Per: "GiB", Take: func(ctx context.Context, t *Turn) (experiments.Sample, error) {
		o := peers.Iperf3Options{Time: t.Options.Duration, Reverse: down}
		if t.Options.Quick {
			o.Bytes = quickBytes
		}
		f, err := peers.Iperf3(ctx, t.Topology.Host, serverAddress.String(), o)
		if err != nil {
			return experiments.Sample{}, err
		}
		return experiments.Sample{Value: f.Rate / 1e9, Work: float64(f.Received) / (1 << 30), Also: map[string]float64{"retransmits": float64(f.Retransmits)}}, nil
	}}
}

func requestRate(_ context.Context, t *Turn) (experiments.Sample, error) {
	f := kilobytes(1)
	var targets []netip.AddrPort
	for _, a := range serverAddresses() {
		targets = append(targets, netip.AddrPortFrom(a, httpPort))
	}
	r, err := t.Topology.ask(load.Options{Targets: targets, Path: f.path, Body: f.body, Connections: 16, Duration: t.Options.Duration})
	if err != nil {
		return experiments.Sample{}, err
	}
	return experiments.Loaded(r, r.Rate(), float64(r.Requests))
}

// closedPort has no listener.
const closedPort = 9

// mostFlows is how many first packets a sample has at most: fewer than there are ports, so that none is of a flow that was before.
const mostFlows = 20_000

// firstPackets begins flows one after the other.
func firstPackets(ctx context.Context, t *Turn) (experiments.Sample, error) {
	h := hdrhistogram.New(100, int64(time.Second), 3)
	err := t.Topology.Host.Do(func() error {
		began := time.Now()
		for n := 0; n < mostFlows && time.Since(began) < t.Options.Duration && ctx.Err() == nil; n++ {
			took, err := refused(netip.AddrPortFrom(serverAddress, closedPort))
			if err != nil {
				return fmt.Errorf("first packet %d: %w", n, err)
			}
			_ = h.RecordValue(int64(min(took, time.Second)))
		}
		return ctx.Err()
	})
	if err != nil {
		return experiments.Sample{}, err
	}
	return experiments.Sample{Value: float64(h.ValueAtQuantile(50)) / 1e3, Single: experiments.NewDistribution(h)}, nil
}

// refused returns the time of a connect that the other end refuses.
func refused(to netip.AddrPort) (time.Duration, error) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, unix.IPPROTO_TCP)
	if err != nil {
		return 0, fmt.Errorf("socket: %w", err)
	}
	defer unix.Close(fd)
	address := &unix.SockaddrInet4{Port: int(to.Port()), Addr: to.Addr().As4()}
	began := time.Now()
	err = unix.Connect(fd, address)
	took := time.Since(began)
	if !errors.Is(err, unix.ECONNREFUSED) {
		return 0, fmt.Errorf("connect: %v, want a refusal", err)
	}
	return took, nil
}

func switchClaims() (list []experiments.Claim) {
	const less = 0.98 // the goal: less than 2 % of throughput
	for _, c := range []string{gigabitCase, largeCase, wholeCase} {
		beside := func(m string, goal float64) {
			list = append(list, experiments.Claim{What: fmt.Sprintf("%s, %s: baton beside none", m, c), Unit: "×",
				Ours: experiments.RatioOf(c, m, "baton", "none"), AtLeast: goal})
		}
		beside(downName, less)
		beside(upName, less)
		if c == gigabitCase {
			continue
		}
		beside(rateName, 0)
		list = append(list, added(c, "baton", "median", 20, func(d *experiments.Distribution) float64 { return d.P50 }),
			added(c, "baton", "99th percentile", 0, func(d *experiments.Distribution) float64 { return d.P99 }))
	}
	const where = paper + ", section VI.B, figure 4"
	for _, m := range []string{downName, upName} {
		list = append(list, experiments.Claim{What: m + ", whole frames: ovs beside none", Unit: "×", Where: where,
			Paper: "a minor penalty (datapath in the kernel), much less (ofdatapath)", Ours: experiments.RatioOf(wholeCase, m, "ovs", "none")})
	}
	for _, c := range []string{"ovs", "ovs-controller", "baton-controller"} {
		list = append(list, added(wholeCase, c, "median", 0, func(d *experiments.Distribution) float64 { return d.P50 }))
	}
	return list
}

// added is what a contender adds to the time of a first packet and its answer.
func added(kase, contender, what string, goal float64, of func(*experiments.Distribution) float64) experiments.Claim {
	return experiments.Claim{What: fmt.Sprintf("first packet of a flow, %s: what %s adds, %s", kase, contender, what), Unit: "µs", AtMost: goal,
		Ours: experiments.FigureOf(kase, firstName, []string{contender, "none"}, func(s []experiments.Sample) float64 {
			return (of(s[0].Single) - of(s[1].Single)) * 1e6
		})}
}
