package forwarder

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sys/unix"

	"baton/experiments"
	"baton/lab/peers"
	"baton/packet"
)

// The measures' names, which the claims use.
const (
	bulkName   = "bulk"
	bulk4Name  = "bulk of 4 flows"
	frameName  = "whole frames"
	frame4Name = "whole frames of 4 flows"
	smallName  = "small packets"
	flowsName  = "small packets of 10k flows"
	freshName  = "small packets of new flows"
)

func measures() []Measure {
	return []Measure{
		transfer(bulkName, "Bits a second of one TCP flow, offloads on", 1, (*Topology).bulkWay),
		transfer(bulk4Name, "Bits a second of four TCP flows, offloads on", 4, (*Topology).bulkWay),
		transfer(frameName, "Bits a second of one TCP flow in frames of 1,500 bytes", 1, (*Topology).framesWay),
		transfer(frame4Name, "Bits a second of four TCP flows in frames of 1,500 bytes", 4, (*Topology).framesWay),
		packets(smallName, "Packets of 64 bytes a second, of one flow", 1),
		packets(flowsName, "Packets of 64 bytes a second, of 10,000 flows by turns", 10_000),
		packets(freshName, "Packets of 64 bytes a second, each the first of its flow", everyOne),
		program("program", "Time in BPF programs for a packet of 64 bytes, of one flow", 1),
		program("program on new flows", "Time in BPF programs for a packet of 64 bytes, each the first of its flow", everyOne),
		{Name: "round trip", Title: "Time of an echo between the hosts", Unit: "µs", Less: true, Take: roundTrip},
	}
}

// bulkWay has offloads where the contender allows that.
func (t *Topology) bulkWay() *Way {
	if t.whole {
		return t.Frames
	}
	return t.Large
}

func (t *Topology) framesWay() *Way { return t.Frames }

func transfer(name, title string, flows int, way func(*Topology) *Way) Measure {
	return Measure{Name: name, Title: title, Unit: "Gbit/s", Per: "GiB", Take: func(ctx context.Context, t *Turn) (experiments.Sample, error) {
		return Transfer(ctx, t, way(t.Topology).Target, peers.Iperf3Options{Streams: flows})
	}}
}

// quickBytes is how much a quick run transfers: iperf3 knows whole seconds alone.
const quickBytes = 8 << 20

// Transfer sends by TCP to iperf3 at an address of the server, for as long as samples take.
func Transfer(ctx context.Context, t *Turn, to string, o peers.Iperf3Options) (experiments.Sample, error) {
	o.Time = t.Options.Duration
	if t.Options.Quick {
		o.Bytes = quickBytes
	}
	f, err := peers.Iperf3(ctx, t.Topology.Client, to, o)
	if err != nil {
		return experiments.Sample{}, err
	}
	return experiments.Sample{Value: f.Rate / 1e9, Work: float64(f.Received) / (1 << 30),
		Also: map[string]float64{"retransmits": float64(f.Retransmits)}}, nil
}

func packets(name, title string, flows uint64) Measure {
	return Measure{Name: name, Title: title, Unit: "packets/s", Per: "packet", Take: func(ctx context.Context, t *Turn) (experiments.Sample, error) {
		p, err := t.Topology.send(ctx, flows, t.Options.Duration)
		return p.sample(), err
	}}
}

func (p passed) sample() experiments.Sample {
	s := experiments.Sample{Value: p.rate(), Work: float64(p.arrived), Errors: int64(p.lost)}
	if p.lost > 0 {
		s.First = "packets were lost"
	}
	return s
}

// noLimit is for drive: as many packets as there is time for.
const noLimit = 1 << 62

// send sends small packets to the sink for a time, of so many flows.
func (t *Topology) send(ctx context.Context, flows uint64, d time.Duration) (p passed, err error) {
	s, err := openSource(t.Frames, t.fresh, flows)
	if err != nil {
		return p, err
	}
	arrived, err := openCounter(t.Frames.Far)
	if err != nil {
		return p, errors.Join(err, s.close())
	}
	p, err = s.drive(ctx, d, noLimit, window, arrived.read)
	t.fresh += s.sent
	return p, errors.Join(err, s.close(), arrived.close())
}

