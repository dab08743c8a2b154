package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"baton/balance/config"
	"baton/balance/tables"
	"baton/lab"
	"baton/lab/peers"
)

// The switches: Open vSwitch and Baton's forwarder with standard OpenFlow, and Baton's with a balance's defaults, on the host's end of the internal interface
// and with its own actions.
const (
	ovs   = "ovs"
	plain = "plain"
	baton = "baton"
)

// everySwitch runs a test with each switch and each method that it has.
func everySwitch(t *testing.T, f func(t *testing.T, target string, method config.Method)) {
	lab.NeedRoot(t)
	for target, methods := range map[string][]config.Method{
		ovs: {config.Hash, config.Controller}, plain: {config.Hash, config.Controller},
		baton: {config.RoundRobin, config.Hash, config.Controller},
	} {
		for _, method := range methods {
			t.Run(fmt.Sprintf("%s by %s", target, method), func(t *testing.T) { f(t, target, method) })
		}
	}
}

// exact reports whether a method is round-robin, whatever the flows are.
func exact(m config.Method) bool { return m == config.Controller || m == config.RoundRobin }

// spread checks where flows go: round-robin is exact; other methods use all links in the end.
func spread(t *testing.T, method config.Method, flow func() int, want ...int) {
	t.Helper()
	got, sum := make([]int, len(want)), 0
	for _, w := range want {
		sum += w
	}
	most := sum
	if !exact(method) {
		most = 8 * sum
	}
	for n := 0; n < most && (exact(method) || slices.Contains(got, 0)); n++ {
		got[flow()]++
	}
	if exact(method) && !slices.Equal(got, want) || slices.Contains(got, 0) {
		t.Errorf("flows went %v, want %v", got, want)
	}
}

// TestFlows: flows of all kinds go over both links, and their answers come back.
func TestFlows(t *testing.T) {
	everySwitch(t, func(t *testing.T, target string, method config.Method) {
		n := newNetwork(t, target, 2, method)
		n.ping("192.0.0.1")
		n.ping("192.0.0.3")
		n.ping("64:ff9b:1::3")
		n.ping(server4)
		n.ping(server6)
		port := 20000
		for _, address := range []string{server4, server6} {
			n.set(func(s *tables.State) { s.Links[0].Weight = 1 })
			spread(t, method, func() int { return n.fetch(address) }, 8, 8)
			datagram := func() int {
				port++
				return n.ask(address, port)
			}
			if exact(method) || target != ovs {
				spread(t, method, datagram, 8, 8)
			} else {
				datagram() // the hash of Open vSwitch leaves UDP's ports out: one server, one link
			}
			n.set(func(s *tables.State) { s.Links[0].Weight = 3 })
			spread(t, method, func() int { return n.fetch(address) }, 12, 4)
		}
	})
}

// TestLinkGoes: when a link is gone, new flows go by the other one, and those that were there go on; it comes back.
func TestLinkGoes(t *testing.T) {
	everySwitch(t, func(t *testing.T, target string, method config.Method) {
		n := newNetwork(t, target, 2, method)
		var stays connection
		for stays.Conn == nil || stays.place != 1 {
			stays = n.connect(server4)
		}
		n.uplinks[0].A.SetDown()
		n.set(func(s *tables.State) { s.Links[0].Usable = false })
		for range 8 {
			if place := n.fetch(server4); place != 1 {
				t.Errorf("a flow went by link %d", place)
			}
		}
		if place := n.ask(server6, 30000); place != 1 {
			t.Errorf("a datagram went by link %d", place)
		}
		n.alive(stays)
		n.set(func(s *tables.State) { s.Links[1].Usable = false })
		lab.Eventually(t, 10*time.Second, func() error { // Open vSwitch answers a barrier before its cache forgets
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			conn, err := n.host.Dial(ctx, "tcp", server4+":7")
			if err != nil {
				return nil
			}
			return errors.Join(errors.New("connected without a link"), conn.Close())
		})
		n.uplinks[0].A.SetUp()
		if target == plain {
			n.server.Neighbour(n.uplinks[0].B, "10.0.0.2", n.uplinks[0].A.MAC)
		}
		n.set(func(s *tables.State) { s.Links[0].Usable, s.Links[1].Usable = true, true })
		if method == config.Hash { // the switch may see later that the port is up, and then move flows that there are
			lab.Eventually(t, 10*time.Second, func() error {
				got, err := peers.Curl(t.Context(), n.host, "http://"+server4+"/")
				if err == nil && n.place(got.Body) != 0 {
					return errors.New("no flow goes by the link that has come back")
				}
				return err
			})
		}
		spread(t, method, func() int { return n.fetch(server4) }, 8, 8)
	})
}

// TestControllerComesBack: flows go on when the controller is another one, which learns of them; they are forgotten when they end.
func TestControllerComesBack(t *testing.T) {
	lab.NeedRoot(t)
	for _, target := range []string{ovs, plain, baton} {
		t.Run(target, func(t *testing.T) {
			n := newNetwork(t, target, 2, config.Controller)
			var flows []connection
			for range 4 {
				flows = append(flows, n.connect(server4), n.connect(server6))
			}
			n.stop()
			n.controller = New(Options{})
			n.control()
			n.ready()
			if s := n.controller.Status(); s.Flows != len(flows) || s.Refused > 0 {
				t.Errorf("got %+v", s)
			}
			for _, c := range flows {
				n.alive(c)
				c.Close()
			}
			lab.Eventually(t, time.Minute, func() error {
				if s := n.controller.Status(); s.Flows > 0 {
					return fmt.Errorf("%d flows are left: %+v", s.Flows, s)
				}
				return nil
			})
		})
	}
}
