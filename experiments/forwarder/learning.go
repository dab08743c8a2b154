package forwarder

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync/atomic"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"baton/experiments"
	"baton/openflow"
	"baton/packet"
)

// ControlPlane is the question for controllers.
func ControlPlane() experiments.Experiment[*Topology] {
	return experiments.Experiment[*Topology]{
		Name:     "forwarder-control",
		Question: "How fast does the forwarder learn, tell and forget?",
		Method: "The topology of `forwarder`. The switch connects to one controller, over TCP on its own host; it is the same for all switches, of this " +
			"project's own OpenFlow library. Packets are those of 64 bytes of `forwarder`, over the links without offloads. *New flows*: each " +
			"packet is the first of its flow; beside the entries that pass it on stand a thousand for sessions of the same hosts, which it does not " +
			"meet. *Reactive set-up*: the only entry is the table-miss one; for each packet the controller adds an entry for that flow alone and " +
			"sends the packet back. It counts when the packet reaches the server. *Packet-in* stops at the controller, *packet-out* begins " +
			"there. Memory is the anonymous memory of the switch's process and that of the BPF maps that it holds, by the kernel's account.",
		Contenders: []Contender{
			{Name: "ovs", Is: "Open vSwitch, userspace datapath as it comes", Start: func(ctx context.Context, t *Turn) error {
				t.Topology.begin(false)
				return t.Topology.startOVS(ctx, t, false)
			}},
			{Name: "baton", Is: "`baton forwarder`", Start: func(ctx context.Context, t *Turn) error {
				t.Topology.begin(false)
				return t.Topology.startBaton(ctx, t)
			}},
		},
		Measures: rates(),
		Rounds:   7,
		Build:    Build,
		Claims:   controlClaims(),
		Caveats: append([]string{
			"The controller is one process with the switch's load beside it on two processors: what it needs for a message is missing to the switch. " +
				"Both switches have the same.",
			"Open vSwitch does not promise that what a barrier answers for is in force: packets may meet its cached flows for up to a second.",
		}, caveats[0]),
	}
}

const (
	hundredsName = "flow mods in hundreds"
	installName  = "install 100k"
	memoryName   = "memory with 100k"
	dumpName     = "dump 100k"
	deleteName   = "delete 100k"
	outName      = "packet-out"
	inName       = "packet-in"
	reactiveName = "reactive set-up"
	setUpName    = "time of a set-up"
	newName      = "new flows"
)

func rates() []Measure {
	return []Measure{
		{Name: newName, Title: "New flows a second that entries of more than one flow pass on", Unit: "flows/s", Per: "flow", Take: newFlows},
		{Name: reactiveName, Title: "New flows a second that the controller makes an entry for", Unit: "flows/s", Per: "flow", Take: reactive},
		{Name: setUpName, Title: "Time of a new flow's first packet by way of the controller", Unit: "µs", Less: true, Take: setUp},
		{Name: inName, Title: "Packets a second that reach the controller", Unit: "packets/s", Per: "packet", Take: packetIn},
		{Name: outName, Title: "Packets a second that the controller sends through the switch", Unit: "packets/s", Per: "packet", Take: packetOut},
		{Name: hundredsName, Title: "Flow mods a second, a barrier behind each hundred", Unit: "flow mods/s", Per: "flow mod", Take: inHundreds},
		{Name: installName, Title: "Time to install 100,000 entries, one barrier", Unit: "s", Less: true, Warm: empty, Take: install},
		{Name: memoryName, Title: "Memory of the switch with 100,000 entries", Unit: "MB", Less: true, Warm: full, Take: memory},
		{Name: dumpName, Title: "Time to read 100,000 entries and their counters", Unit: "s", Less: true, Warm: full, Take: dump},
		{Name: deleteName, Title: "Time to delete 100,000 entries by one flow mod", Unit: "s", Less: true, Warm: full, Take: remove},
	}
}

func controlClaims() []experiments.Claim {
	claim := func(what, measure string, least, most float64) experiments.Claim {
		return experiments.Claim{What: what + ", beside Open vSwitch", Unit: "×", Ours: experiments.RatioOf("", measure, "baton", "ovs"),
			AtLeast: least, AtMost: most}
	}
	return []experiments.Claim{
		claim("new flows a second under entries that are there", newName, 1, 0),
		claim("reactive set-ups a second", reactiveName, 1, 0),
		claim("packets a second to the controller", inName, 1, 0),
		claim("packets a second from the controller", outName, 1, 0),
		claim("flow mods a second, a barrier behind each hundred", hundredsName, 1, 0),
		claim("time to install 100,000 entries", installName, 0, 1),
		claim("time of a set-up", setUpName, 0, 0),
		claim("time to delete 100,000 entries", deleteName, 0, 0),
		claim("time to read 100,000 entries", dumpName, 0, 0),
		claim("memory with 100,000 entries", memoryName, 0, 0),
	}
}

