package selftest

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"baton/lab/emulator"
)

// bulk sends a stream over 10 ms, which crosses in frames of 64 KiB.
func bulk(ctx context.Context, p *pair) ([]Check, error) {
	p.link.Set(delay(10*time.Millisecond), delay(10*time.Millisecond))
	length := p.length(3 * time.Second)
	ln, err := p.b.Listen("tcp", fmt.Sprintf("%s:%d", addressB, port))
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	go func() {
		c, err := p.a.Dial(ctx, "tcp", ln.Addr().String())
		if err != nil {
			return
		}
		defer c.Close()
		block := make([]byte, 1<<20)
		for deadline := time.Now().Add(2 * length); time.Now().Before(deadline); {
			if _, err := c.Write(block); err != nil {
				return
			}
		}
	}()
	c, err := ln.Accept()
	if err != nil {
		return nil, err
	}
	defer c.Close()
	block := make([]byte, 1<<20)
	read := func(d time.Duration) (total int, took time.Duration, err error) {
		began := time.Now()
		for time.Since(began) < d {
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
			n, err := c.Read(block)
			if err != nil {
				return 0, 0, fmt.Errorf("read: %w", err)
			}
			total += n
		}
		return total, time.Since(began), nil
	}
	if _, _, err := read(length / 3); err != nil { // the window opens
		return nil, err
	}
	total, took, err := read(length)
	if err != nil {
		return nil, err
	}
	return []Check{{
		Name: "TCP over a 10 ms link", Value: float64(total) * 8 / took.Seconds() / 1e9, Unit: "Gbit/s", Bound: 2, AtLeast: true,
	}}, nil
}

// smallPackets offers more small packets than the link is to carry.
func smallPackets(_ context.Context, p *pair) ([]Check, error) {
	p.link.Set(delay(10*time.Millisecond), delay(10*time.Millisecond))
	const offered = 170_000
	_, got, err := p.datagrams(flow{size: 18, rate: offered, length: p.length(3 * time.Second)})
	if err != nil {
		return nil, err
	}
	return []Check{{
		Name: "64-byte packets over a 10 ms link", Value: float64(got.packets) / got.last.Sub(got.first).Seconds() / 1000,
		Unit: "thousand/s", Bound: 150, AtLeast: true,
	}}, nil
}

// roundTrips pings over 10 ms each way. The other end's kernel answers, and the times are those of packets, not of
// this process's waking. In between it pings itself, after the same rest: a machine that is slow to come back from its
// idleness shows it there too.
func roundTrips(_ context.Context, p *pair) ([]Check, error) {
	const requested = 20 * time.Millisecond
	p.link.Set(delay(requested/2), delay(requested/2))
	var fd int
	err := p.a.Do(func() (err error) {
		fd, err = unix.Socket(unix.AF_INET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMP)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("icmp socket: %w", err)
	}
	defer unix.Close(fd)
	err = errors.Join(
		unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TIMESTAMPNS, 1),
		unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 2}))
	if err != nil {
		return nil, fmt.Errorf("icmp socket: %w", err)
	}
	count := int(p.length(15*time.Second) / (2*requested + 5*time.Millisecond))
	var errs, alone []float64 // µs
	for i := range count {
		at, err := ping(fd, addressB, uint16(2*i))
		if err != nil {
			return nil, err
		}
		errs = append(errs, math.Abs(float64((at-requested).Nanoseconds()))/1000)
		time.Sleep(requested + time.Duration(i%10)*time.Millisecond) // at no rhythm of anything else
		if at, err = ping(fd, addressA, uint16(2*i+1)); err != nil {
			return nil, err
		}
		alone = append(alone, float64(at.Nanoseconds())/1000)
	}
	slices.Sort(errs)
	slices.Sort(alone)
	return []Check{
		{Name: "error of a 20 ms round trip, median", Value: errs[count/2], Unit: "µs", Bound: 100, Alone: alone[count/2]},
		{Name: "error of a 20 ms round trip, 99th percentile", Value: errs[count*99/100], Unit: "µs", Bound: 1000, Alone: alone[count*99/100]},
	}, nil
}

// ping sends an echo request (RFC 792) and returns how long its answer took.
func ping(fd int, address string, number uint16) (time.Duration, error) {
	words := [4]uint32{8 << 8, 0, 0xba70, uint32(number)} // type and code, checksum, identifier, sequence number
	sum := words[0] + words[2] + words[3]
	words[1] = 0xffff &^ (sum>>16 + sum&0xffff)
	var request []byte
	for _, w := range words {
		request = binary.BigEndian.AppendUint16(request, uint16(w))
	}
	sent := time.Now()
	if err := unix.Sendto(fd, request, 0, &unix.SockaddrInet4{Addr: netip.MustParseAddr(address).As4()}); err != nil {
		return 0, fmt.Errorf("ping: %w", err)
	}
	b, control := make([]byte, 128), make([]byte, 128)
	for {
		n, oobn, _, _, err := unix.Recvmsg(fd, b, control, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			return 0, fmt.Errorf("ping: no answer: %w", err)
		}
		if n < 28 || b[20] != 0 || binary.BigEndian.Uint16(b[26:]) != number {
			continue
		}
		at, err := timestamp(control[:oobn])
		if err != nil {
			return 0, err
		}
		return at.Sub(sent.Round(0)), nil
	}
}

