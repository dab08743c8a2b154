package measure

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"net/netip"
	"testing"
	"time"

	"baton/balance/tables"
	"baton/lab"
	"baton/lab/emulator"
	"baton/sockdiag"
)

// watch is a Measure of one link of a host, and who reads it.
type watch struct {
	*Measure
	t       *testing.T
	host    *lab.Host
	link    *lab.Link
	reader  *Reader
	begun   time.Time
	history []float64
}

// sample reads what there is now.
func (w *watch) sample() {
	w.t.Helper()
	s := Sample{At: time.Since(w.begun)}
	err := w.host.Do(func() error {
		c, err := ReadCounters(w.link.A.Index)
		s.Links = []Counters{c}
		return err
	})
	if err == nil {
		s.Flows, s.Listed, err = w.reader.Flows(s.At)
	}
	if err != nil {
		w.t.Fatal(err)
	}
	w.Add(s)
	w.history = append(w.history, math.Round(w.Figures()[0].Down.Rate/1e5)/10)
}

// until samples five times a second until the estimate is within a tenth of a rate.
func (w *watch) until(rate emulator.Rate) {
	w.t.Helper()
	tick := time.NewTicker(200 * ms)
	defer tick.Stop()
	for end := time.Now().Add(90 * time.Second); ; <-tick.C {
		w.sample()
		got := w.Figures()[0].Down
		if got.Known() && math.Abs(got.Rate-float64(rate)) <= float64(rate)/10 {
			return
		}
		if time.Now().After(end) {
			w.t.Fatalf("of a link of %v: %+v; Mbit/s: %v", rate, got, w.history)
		}
	}
}

// newWatch is of a link of 24 Mbit/s from a client to a server that sends each connection so many bytes; 0: it never ends.
func newWatch(t *testing.T, bytes int64) *watch {
	l := lab.New(t)
	client, server := l.Host("client"), l.Host("server")
	w := &watch{Measure: New(1), t: t, host: client, begun: time.Now()}
	w.link = l.Link(lab.End{Host: client, Addrs: []string{"10.1.0.2/24"}}, lab.End{Host: server, Addrs: []string{"10.1.0.1/24"}},
		lab.LinkOptions{AtoB: upload, BtoA: download(24e6)})
	listener, err := server.Listen("tcp", "10.1.0.1:80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go serve(c, bytes)
		}
	}()
	err = client.Do(func() (err error) {
		w.reader, err = NewReader([]netip.Prefix{netip.MustParsePrefix("10.1.0.2/32")}, w.all)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.reader.Close() })
	return w
}

var upload = emulator.Shape{Rate: 10e6, Delay: 10 * ms}

func download(r emulator.Rate) emulator.Shape { return emulator.Shape{Rate: r, Delay: 10 * ms} }

func serve(c net.Conn, bytes int64) {
	defer c.Close()
	if bytes > 0 {
		_, _ = c.Write(make([]byte, bytes))
		return
	}
	for b := make([]byte, 1<<16); ; {
		if _, err := c.Write(b); err != nil {
			return
		}
	}
}

// fetch reads connections, one after the other, until the context ends.
func (w *watch) fetch(ctx context.Context) error {
	for ctx.Err() == nil {
		c, err := w.host.Dial(ctx, "tcp", "10.1.0.1:80")
		if err != nil {
			return err
		}
		stop := context.AfterFunc(ctx, func() { c.Close() })
		_, _ = io.Copy(io.Discard, c)
		stop()
		c.Close()
	}
	return nil
}

// TestLink measures a link that real connections download by: as it is, slower, faster, and when it is idle.
func TestLink(t *testing.T) {
	w := newWatch(t, 0)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 3 {
		go func() { _ = w.fetch(ctx) }()
	}
	w.until(24e6)
	w.link.Set(upload, download(6e6))
	w.until(6e6)
	w.link.Set(upload, download(24e6))
	w.until(24e6)
	stop()
	lab.Eventually(t, time.Minute, func() error {
		w.sample()
		if f := w.Figures()[0]; f.ReceivedRate > 0 {
			return fmt.Errorf("it is not idle: %.0f bit/s", f.ReceivedRate)
		}
		return nil
	})
	for range 10 {
		w.sample()
	}
	f := w.Figures()[0]
	near(t, "idle", f.Down, 24e6)
	if f.MinRTT < 20*ms || f.MinRTT > 500*ms || f.RTT < f.MinRTT || f.RTT > time.Second {
		t.Errorf("round trips %v, %v", f.MinRTT, f.RTT)
	}
	t.Logf("%+v; Mbit/s: %v", f, w.history)
}

// TestShortTransfers measures a link that short connections download by, several at a time.
func TestShortTransfers(t *testing.T) {
	w := newWatch(t, 100e3)
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	for range 8 {
		go func() { _ = w.fetch(ctx) }()
	}
	w.until(24e6)
	t.Logf("%+v; Mbit/s: %v", w.Figures()[0], w.history)
}

// all is a memory in which every connection has the first link.
func (w *watch) all(visit func(uint8, netip.AddrPort, netip.AddrPort, uint32) bool) error {
	return w.host.Do(func() error {
		c, err := sockdiag.Open()
		if err != nil {
			return err
		}
		defer c.Close()
		return c.ListTCP(sockdiag.Filter{}, func(s *sockdiag.TCP) { visit(6, s.Local, s.Remote, tables.FirstLink) })
	})
}