// prepare leaves the switch with these entries alone.
func prepare(ctx context.Context, t *Turn, entries ...openflow.Message) error {
	if err := t.Topology.Control.clear(ctx); err != nil {
		return err
	}
	return t.Topology.Control.Install(ctx, atOnce, entries...)
}

// newFlows sends packets of flows that no entry names, past entries for a thousand others of the same hosts.
func newFlows(ctx context.Context, t *Turn) (experiments.Sample, error) {
	const others = 1000
	w := t.Topology.Frames
	entries := t.Topology.Plain()
	for i := range others {
		entries = append(entries, Entry(Session, udp(netip.MustParseAddr(w.Source), netip.MustParseAddr(w.Sink), uint16(i*65), 53), openflow.ActionOutput{Port: w.OutPort}))
	}
	if err := prepare(ctx, t, entries...); err != nil {
		return experiments.Sample{}, err
	}
	p, err := t.Topology.send(ctx, everyOne, t.Options.Duration)
	return p.sample(), err
}

// miss is the table-miss entry that sends whole packets to the controller.
func miss() openflow.Message {
	return Entry(lowest, nil, openflow.ActionOutput{Port: openflow.PortController, MaxLen: openflow.MaxLenNoBuffer})
}

// reply adds an entry for the flow of a packet that was sent up, and sends it on.
func (t *Topology) reply(ctx context.Context, m *openflow.PacketIn) error {
	w := t.Frames
	f := m.Data
	if len(f) < frameSize || f[packet.EthernetSize+9] != udpProtocol {
		return fmt.Errorf("a packet of %d bytes comes up that nobody has sent", len(f))
	}
	ip, ports := packet.IPv4(f[packet.EthernetSize:]), f[atUDP:]
	source, target := uint16(ports[0])<<8|uint16(ports[1]), uint16(ports[2])<<8|uint16(ports[3])
	out := openflow.ActionOutput{Port: w.OutPort}
	return t.Control.send(ctx, Entry(Session, udp(ip.Src(), ip.Dst(), source, target), out),
		&openflow.PacketOut{Buffer: openflow.NoBuffer, InPort: w.InPort, Actions: []openflow.Action{out}, Data: f})
}

// mostFlows bounds the entries of a measure: the forwarder has room for some more.
const mostFlows = 100_000

// whileControlled runs f while the controller does what do says for each packet that comes up.
func (t *Topology) whileControlled(ctx context.Context, do func(context.Context, *openflow.PacketIn) error, f func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	done := make(chan error, 1)
	go func() {
		err := t.Control.packetIns(ctx, func(m *openflow.PacketIn) error { return do(ctx, m) })
		if err != nil && ctx.Err() == nil {
			cancel(err)
		}
		done <- err
	}()
	err := f(ctx)
	why := context.Cause(ctx)
	cancel(nil)
	<-done
	return errors.Join(why, err)
}

// few is how many packets are under way to the controller at most: Open vSwitch keeps a hundred for it.
const few = 64

func reactive(ctx context.Context, t *Turn) (experiments.Sample, error) {
	p, err := t.Topology.upward(ctx, t, t.Topology.reply, func() (func() (uint64, error), func() error, error) {
		c, err := openCounter(t.Topology.Frames.Far)
		if err != nil {
			return nil, nil, err
		}
		return c.read, c.close, nil
	})
	return p.sample(), err
}

func packetIn(ctx context.Context, t *Turn) (experiments.Sample, error) {
	var seen atomic.Uint64
	p, err := t.Topology.upward(ctx, t, func(_ context.Context, m *openflow.PacketIn) error {
		if len(m.Data) != frameSize {
			return fmt.Errorf("a packet of %d bytes comes up, of %d", len(m.Data), frameSize)
		}
		seen.Add(1)
		return nil
	}, func() (func() (uint64, error), func() error, error) {
		return func() (uint64, error) { return seen.Load(), nil }, func() error { return nil }, nil
	})
	return p.sample(), err
}

// upward sends packets of new flows to a switch that knows the controller alone.
func (t *Topology) upward(ctx context.Context, turn *Turn, do func(context.Context, *openflow.PacketIn) error,
	arrivals func() (read func() (uint64, error), done func() error, err error)) (p passed, err error) {
	if err := prepare(ctx, turn, miss()); err != nil {
		return p, err
	}
	read, done, err := arrivals()
	if err != nil {
		return p, err
	}
	s, err := openSource(t.Frames, t.fresh, everyOne)
	if err != nil {
		return p, errors.Join(err, done())
	}
	err = t.whileControlled(ctx, do, func(ctx context.Context) (err error) {
		p, err = s.drive(ctx, turn.Options.Duration, mostFlows, few, read)
		return err
	})
	t.fresh += s.sent
	return p, errors.Join(err, s.close(), done())
}

