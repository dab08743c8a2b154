package forwarder_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/vishvananda/netlink"

	"baton/lab"
	of "baton/openflow"
	"baton/openflow/channel"
	"baton/packet"
)

// port returns what the forwarder says of a port.
func (s *stage) port(c *channel.Conn, no of.PortNo) of.Port {
	s.t.Helper()
	for _, p := range ask[of.PortDescReply](s, c, of.PortDescRequest{}) {
		if p.No == no {
			return p
		}
	}
	s.t.Fatalf("there is no port %v", no)
	return of.Port{}
}

// reported waits for a port status message that satisfies ok.
func (s *stage) reported(c *channel.Conn, no of.PortNo, what string, ok func(of.Port) bool) {
	s.t.Helper()
	receive(s, c, what, func(m *of.PortStatus) bool { return m.Port.No == no && ok(m.Port) })
}

func live(p of.Port) bool { return p.State&of.PortStateLive != 0 && p.State&of.PortStateLinkDown == 0 }
func dark(p of.Port) bool { return p.State&of.PortStateLinkDown != 0 }

// passes waits until UDP passes from 1 to 2, or, if not, sees that it has stopped.
func (s *stage) passes(is bool) {
	s.t.Helper()
	k, r := s.sink(2, 7000), s.send(1, 2, 7000, time.Millisecond)
	defer k.close()
	defer r.end()
	if is {
		k.arrived(s.t, 0)
		return
	}
	r.more(20)
	r.end()
	if lost := len(k.lostWithin(r, 100*time.Millisecond)); lost != int(r.next.Load()) {
		s.t.Errorf("%d of %d packets pass", int(r.next.Load())-lost, r.next.Load())
	}
}

// TestInterfaces: a port's interface is missing at first, comes, is renamed, comes back, is deleted, and comes again; controllers hear of it,
// and the flow entry that was there from the start uses it whenever it is there.
func TestInterfaces(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	nl := s.node.Netlink()
	rename := func(from, to string) {
		link, err := nl.LinkByName(from)
		s.must(err)
		s.must(nl.LinkSetDown(link))
		s.must(nl.LinkSetName(link, to))
		s.must(nl.LinkSetUp(link))
	}
	rename("p2", "elsewhere")
	s.start("")
	c := s.connect()
	s.commit(c, add(5, of.Match{}.Port(1), output(2)))
	if p := s.port(c, 2); !dark(p) || p.Name != "p2" {
		t.Errorf("a port without interface: %+v", p)
	}
	s.passes(false)
	rename("elsewhere", "p2")
	s.reported(c, 2, "port 2 is live", live)
	s.passes(true)
	rename("p2", "elsewhere")
	s.reported(c, 2, "port 2 is without interface", dark)
	s.passes(false)
	if n, err := s.count("elsewhere"); err != nil || n != 0 {
		t.Errorf("%d programs at an interface that is no port any more, %v", n, err)
	}
	rename("elsewhere", "p2")
	s.reported(c, 2, "port 2 is live again", live)
	s.passes(true)

	link, err := nl.LinkByName("p2")
	s.must(err)
	s.must(nl.LinkDel(link))
	s.reported(c, 2, "port 2 is deleted", dark)
	far := lab.End{Host: s.host(2), Name: "eth0", Addrs: []string{address(2).String() + "/24"}}
	k := s.Link(lab.End{Host: s.node, Name: "p2"}, far, lab.LinkOptions{})
	s.host(1).Neighbour(s.outside(1), address(2).String(), k.B.MAC)
	s.reported(c, 2, "another interface is port 2", func(p of.Port) bool { return live(p) && p.MAC == packet.MAC(k.A.MAC) })
	s.passes(true)

	s.cables[1] = k
	s.outside(2).SetDown()
	s.reported(c, 2, "port 2 has no carrier", dark)
	s.outside(2).SetUp()
	s.reported(c, 2, "port 2 has a carrier", live)
	s.passes(true)
}

// count is how many programs are at an interface of the forwarder's host.
func (s *stage) count(name string) (n int, err error) {
	err = s.node.Do(func() error {
		link, err := netlink.LinkByName(name)
		if err == nil {
			n, err = programs(link.Attrs().Index)
		}
		return err
	})
	return n, err
}

