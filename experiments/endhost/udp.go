package endhost

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"baton/experiments"
	"baton/experiments/load"
	"baton/lab"
)

const (
	udpPort      = 7001
	requestSize  = 64          // bytes
	datagramSize = 1200        // bytes, of an answer: what QUIC sends at least when it begins
	askAgain     = time.Second // after which missing datagrams are requested again
	asksAtMost   = 4           // times
	udpFlows     = 400         // of a sample
	udpOpen      = 20          // at a time
)

// Datagrams is the question for UDP.
func Datagrams() experiments.Experiment[*Topology] {
	e := grid("endhost-udp", "How long do 400 UDP exchanges take over two links at once?",
		"The topology of `endhost`, with two links. Each exchange is a flow of its own: a socket that sends a request of 64 bytes, to which the server answers with some "+
			"datagrams of 1,200 bytes at once, as a short answer by QUIC; 20 flows are under way at a time. What has not come whole after a second is asked for again.")
	e.Parameters = []experiments.Parameter{{Name: "datagrams", Title: "datagrams of an answer"}, {Name: "second", Title: "second link", Unit: "Mbit/s"}}
	for _, second := range []float64{10, 20} {
		for _, n := range map[float64][]float64{10: {1, 8, 40}, 20: {8, 40}}[second] {
			e.Cases = append(e.Cases, Case{Name: udpCase(n, second), At: map[string]float64{"datagrams": n, "second": second}, Quick: n == 8})
		}
	}
	upTo := func(most float64) where {
		return func(c Case, _ string) bool { return c.At["datagrams"] <= most }
	}
	some := func(c Case, _ string) bool { return c.At["datagrams"] == 8 }
	e.Contenders = parts{"one-link": always, "ideal": always, "oracle": always, "ovs-controller": upTo(8), "ovs-hash": some, "controller": upTo(8), "hash": some,
		"even": always, "round-robin": some, "least": always, "fastest": some, "ecmp": some}.of(contenders())
	e.Measures = []Measure{{Name: fetchName, Title: "Time of 400 exchanges by UDP, each a flow of its own", Unit: "s", Less: true,
		Warm: aligned, Take: timed(fetchName, exchanges)}}
	e.Build = func(_ context.Context, s *experiments.Setup) (*Topology, error) {
		t, err := build(s, 2, func(int) lab.LinkOptions { return lab.LinkOptions{Emulated: true, NoOffloads: true} })
		if err != nil {
			return nil, err
		}
		return t, t.serveDatagrams()
	}
	e.Claims = goals(e, slices.DeleteFunc(slices.Clone(e.Cases), func(c Case) bool { return c.At["datagrams"] == 1 }))
	e.Plots = plots("Time of 400 exchanges by UDP over two links, by the length of the answer", fetchName)
	e.Caveats = []string{
		"A single datagram takes no time on a link: that case shows what a flow costs, not what a link takes.",
		"The hash of Open vSwitch's select groups has the ports of TCP and SCTP, and not those of UDP: all flows of UDP to a server go by one link.",
		"An answer comes at once, as nothing holds its server back: 20 of 40 datagrams are most of what may wait for a link.",
	}
	return e
}

func udpCase(n, second float64) string {
	return fmt.Sprintf("%g datagrams, 10 + %g Mbit/s", n, second)
}

// serveDatagrams answers requests, which contain the number of datagrams of the response, and which of them to send.
func (t *Topology) serveDatagrams() error {
	conn, err := t.Server.ListenPacket("udp4", netip.AddrPortFrom(serverAddress, udpPort).String())
	if err != nil {
		return fmt.Errorf("serve datagrams: %w", err)
	}
	t.Server.Lab().T().Cleanup(func() { _ = conn.Close() })
	go func() {
		request, answer := make([]byte, 2048), make([]byte, datagramSize)
		for {
			n, from, err := conn.ReadFrom(request)
			if errors.Is(err, net.ErrClosed) {
				return
			}
			if err != nil || n < requestSize {
				continue
			}
			for i := range binary.BigEndian.Uint16(request) {
				binary.BigEndian.PutUint16(answer, i)
				_, _ = conn.WriteTo(answer, from) // lost ones are requested again
			}
		}
	}()
	return nil
}