// setUp sends one packet at a time and looks for it at the server.
func setUp(ctx context.Context, t *Turn) (sample experiments.Sample, err error) {
	w := t.Topology.Frames
	if err := prepare(ctx, t, miss()); err != nil {
		return sample, err
	}
	c, err := openCounter(w.Far)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	s, err := openSource(w, t.Topology.fresh, everyOne)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	h := hdrhistogram.New(100, int64(time.Minute), 3)
	err = t.Topology.whileControlled(ctx, t.Topology.reply, func(ctx context.Context) error {
		for began := time.Now(); time.Since(began) < t.Options.Duration && s.sent < mostFlows; {
			before, err := c.read()
			at := time.Now()
			if err == nil {
				err = s.send(1)
			}
			for now := before; err == nil && now == before; {
				if now, err = c.read(); time.Since(at) > time.Second {
					return fmt.Errorf("the first packet of flow %d does not arrive", s.sent)
				}
			}
			if err := errors.Join(err, ctx.Err()); err != nil {
				return err
			}
			_ = h.RecordValue(int64(time.Since(at)))
		}
		return nil
	})
	t.Topology.fresh += s.sent
	if err != nil {
		return sample, err
	}
	return experiments.Sample{Value: float64(h.ValueAtQuantile(50)) / 1e3, Single: experiments.NewDistribution(h)}, nil
}

// packetOut has the controller send as fast as the switch takes it.
func packetOut(ctx context.Context, t *Turn) (sample experiments.Sample, err error) {
	w := t.Topology.Frames
	if err := prepare(ctx, t); err != nil {
		return sample, err
	}
	c, err := openCounter(w.Far)
	if err != nil {
		return sample, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	m := &openflow.PacketOut{Buffer: openflow.NoBuffer, InPort: openflow.PortController,
		Actions: []openflow.Action{openflow.ActionOutput{Port: w.OutPort}}, Data: frame(w)}
	before, err := c.read()
	if err != nil {
		return sample, err
	}
	began, sent := time.Now(), uint64(0)
	const together = 1000 // a barrier behind so many: what the channel holds is not what the switch has done
	for time.Since(began) < t.Options.Duration {
		for range together {
			putFlow(m.Data, sent)
			sent++
			if err := t.Topology.Control.send(ctx, m); err != nil {
				return sample, err
			}
		}
		if err := t.Topology.Control.barrier(ctx); err != nil {
			return sample, err
		}
	}
	took := time.Since(began)
	after, err := c.read()
	p := passed{arrived: after - before, took: took}
	p.lost = sent - min(p.arrived, sent)
	if err == nil && p.arrived == 0 {
		err = errSilent
	}
	return p.sample(), err
}

// inHundreds adds entries for sessions, a barrier behind each hundred, for a time.
func inHundreds(ctx context.Context, t *Turn) (experiments.Sample, error) {
	if err := prepare(ctx, t); err != nil {
		return experiments.Sample{}, err
	}
	const hundred = 100
	mods := sessions(mostFlows)
	began, sent := time.Now(), 0
	for ; time.Since(began) < t.Options.Duration && sent < len(mods); sent += hundred {
		if err := t.Topology.Control.Install(ctx, hundred, mods[sent:sent+hundred]...); err != nil {
			return experiments.Sample{}, err
		}
	}
	return experiments.Sample{Value: float64(sent) / time.Since(began).Seconds(), Work: float64(sent)}, nil
}

// empty and full leave the switch without an entry, or with as many as the measures' names say.
func empty(ctx context.Context, t *Turn) error { return prepare(ctx, t) }

func full(ctx context.Context, t *Turn) error {
	return prepare(ctx, t, sessions(hundredThousand(t))...)
}

// timed is a sample of how long f takes, in s.
func timed(f func() error) (experiments.Sample, error) {
	began := time.Now()
	err := f()
	return experiments.Sample{Value: time.Since(began).Seconds()}, err
}

func install(ctx context.Context, t *Turn) (experiments.Sample, error) {
	mods := sessions(hundredThousand(t))
	return timed(func() error { return t.Topology.Control.Install(ctx, atOnce, mods...) })
}

func remove(ctx context.Context, t *Turn) (experiments.Sample, error) {
	return timed(func() error { return t.Topology.Control.clear(ctx) })
}

func dump(ctx context.Context, t *Turn) (experiments.Sample, error) {
	want := hundredThousand(t)
	return timed(func() error {
		parts, err := t.Topology.Control.conn.Multipart(ctx, openflow.FlowStatsRequest{FlowQuery: openflow.NewFlowQuery()})
		got := 0
		for _, p := range parts {
			if r, ok := p.(openflow.FlowStatsReply); ok {
				got += len(r)
			}
		}
		if err == nil && got != want {
			err = fmt.Errorf("%d entries are told, of %d", got, want)
		}
		return err
	})
}

// memory is told with what it was without an entry, and of which kinds it is.
func memory(_ context.Context, t *Turn) (experiments.Sample, error) {
	pid := t.Topology.Process.Pid()
	own, err := anonymous(pid)
	if err != nil {
		return experiments.Sample{}, err
	}
	maps, err := mapMemory(pid)
	return experiments.Sample{Value: float64(own+maps) / 1e6,
		Also: map[string]float64{"process_mb": float64(own) / 1e6, "maps_mb": float64(maps) / 1e6}}, err
}