// TestPortMod: the data path obeys what a controller makes of a port.
func TestPortMod(t *testing.T) {
	s := newStage(t, 3, lab.LinkOptions{})
	s.start("")
	c := s.connect()
	mod := func(no of.PortNo, config of.PortConfig) {
		t.Helper()
		const all = of.PortConfigPortDown | of.PortConfigNoRecv | of.PortConfigNoFwd | of.PortConfigNoPacketIn
		s.commit(c, &of.PortMod{Port: no, MAC: s.port(c, no).MAC, Config: config, Mask: all})
		if got := s.port(c, no).Config; got != config {
			t.Errorf("port %v has %v, want %v", no, got, config)
		}
	}
	s.commit(c, add(5, of.Match{}.Port(1), output(2)), add(5, of.Match{}.Port(3), output(of.PortController), output(2)))
	s.passes(true)
	for _, tt := range []struct {
		port   of.PortNo
		config of.PortConfig
	}{
		{1, of.PortConfigNoRecv}, {2, of.PortConfigNoFwd}, {1, of.PortConfigPortDown}, {2, of.PortConfigPortDown},
	} {
		mod(tt.port, tt.config)
		s.passes(false)
		mod(tt.port, 0)
		lab.Eventually(t, patience, func() error {
			if p := s.port(c, tt.port); !live(p) {
				return fmt.Errorf("port %v after %v: %+v", tt.port, tt.config, p)
			}
			return nil
		})
		s.passes(true)
	}
	for _, quiet := range []of.PortConfig{of.PortConfigNoPacketIn, 0} {
		mod(3, quiet)
		k, r := s.sink(2, 7001), s.send(3, 2, 7001, time.Millisecond)
		r.more(5)
		k.arrived(t, 0)
		r.end()
		k.close()
		came := 0
		s.commit(c) // what was for the controller is on its way before the answer
		for {
			ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
			m, err := c.Receive(ctx)
			cancel()
			if err != nil {
				break
			}
			if _, ok := m.Message.(*of.PacketIn); ok {
				came++
			}
		}
		if quiet == 0 && came == 0 || quiet != 0 && came > 0 {
			t.Errorf("port 3 with %v: %d packet-ins", quiet, came)
		}
	}
}

// TestFailover: a fast failover group follows the carrier of its ports by itself.
func TestFailover(t *testing.T) {
	s := newStage(t, 3, lab.LinkOptions{})
	s.start("")
	c := s.connect()
	bucket := func(port of.PortNo) of.Bucket {
		return of.Bucket{WatchPort: port, WatchGroup: of.GroupAny, Actions: []of.Action{output(port)}}
	}
	s.commit(c, &of.GroupMod{Command: of.GroupAdd, Kind: of.GroupTypeFF, Group: 1, Buckets: []of.Bucket{bucket(2), bucket(3)}},
		add(5, of.Match{}.Port(1), of.ActionGroup{Group: 1}))
	came := s.ways(2, 3)
	r := s.send(1, 2, 5000, time.Millisecond)
	switched := func(to of.PortNo) {
		t.Helper()
		lab.Eventually(t, patience, func() error {
			last := r.next.Load() - 5
			r.more(5)
			if at := came.of(last); len(at) != 1 || at[0] != to {
				return fmt.Errorf("packet %d came out of %v, want port %v", last, at, to)
			}
			return nil
		})
	}
	r.more(10)
	switched(2)
	for range 3 {
		s.outside(2).SetDown()
		switched(3)
		s.outside(2).SetUp()
		switched(2)
	}
}

// TestLocal: the host itself is at the port LOCAL, also behind a forwarder that was killed and started again.
func TestLocal(t *testing.T) {
	s := newStage(t, 2, lab.LinkOptions{})
	s.start("local: sw0\nstate: " + s.path("state"))
	c := s.connect()
	s.commit(c, add(5, of.Match{}.Port(1), output(of.PortLocal)), add(5, of.Match{}.Port(of.PortLocal), output(1)))
	host := s.node.Interface("sw0")
	host.Address("10.7.0.100/24")
	s.node.Neighbour(host, address(1).String(), s.outside(1).MAC)
	s.host(1).Neighbour(s.outside(1), "10.7.0.100", host.MAC)
	ping := func() error {
		_, err := s.host(1).Exec(s.within(), "ping", "-c", "1", "-W", "1", "10.7.0.100")
		return err
	}
	lab.Eventually(t, patience, ping)
	s.must(s.process.Kill())
	s.must(ping())
	s.run()
	s.must(ping())
	if p := s.port(s.connect(), of.PortLocal); p.Name != "sw0" || p.MAC != packet.MAC(host.MAC) || !live(p) {
		t.Errorf("LOCAL is %+v", p)
	}
}
