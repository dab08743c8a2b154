package redirection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"time"

	"baton/lab"
)

// stream sends to the tracked service for a while, and returns what has arrived.
func (t *Topology) stream(ctx context.Context, length time.Duration) (bytes int64, took time.Duration, err error) {
	l, err := t.Router.Listen("tcp", tracked)
	if err != nil {
		return 0, 0, err
	}
	defer l.Close()
	type result struct {
		bytes int64
		err   error
	}
	arrived := make(chan result, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			arrived <- result{0, err}
			return
		}
		defer c.Close()
		n, err := io.Copy(io.Discard, c)
		arrived <- result{n, err}
	}()
	ctx, cancel := context.WithTimeout(ctx, length+10*time.Second)
	defer cancel()
	c, err := t.Clients[0].Dial(ctx, "tcp", tracked)
	if err != nil {
		return 0, 0, fmt.Errorf("through the controller: %w", err)
	}
	began := time.Now()
	chunk := make([]byte, 64<<10)
	for time.Since(began) < length && err == nil {
		_, err = c.Write(chunk)
	}
	if err := errors.Join(err, c.Close()); err != nil {
		return 0, 0, fmt.Errorf("through the controller: %w", err)
	}
	select {
	case r := <-arrived:
		return r.bytes, time.Since(began), r.err
	case <-ctx.Done():
		return 0, 0, fmt.Errorf("through the controller: the stream does not end: %w", ctx.Err())
	}
}

// Datagrams are sent each tick, for a time on both sides of the cut.
const (
	tick  = time.Millisecond
	aside = 700 * time.Millisecond
)

// cutLink sends datagrams from the client to the surrogate, cuts the link of the line between the second and the third forwarder, and returns the
// longest pause at the surrogate (ms). The spare link takes over, or is cut itself if the path goes there.
func cutLink(ctx context.Context, t *turn) (sample, error) {
	n := t.Topology
	to := netip.AddrPortFrom(netip.MustParseAddrPort(surrogate).Addr(), 9999)
	sink, err := n.Surrogates[0].ListenPacket("udp", to.String())
	if err != nil {
		return sample{}, err
	}
	defer sink.Close()
	c, err := n.Clients[0].Dial(ctx, "udp", to.String())
	if err != nil {
		return sample{}, err
	}
	defer c.Close()
	longest := 0.0
	for _, link := range []*lab.Interface{n.Line[1].A, n.SpareLink.A} { // one of the two is on the path
		pause, err := pauseOf(ctx, c, sink, link.SetDown)
		link.SetUp()
		if err != nil {
			return sample{}, err
		}
		longest = max(longest, float64(pause.Microseconds())/1000)
		if err := n.Discovered(ctx); err != nil {
			return sample{}, err
		}
	}
	return sample{Value: longest, Work: 1}, nil
}

// pauseOf is the longest time between two datagrams when something happens to their path.
func pauseOf(ctx context.Context, c net.Conn, sink net.PacketConn, happens func()) (time.Duration, error) {
	done := make(chan error, 1)
	go func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		var err error
		for began := time.Now(); time.Since(began) < 2*aside && err == nil && ctx.Err() == nil; <-ticker.C {
			_, err = c.Write([]byte("tick"))
		}
		done <- err
	}()
	at := time.AfterFunc(aside, happens)
	defer at.Stop()
	var last time.Time
	var longest time.Duration
	buffer := make([]byte, 16)
	for {
		if err := sink.SetReadDeadline(time.Now().Add(aside / 2)); err != nil {
			return 0, err
		}
		if _, _, err := sink.ReadFrom(buffer); err != nil {
			break // the stream has ended, or is broken
		}
		if !last.IsZero() {
			longest = max(longest, time.Since(last))
		}
		last = time.Now()
	}
	if err := errors.Join(<-done, ctx.Err()); err != nil {
		return 0, err
	}
	if last.IsZero() {
		return 0, errors.New("no datagram arrived")
	}
	return longest, nil
}