// datagrams is a run of exchanges.
type datagrams struct {
	t     *Topology
	count int // of an answer

	mu    sync.Mutex
	left  int             // exchanges that have not begun
	under []load.Underway // by link
	times *hdrhistogram.Histogram
	again int
}

func exchanges(ctx context.Context, t *Turn) (experiments.Sample, error) {
	p := t.Topology
	d := &datagrams{t: p, count: int(t.Case.At["datagrams"]), left: udpFlows, under: make([]load.Underway, len(p.used)),
		times: hdrhistogram.New(int64(time.Microsecond), int64(time.Minute), 3)}
	if t.Options.Quick {
		d.left = udpFlows / 10
	}
	n := d.left
	began := time.Now()
	var g errgroup.Group
	for range udpOpen {
		g.Go(func() error { return d.work(ctx) })
	}
	err := g.Wait()
	return experiments.Sample{Value: time.Since(began).Seconds(), Work: float64(n), Single: experiments.NewDistribution(d.times),
		Also: map[string]float64{"asked again": float64(d.again)}}, err
}

// work begins one exchange after the other until none is left.
func (d *datagrams) work(ctx context.Context) error {
	for ctx.Err() == nil {
		link, ok := d.begin()
		if !ok {
			return nil
		}
		took, again, err := d.exchange(ctx, link)
		d.mu.Lock()
		d.under[link].Connections--
		d.under[link].Bytes -= d.size()
		d.again += again
		_ = d.times.RecordValue(int64(min(took, time.Minute)))
		d.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

func (d *datagrams) begin() (link int, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.left == 0 {
		return 0, false
	}
	d.left--
	if d.t.front.bound {
		link = d.t.oracle(d.under, d.size())
	}
	d.under[link].Connections++
	d.under[link].Bytes += d.size()
	return link, true
}

// size is that of an answer, in bytes.
func (d *datagrams) size() int64 { return int64(d.count * datagramSize) }

// exchange is a flow.
func (d *datagrams) exchange(ctx context.Context, link int) (took time.Duration, again int, err error) {
	local := ""
	if d.t.front.bound {
		local = netip.AddrPortFrom(d.t.used[link].address, 0).String()
	}
	conn, err := d.dial(ctx, local)
	if err != nil {
		return 0, 0, fmt.Errorf("exchange: %w", err)
	}
	defer conn.Close()
	began := time.Now()
	request, answer := make([]byte, requestSize), make([]byte, 2048)
	binary.BigEndian.PutUint16(request, uint16(d.count))
	have, missing := make([]bool, d.count), d.count
	for ; again < asksAtMost; again++ {
		if _, err := conn.Write(request); err != nil {
			return 0, again, fmt.Errorf("exchange: ask: %w", err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(askAgain))
		for missing > 0 {
			n, err := conn.Read(answer)
			if errors.Is(err, os.ErrDeadlineExceeded) {
				break
			}
			if err != nil {
				return 0, again, fmt.Errorf("exchange: %w", err)
			}
			if i := int(binary.BigEndian.Uint16(answer)); n == datagramSize && i < d.count && !have[i] {
				have[i] = true
				missing--
			}
		}
		if missing == 0 {
			return time.Since(began), again, nil
		}
	}
	return 0, again, fmt.Errorf("exchange: %d of %d datagrams have not come, asked for %d times", missing, d.count, asksAtMost)
}

// dial opens a flow of its own; local is the address that it is bound to, or empty.
func (d *datagrams) dial(ctx context.Context, local string) (conn net.Conn, err error) {
	to := net.UDPAddrFromAddrPort(netip.AddrPortFrom(serverAddress, udpPort))
	var from *net.UDPAddr
	if local != "" {
		from = net.UDPAddrFromAddrPort(netip.MustParseAddrPort(local))
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	err = d.t.Host.Do(func() (err error) {
		conn, err = net.DialUDP("udp4", from, to)
		return err
	})
	return conn, err
}