func program(name, title string, flows uint64) Measure {
	return Measure{Name: name, Title: title, Unit: "ns", Less: true, Take: func(ctx context.Context, t *Turn) (experiments.Sample, error) {
		return Program(t, func() error {
			_, err := t.Topology.send(ctx, flows, t.Options.Duration)
			return err
		})
	}}
}

// Program is the mean time of a run of the BPF programs of the contender's process while f runs: of those, and of nothing else that
// the kernel does. A contender without a process has none.
func Program(t *Turn, f func() error) (s experiments.Sample, err error) {
	if t.Topology.Process == nil {
		return s, nil
	}
	off, err := countPrograms()
	if err != nil {
		return s, err
	}
	defer func() { err = errors.Join(err, off()) }()
	before, err := programsOf(t.Topology.Process.Pid())
	if err != nil {
		return s, err
	}
	if err := f(); err != nil {
		return s, err
	}
	after, err := programsOf(t.Topology.Process.Pid())
	if runs := after.count - before.count; runs > 0 {
		s.Value = float64(after.time-before.time) / float64(runs)
		s.Also = map[string]float64{"runs": float64(runs)}
	}
	return s, err
}

// roundTrip asks for echoes, one after the other. The kernel of the server answers them.
func roundTrip(ctx context.Context, t *Turn) (experiments.Sample, error) {
	h, err := echoes(ctx, t.Topology.Client.Do, netip.MustParseAddr(t.Topology.Large.Target), t.Options.Duration)
	if err != nil {
		return experiments.Sample{}, err
	}
	return experiments.Sample{Value: float64(h.ValueAtQuantile(50)) / 1e3, Single: experiments.NewDistribution(h)}, nil
}

// echoes returns the times of echoes, in ns.
func echoes(ctx context.Context, enter func(func() error) error, to netip.Addr, d time.Duration) (*hdrhistogram.Histogram, error) {
	fd := -1
	err := enter(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	defer unix.Close(fd)
	timeout := unix.NsecToTimeval(int64(time.Second))
	if err := errors.Join(unix.Connect(fd, &unix.SockaddrInet4{Addr: to.As4()}),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &timeout)); err != nil {
		return nil, fmt.Errorf("echo: %w", err)
	}
	h := hdrhistogram.New(100, int64(time.Second), 3)
	request, answer := make([]byte, echoSize), make([]byte, 2*echoSize)
	began := time.Now()
	for n := uint32(0); time.Since(began) < d && ctx.Err() == nil; n++ {
		putEcho(request, n)
		at := time.Now()
		if _, err := unix.Write(fd, request); err != nil {
			return nil, fmt.Errorf("echo: %w", err)
		}
		for {
			k, err := unix.Read(fd, answer)
			if err == unix.EINTR {
				continue
			}
			if err != nil {
				return nil, fmt.Errorf("echo %d: %w", n, err)
			}
			if isEcho(answer[:k], n) {
				break
			}
		}
		_ = h.RecordValue(int64(time.Since(at)))
	}
	return h, ctx.Err()
}

// echoSize is what ping sends: 56 bytes behind the header of ICMP.
const echoSize = 64

const echoRequest = 8

func putEcho(b []byte, n uint32) {
	b[0] = echoRequest
	b[2], b[3] = 0, 0
	binary.BigEndian.PutUint32(b[4:], n) // identifier and number
	binary.BigEndian.PutUint16(b[2:], packet.Checksum(b, 0))
}

// isEcho reports whether a packet, from its IP header on, answers the n-th request.
func isEcho(b []byte, n uint32) bool {
	return len(b) >= packet.IPv4Size+echoSize && b[packet.IPv4Size] == 0 && binary.BigEndian.Uint32(b[packet.IPv4Size+4:]) == n
}
