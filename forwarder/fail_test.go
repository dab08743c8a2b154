package forwarder_test

import (
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"

	"baton/lab"
	of "baton/openflow"
	"baton/openflow/channel"
)

// controller is one that the forwarder connects to.
type controller struct {
	s *stage
	net.Listener
}

const controllerAddress = "127.0.0.1:6653"

// controlled is the configuration of a forwarder that soon notices whether its controller is there.
const controlled = "controllers: [{connect: 'tcp:" + controllerAddress + "', idle: 300ms, dead: 1s}]\nretry: {min: 50ms, max: 200ms}"

func (s *stage) controller() *controller {
	s.t.Helper()
	l, err := s.node.Listen("tcp", controllerAddress)
	s.must(err)
	s.t.Cleanup(func() { l.Close() })
	return &controller{s, l}
}

// joined waits until the forwarder has connected.
func (k *controller) joined() *channel.Conn {
	k.s.t.Helper()
	conn, err := k.Accept()
	k.s.must(err)
	c := channel.Start(conn, channel.Options{})
	k.s.t.Cleanup(func() { c.Close() })
	k.s.must(c.Up(k.s.within()))
	return c
}

func (s *stage) ping(from, to int) error {
	_, err := s.host(from).Exec(s.within(), "ping", "-c", "1", "-W", "1", address(to).String())
	return err
}

// TestStandalone: without its controller the forwarder is a bridge that learns; with one it is what that makes of it.
func TestStandalone(t *testing.T) {
	s := newStage(t, 3, lab.LinkOptions{})
	s.start("fail_mode: standalone\n" + controlled)
	at3 := s.outside(3).Capture(lab.CaptureOptions{})
	lab.Eventually(t, patience, func() error { return s.ping(1, 2) })
	lab.Eventually(t, patience, func() error {
		if len(at3.Packets()) == 0 {
			return errors.New("a packet to an unknown address was not flooded")
		}
		return nil
	})
	flooded := len(at3.Packets())
	for range 3 {
		s.must(s.ping(1, 2))
	}
	if n := len(at3.Stop()); n > flooded {
		t.Errorf("%d packets between two known addresses came to a third port", n-flooded)
	}
	s.must(s.ping(3, 1))
	if flows := s.ofctl("dump-flows"); strings.Count(flows, "cookie=") != 1 || !strings.Contains(flows, "actions=NORMAL") {
		t.Errorf("without a controller:\n%s", flows)
	}

	k := s.controller()
	c := k.joined()
	lab.Eventually(t, patience, func() error { return empty(s) })
	if s.ping(1, 2) == nil {
		t.Error("packets pass a forwarder whose controller has told it nothing")
	}
	s.commit(c, add(5, of.Match{}.Port(1), output(2)), add(5, of.Match{}.Port(2), output(1)))
	s.must(s.ping(1, 2))
	k.Close()
	c.Close()
	lab.Eventually(t, patience, func() error { return s.ping(3, 1) })
	if flows := s.ofctl("dump-flows"); strings.Count(flows, "cookie=") != 1 {
		t.Errorf("after the controller has gone:\n%s", flows)
	}
}

func empty(s *stage) error {
	if flows := s.ofctl("dump-flows"); strings.Contains(flows, "cookie=") {
		return fmt.Errorf("there are flow entries:\n%s", flows)
	}
	return nil
}

// TestSecure: without its controller the entries stay and go on, and what they do not match is dropped.
func TestSecure(t *testing.T) {
	s := newStage(t, 3, lab.LinkOptions{})
	k := s.controller()
	s.start(controlled)
	c := k.joined()
	s.commit(c, add(5, of.Match{}.Port(1), output(2)), add(5, of.Match{}.Port(2), output(1)))
	before := s.holds()
	from := backlog(t)
	came, r := s.sink(2, 5000), s.send(1, 2, 5000, pace)
	r.more(100)
	c.Close()
	again := k.joined() // it connects anew
	s.commit(again)
	r.more(100)
	k.Close()
	again.Close()
	r.more(1000)
	intact(t, from, []*sink{came}, []*stream{r})
	if s.ping(3, 1) == nil {
		t.Error("what no entry matches passes")
	}
	if after := s.holds(); after != before {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}