// rates floods links of several rates.
func rates(_ context.Context, p *pair) ([]Check, error) {
	worst := 0.0
	for _, rate := range []emulator.Rate{1e6, 10e6, 100e6, 1e9} {
		p.link.Set(emulator.Shape{Rate: rate, Delay: 5 * time.Millisecond}, emulator.Shape{})
		const size = 1400
		_, got, err := p.datagrams(flow{
			size: size, rate: 1.5 * float64(rate) / 8 / (size + 42), length: p.length(3 * time.Second), whole: rate >= 100e6,
		})
		if err != nil {
			return nil, err
		}
		// The first packet's bits were sent before the first time that is seen.
		bits := float64(got.bytes-(size+42)) * 8
		measured := bits / got.last.Sub(got.first).Seconds()
		worst = max(worst, math.Abs(measured/float64(rate)-1))
	}
	return []Check{{Name: "error of the rate, worst of 1, 10, 100 Mbit/s and 1 Gbit/s", Value: worst * 100, Unit: "%", Bound: 1}}, nil
}

// losses compares the share of packets lost with the one asked for, in standard deviations of as many draws.
func losses(_ context.Context, p *pair) ([]Check, error) {
	var checks []Check
	for _, share := range []emulator.Share{0.001, 0.01, 0.1} {
		p.link.Set(emulator.Shape{Loss: share}, emulator.Shape{})
		sent, got, err := p.datagrams(flow{size: 100, rate: 40_000, length: p.length(2 * time.Second)})
		if err != nil {
			return nil, err
		}
		// What the queue dropped was not lost by chance.
		sent -= p.overrun()
		deviation := math.Sqrt(float64(sent) * float64(share) * float64(1-share))
		checks = append(checks, Check{
			Name: fmt.Sprintf("loss of %v: distance from the expected number", share), Unit: "standard deviations", Bound: 4,
			Value: math.Abs(float64(sent-got.packets)-float64(sent)*float64(share)) / deviation,
		})
	}
	const mean = 5
	p.link.Set(emulator.Shape{Loss: 0.02, Burst: mean}, emulator.Shape{})
	sent, got, err := p.datagrams(flow{size: 100, rate: 40_000, length: p.length(2 * time.Second)})
	if err != nil {
		return nil, err
	}
	length := float64(sent-got.packets) / float64(max(got.bursts, 1))
	return append(checks, Check{Name: "length of bursts of 5 lost packets: error", Value: math.Abs(length/mean-1) * 100, Unit: "%", Bound: 25}), nil
}

// order counts packets that overtake others where nobody asked for it: delay, jitter, a queue and losses.
func order(_ context.Context, p *pair) ([]Check, error) {
	p.link.Set(emulator.Shape{Rate: 500e6, Delay: 10 * time.Millisecond, Jitter: 8 * time.Millisecond, Loss: 0.01}, emulator.Shape{})
	_, got, err := p.datagrams(flow{size: 200, rate: 80_000, length: p.length(2 * time.Second)})
	if err != nil {
		return nil, err
	}
	return []Check{{Name: "packets overtaken with delay, jitter, rate and loss", Value: float64(got.disordered), Unit: "packets", Bound: 0}}, nil
}

// slowStart downloads files over 100 ms and compares the round trips that each takes with RFC 5681 and an initial window
// of 10 (RFC 6928): the window doubles in each.
func slowStart(ctx context.Context, p *pair) ([]Check, error) {
	const rtt = 100 * time.Millisecond
	p.link.Set(delay(rtt/2), delay(rtt/2))
	// The plainest of them: CUBIC may leave slow start early (HyStart), BBR sends at a pace.
	p.b.CongestionControl("reno")
	// A receiver whose window must grow as well is a round trip behind.
	p.a.Sysctl("net.ipv4.tcp_rmem", "4096 67108864 67108864")
	const segment = 1448 // 1500 − IP − TCP with timestamps
	ln, err := p.b.Listen("tcp", fmt.Sprintf("%s:%d", addressB, port))
	if err != nil {
		return nil, err
	}
	defer ln.Close()
	worst := 0.0
	for _, rounds := range []int{1, 2, 3, 5, 7} {
		// As many segments as fit into so many rounds and not into one less, with half of the last round to spare.
		segments := 10*(1<<(rounds-1)-1) + 10*(1<<(rounds-1))/2
		took, err := download(ctx, p, ln, segments*segment)
		if err != nil {
			return nil, err
		}
		worst = max(worst, math.Abs(took.Seconds()/rtt.Seconds()-float64(rounds)))
	}
	return []Check{{Name: "slow start over 100 ms: round trips beside theory, worst of 1 to 7", Value: worst, Unit: "round trips", Bound: 0.1}}, nil
}

// download takes so many bytes over a new connection and returns the time from its request to the last byte.
func download(ctx context.Context, p *pair, ln net.Listener, size int) (time.Duration, error) {
	served := make(chan error, 1)
	go func() { served <- serveOnce(ln, size) }()
	c, err := p.a.Dial(ctx, "tcp", ln.Addr().String())
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(20 * time.Second))
	began := time.Now()
	if _, err := c.Write([]byte{1}); err != nil {
		return 0, fmt.Errorf("request: %w", err)
	}
	n, err := io.Copy(io.Discard, c)
	took := time.Since(began)
	if err == nil && n != int64(size) {
		err = fmt.Errorf("%d bytes of %d", n, size)
	}
	if err != nil {
		return 0, fmt.Errorf("download: %w", err)
	}
	return took, <-served
}

func serveOnce(ln net.Listener, size int) error {
	c, err := ln.Accept()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
		return fmt.Errorf("read request: %w", err)
	}
	_, err = c.Write(make([]byte, size))
	return err
}
