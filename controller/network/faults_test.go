package network

import (
	"bytes"
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"baton/controller/lldp"
	"baton/controller/neighbour"
	"baton/controller/topology"
	"baton/lab"
	"baton/packet"
)

// TestRestarts: the controller ends and traffic goes on; the next one changes nothing, as nothing differs. A switch that comes back with another table
// gets what it should have.
func TestRestarts(t *testing.T) {
	s := newScene(t, []maker{baton, ovs}, [2]int{1, 2})
	s.control(Options{Cache: true})
	s.start()
	s.links(2)
	s.pings(1, hostIP(2))
	s.end()
	for range 3 {
		if err := s.ping(1, hostIP(2)); err != nil {
			t.Errorf("without a controller: %v", err)
		}
	}
	s.control(Options{Cache: true})
	s.links(2)
	if err := s.ping(1, hostIP(2)); err != nil {
		t.Errorf("with the next controller: %v", err)
	}
	if n := s.sw.Counts().FlowMods; n != 0 {
		t.Errorf("the next controller sent %d flow mods where nothing differs", n)
	}
	lab.Eventually(t, slow, func() error { // the places of hosts are derived from the entries
		for n := 1; n <= 2; n++ {
			var at topology.Point
			s.network.View(func(g *topology.Graph) { h, _ := g.Host(s.mac(n)); at = h.At })
			if at != (topology.Point{Switch: uint64(n), Port: 1}) {
				return fmt.Errorf("host %d is at %v", n, at)
			}
		}
		return nil
	})

	ctx, cancel := context.WithTimeout(t.Context(), slow)
	defer cancel()
	v := s.vswitch[1]
	_, err := v.Vsctl(ctx, "del-controller", v.Bridge)
	s.must(err)
	_, err = v.Ofctl(ctx, "del-flows")
	s.must(err)
	// An entry of a path that leads back, and one that was never a path's.
	for _, flow := range []string{
		fmt.Sprintf("cookie=0xb701000000000000,priority=100,dl_dst=%v,actions=output:2", s.mac(2)),
		"cookie=0xb701000000000000,priority=777,actions=drop",
	} {
		_, err = v.Ofctl(ctx, "add-flow", flow)
		s.must(err)
	}
	if s.ping(1, hostIP(2)) == nil {
		t.Error("the other table is not in force")
	}
	_, err = v.Vsctl(ctx, "set-controller", v.Bridge, "tcp:"+endpoint)
	s.must(err)
	s.pings(1, hostIP(2))
	s.links(2)

	p := s.batons[0]
	s.stopBaton(1, p) // with all that it had in the kernel
	s.startBaton(1)
	s.pings(1, hostIP(2))
	s.links(2)
}

// TestFlaps: a cable that is pulled and put back at once, many times, ends as it began.
func TestFlaps(t *testing.T) {
	s := newScene(t, []maker{ovs, baton}, [2]int{1, 2})
	s.control(Options{Cache: true})
	s.start()
	s.links(2)
	s.pings(1, hostIP(2))
	for range 10 {
		s.cables["1-2"].A.SetDown()
		s.cables["1-2"].A.SetUp()
	}
	s.links(2)
	s.pings(1, hostIP(2))
	s.pings(2, hostIP(1))
}

