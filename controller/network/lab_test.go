package network

import (
	"context"
	"io"
	"net/netip"
	"testing"
	"time"

	"baton/controller/paths"
	"baton/controller/topology"
	"baton/lab"
)

// TestLine: three switches of two makers in a line; hosts find and reach each other over both families, by entries and not by the controller.
func TestLine(t *testing.T) {
	s := newScene(t, []maker{ovs, baton, ovs}, [2]int{1, 2}, [2]int{2, 3})
	s.control(Options{Cache: true})
	s.start()
	began := time.Now()
	s.links(4)
	t.Logf("4 directions of links are known %v after the last switch was up", time.Since(began))
	for _, sw := range s.sw.Switches() {
		if want := s.makers[sw.ID-1] == baton; sw.Core != want {
			t.Errorf("switch %d: core %v", sw.ID, sw.Core)
		}
	}
	s.pings(1, hostIP(3))
	s.pings(3, hostIP(2))
	s.pings(1, netip.MustParseAddr("fd00::3"))
	before, _ := s.counts()
	for range 5 {
		if err := s.ping(1, hostIP(3)); err != nil {
			t.Error(err)
		}
	}
	if after, _ := s.counts(); after.Forwarded-before.Forwarded > 4 {
		t.Errorf("%d packets passed the controller", after.Forwarded-before.Forwarded)
	}
	s.tcp(1, 3, 1<<20)
	if got := s.pathOf(1, 3); got != "1 2 3" {
		t.Errorf("path %q", got)
	}
}

// tcp sends bytes over a connection from a host to another.
func (s *scene) tcp(from, to, size int) {
	s.t.Helper()
	l, err := s.hosts[to-1].Host.Listen("tcp", "0.0.0.0:5001")
	s.must(err)
	defer l.Close()
	got := make(chan int64, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			got <- -1
			return
		}
		defer c.Close()
		n, _ := io.Copy(io.Discard, c)
		got <- n
	}()
	ctx, cancel := context.WithTimeout(context.Background(), slow)
	defer cancel()
	c, err := s.hosts[from-1].Host.Dial(ctx, "tcp", netip.AddrPortFrom(hostIP(to), 5001).String())
	s.must(err)
	_, err = c.Write(make([]byte, size))
	s.must(err)
	s.must(c.Close())
	if n := <-got; n != int64(size) {
		s.t.Errorf("%d of %d bytes arrived", n, size)
	}
}

// TestRing: a link of a ring is cut, and the traffic goes the other way round within 200 ms of the port's state; no packet circles.
func TestRing(t *testing.T) {
	s := newScene(t, []maker{baton, ovs, baton}, [2]int{1, 2}, [2]int{2, 3}, [2]int{1, 3})
	s.control(Options{Cache: true, Spread: paths.SpreadNone})
	s.start()
	s.links(6)
	s.pings(1, hostIP(3))
	s.pings(1, hostIP(2))
	if got := s.pathOf(1, 3); got != "1 3" {
		t.Fatalf("path %q", got)
	}
	changed := make(chan time.Time, 1)
	cut := func(cable string) {
		s.cables[cable].A.SetDown()
		lab.Eventually(t, slow, func() error { return s.ping(1, hostIP(3)) })
	}
	go func() {
		for {
			gone := false
			s.network.View(func(g *topology.Graph) { gone = len(g.Links()) < 6 })
			if gone {
				changed <- time.Now()
				return
			}
			time.Sleep(time.Millisecond)
		}
	}()
	before := s.network.Paths.Counts().Reroutes
	s.cables["1-3"].A.SetDown()
	at := <-changed
	for s.network.Paths.Counts().Reroutes == before {
		time.Sleep(time.Millisecond)
		if time.Since(at) > slow {
			t.Fatal("nothing is rerouted")
		}
	}
	lab.Eventually(t, slow, func() error { return s.ping(1, hostIP(3)) })
	t.Logf("rerouted: %v, first answer %v after the port's state was known", s.pathOf(1, 3), time.Since(at))
	if got := s.pathOf(1, 3); got != "1 2 3" {
		t.Errorf("path %q", got)
	}
	s.cables["1-3"].A.SetUp()
	s.links(6)
	lab.Eventually(t, slow, func() error { return s.ping(1, hostIP(3)) })
	cut("1-2")
	if got := s.pathOf(1, 3); got != "1 3" {
		t.Errorf("path %q", got)
	}
}