// TestForged: discovery frames of hosts make no link, whatever they are.
func TestForged(t *testing.T) {
	s := newScene(t, []maker{baton, ovs}, [2]int{1, 2})
	s.control(Options{Cache: true})
	var mu sync.Mutex
	var genuine [][]byte
	heard := s.hosts[0].Capture(lab.CaptureOptions{Each: func(p lab.Packet) {
		if !p.Outgoing && lldp.Is(p.Data) {
			mu.Lock()
			defer mu.Unlock()
			genuine = append(genuine, bytes.Clone(p.Data))
		}
	}})
	defer heard.Stop()
	s.start()
	s.links(2)
	s.pings(1, hostIP(2)) // both hosts are known
	counted := func(what string, counter func(Counts, topology.Counts) uint64, send func()) {
		t.Helper()
		before := counter(s.counts())
		send()
		lab.Eventually(t, slow, func() error {
			if counter(s.counts()) == before {
				return fmt.Errorf("%s is not counted", what)
			}
			return nil
		})
	}
	newest := func() []byte {
		var frame []byte
		lab.Eventually(t, slow, func() error {
			mu.Lock()
			defer mu.Unlock()
			if len(genuine) == 0 {
				return fmt.Errorf("no discovery frame at a host's port")
			}
			frame = genuine[len(genuine)-1]
			return nil
		})
		mu.Lock()
		genuine = nil
		mu.Unlock()
		return frame
	}
	newest()
	now := time.Now()
	counted("a forged frame", func(c Counts, _ topology.Counts) uint64 { return c.Forged }, func() {
		inject(t, s.hosts[0], lldp.NewKey().Frame(2, 1, s.mac(2), now, time.Second))
	})
	counted("a frame of another system", func(c Counts, _ topology.Counts) uint64 { return c.Unsigned }, func() {
		plain := append(bytes.Clone(lldp.Multicast[:]), 2, 0, 0, 0, 0, 9, 0x88, 0xcc)
		inject(t, s.hosts[0], append(plain, make([]byte, 46)...))
	})
	counted("a frame that comes back", func(_ Counts, g topology.Counts) uint64 { return g.LinkLoops }, func() {
		inject(t, s.hosts[0], newest())
	})
	frame := newest()
	counted("a frame that is relayed to another host's port", func(_ Counts, g topology.Counts) uint64 { return g.LinkAtHosts }, func() {
		inject(t, s.hosts[1], frame)
	})
	counted("a frame that was there before", func(c Counts, _ topology.Counts) uint64 { return c.Replayed }, func() {
		inject(t, s.hosts[1], frame)
	})
	s.network.View(func(g *topology.Graph) {
		if n := len(g.Links()); n != 2 {
			t.Errorf("%d directions of links", n)
		}
	})
}

// TestHijack: a host that claims another's address or place gets neither while the other answers, and both when it is gone.
func TestHijack(t *testing.T) {
	s := newScene(t, []maker{baton, ovs}, [2]int{1, 2})
	s.control(Options{Cache: true})
	s.start()
	s.links(2)
	s.pings(1, hostIP(2))
	where := func(n int) (mac packet.MAC, at topology.Point) {
		h, _ := s.network.Locate(hostIP(n))
		return h.MAC, h.At
	}
	first, second := topology.Point{Switch: 1, Port: 1}, topology.Point{Switch: 2, Port: 1}
	claim := func(mac packet.MAC) {
		inject(t, s.hosts[1], neighbour.Build(neighbour.Message{MAC: mac, Address: hostIP(1), Target: hostIP(1)}))
	}
	refused := func(what string, counter func(topology.Counts) uint64) {
		t.Helper()
		lab.Eventually(t, slow, func() error {
			if _, g := s.counts(); counter(g) == 0 {
				return fmt.Errorf("%s is not refused: %+v", what, g)
			}
			return nil
		})
		if mac, at := where(1); mac != s.mac(1) || at != first {
			t.Errorf("%s: the address is %v's, at %v", what, mac, at)
		}
		if err := s.ping(2, hostIP(1)); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	claim(s.mac(2))
	refused("an address", func(g topology.Counts) uint64 { return g.ClaimsRefused })
	claim(s.mac(1))
	refused("a place", func(g topology.Counts) uint64 { return g.MovesRefused })

	s.hosts[0].SetDown() // the host is gone: its port is down
	lab.Eventually(t, slow, func() error {
		up := true
		s.network.View(func(g *topology.Graph) { up = g.PortUp(first) })
		if up {
			return fmt.Errorf("the port is up")
		}
		return nil
	})
	claim(s.mac(1))
	lab.Eventually(t, slow, func() error {
		if mac, at := where(1); mac != s.mac(1) || at != second {
			return fmt.Errorf("the host is at %v", at)
		}
		return nil
	})
}

// TestFlood: a host that asks without end is limited, and the controller's switches go on.
func TestFlood(t *testing.T) {
	s := newScene(t, []maker{ovs, baton}, [2]int{1, 2})
	s.control(Options{Cache: true})
	s.start()
	s.links(2)
	s.pings(1, hostIP(2))
	var frames [][]byte
	for i := range 2000 {
		frames = append(frames, neighbour.Build(neighbour.Message{MAC: s.mac(1), Address: hostIP(1), Target: hostIP(100 + i%100)}))
	}
	inject(t, s.hosts[0], frames...)
	lab.Eventually(t, slow, func() error {
		if c, _ := s.counts(); c.Limited == 0 {
			return fmt.Errorf("nothing is limited: %+v", c)
		}
		return nil
	})
	s.pings(2, hostIP(1))
	s.links(2)
	if n := s.sw.Counts().Errors; n != 0 {
		t.Errorf("the switches report %d errors", n)
	}
}
