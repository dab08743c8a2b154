package cdn

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"slices"
	"syscall"
	"testing"
	"time"

	"baton/api"
	"baton/experiments/experimentstest"
	"baton/lab"
	of "baton/openflow"
	"baton/openflow/channel"
)

// A session that a controller has handed over outlives it; the next controller knows the session, and brings it to another path when its link is cut.
func TestSuccessor(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Programs(t)
	err := lab.Run(t.Output(), func(l *lab.Lab) error {
		n, err := Build(t.Context(), l, Options{Program: program, Examples: examples, Controller: true, OpenVSwitch: true, Spare: true})
		if err != nil {
			return err
		}
		if err := n.Joined(t.Context()); err != nil {
			return err
		}
		get := n.visitor(t)
		get("at first", false)
		before := n.live(t)
		get("on the session that was handed over", true)
		n.is(t, n.controller, written)
		if err := n.Replace(t.Context(), nil); err != nil {
			return err
		}
		get("with the next controller", true)
		lab.Eventually(t, patience, func() error {
			if after := n.live(t); after != before {
				return fmt.Errorf("the next controller knows %q, and the one before knew %q", after, before)
			}
			return nil
		})
		for _, link := range []*lab.Link{n.Line[1], n.SpareLink} { // the session is on one of them
			link.A.SetDown()
			get("with a link cut", true)
			link.A.SetUp()
			if err := n.Discovered(t.Context()); err != nil {
				return err
			}
		}
		get("with both links", true)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// visitor is a client that gets a picture by the reactive mode again and again, on the connection of before or on a first one.
func (n *Network) visitor(t *testing.T) func(when string, again bool) {
	client := n.Clients[0].HTTPClient(30 * time.Second)
	return func(when string, again bool) {
		t.Helper()
		if reused, err := n.fetch(t.Context(), client); err != nil || reused != again {
			t.Errorf("%s: %v, on the connection of before: %v", when, err, reused)
		}
	}
}

// fetch gets a picture by the reactive mode, and tells whether on a connection that was open.
func (n *Network) fetch(ctx context.Context, client *http.Client) (reused bool, err error) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { reused = i.Reused }})
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+ReactiveAt+":8084/images/02.png", nil)
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(io.Discard, resp.Body); err != nil {
		return false, err
	}
	if resp.StatusCode != http.StatusOK {
		return false, fmt.Errorf("status %d", resp.StatusCode)
	}
	return reused, nil
}

// live waits until the controller that is asked knows sessions as handed over, and returns them.
func (n *Network) live(t *testing.T) (text string) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		var all []api.ControllerSession
		if err := n.ask(t.Context(), "sessions", &all); err != nil {
			return err
		}
		for _, s := range all {
			if s.State == api.ControllerHandedOff {
				text += fmt.Sprintf("%v by %s (%d) ", s.Client, s.Surrogate, s.Handoff)
			}
		}
		if text == "" {
			return fmt.Errorf("no session is handed over: %+v; %s\n--- controller\n%s\n--- request router\n%s", all, n.failures(t), n.Controller.Log(), n.Routing.Log())
		}
		return nil
	})
	return text
}

// failures tells why sessions were not handed over.
func (n *Network) failures(t *testing.T) (text string) {
	var all []api.ControllerHandoff
	if err := n.ask(t.Context(), "handoffs", &all); err != nil {
		return err.Error()
	}
	for _, h := range all {
		text += fmt.Sprintf("handoff of %v to %s: %s; %+v\n", h.Client, h.Surrogate, h.Failure, h.Steps)
	}
	return text
}

// Two controllers with a cluster of etcd. The master is killed: the other one takes its place at all switches, no flow entry is lost, no session
// breaks, and new requests are handed over. A master that was only stopped finds that it is none any more. Without a quorum sessions go on.
func TestTwoControllers(t *testing.T) {
	lab.NeedRoot(t)
	program := experimentstest.Programs(t)
	err := lab.Run(t.Output(), func(l *lab.Lab) error {
		n, err := Build(t.Context(), l, Options{Program: program, Examples: examples, Controller: true, Standby: true})
		if err != nil {
			return err
		}
		if err := n.Joined(t.Context()); err != nil {
			return err
		}
		get := n.visitor(t)
		get("at first", false)
		known, entries := n.live(t), n.entriesOf(t)
		n.is(t, n.controller, written)

		began := time.Now()
		if err := n.Controller.Kill(); err != nil {
			return err
		}
		n.is(t, n.standby, ruling)
		t.Logf("the standby controller rules after %v", time.Since(began).Round(time.Millisecond))
		if after := n.entriesOf(t); after < entries {
			t.Errorf("%d flow entries, and %d before", after, entries)
		}
		get("with the successor", true)
		n.asked = StandbyAt + ":8080"
		if after := n.live(t); after != known {
			t.Errorf("the successor knows %q, and the master before knew %q", after, known)
		}
		n.serves(t, "the successor")

		// The first one comes back, the second one is stopped as a host that swaps, and goes on.
		if n.Controller, err = n.run(n.Services, "controller", n.controllerFile()); err != nil {
			return err
		}
		n.is(t, n.controller, connected)
		if err := n.Standby.Signal(syscall.SIGSTOP); err != nil {
			return err
		}
		n.is(t, n.controller, ruling)
		if err := n.Standby.Signal(syscall.SIGCONT); err != nil {
			return err
		}
		n.is(t, n.standby, abdicated) // though it was stopped, and not told
		get("with the first one again", true)
		n.asked = northbound
		n.serves(t, "the first one again")

		picture := func(when string) {
			t.Helper()
			if _, one, err := n.get(t.Context(), &Report{}, n.Clients[1], "http://"+Site+"/images/04.png"); err != nil || one.Status != 200 {
				t.Errorf("a handoff of the request router %s: %d, %v", when, one.Status, err)
			}
		}
		picture("with a quorum")

		// No quorum: what there is goes on, but nobody installs new paths.
		for _, m := range n.Etcd.Members[1:] {
			if err := m.Pause(); err != nil {
				return err
			}
		}
		n.is(t, n.controller, abdicated)
		get("without a quorum", true)
		picture("without a quorum")
		for _, m := range n.Etcd.Members[1:] {
			if err := m.Resume(); err != nil {
				return err
			}
		}
		get("with a quorum again", true)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// is waits until a controller is as it should be.
func (n *Network) is(t *testing.T, c *api.Client, as func(api.ControllerStatus) error) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		s, err := c.Controller(t.Context())
		if err != nil {
			return err
		}
		return as(s)
	})
}

// ruling is a controller that is the master at all switches.
func ruling(s api.ControllerStatus) error {
	if !s.Store.Master {
		return fmt.Errorf("the master is %s", s.Store.Holder)
	}
	for _, sw := range s.Switches {
		if !sw.Up || sw.Role != "master" {
			return fmt.Errorf("%s is up: %v, with role %s", sw.Name, sw.Up, sw.Role)
		}
	}
	return nil
}

// abdicated is a controller that knows that it is not the master.
func abdicated(s api.ControllerStatus) error {
	if s.Store.Master {
		return errors.New("it still takes itself for the master")
	}
	return nil
}

// written is a controller whose store has all records. One that is killed before loses them: the sessions go on, and its successor does not know them.
func written(s api.ControllerStatus) error {
	if s.Store.Pending > 0 {
		return fmt.Errorf("the store does not have %d records yet", s.Store.Pending)
	}
	return nil
}

// connected is a controller that all switches are connected to.
func connected(s api.ControllerStatus) error {
	for _, sw := range s.Switches {
		if !sw.Up {
			return fmt.Errorf("%s is not connected", sw.Name)
		}
	}
	return nil
}

// serves waits until the controller that is asked hands a new session over: the request router must have found it.
func (n *Network) serves(t *testing.T, who string) {
	t.Helper()
	lab.Eventually(t, patience, func() error {
		fresh := n.Clients[1].HTTPClient(30 * time.Second)
		defer fresh.CloseIdleConnections()
		if _, err := n.fetch(t.Context(), fresh); err != nil {
			t.Errorf("%s: %v", who, err)
		}
		var all []api.ControllerHandoff
		if err := n.ask(t.Context(), "handoffs", &all); err != nil {
			return err
		}
		if len(all) == 0 || !slices.ContainsFunc(all, func(h api.ControllerHandoff) bool {
			return h.Failure == "" && len(h.Steps) > 0 && h.Client.Addr().String() == "10.11.0.102"
		}) {
			return fmt.Errorf("%s hands nothing over: %+v", who, all[:min(len(all), 1)])
		}
		return nil
	})
}

// entriesOf counts the controller's flow entries of paths and handoffs in all switches.
func (n *Network) entriesOf(t *testing.T) (sum int) {
	t.Helper()
	for i := 1; i <= n.o.Forwarders; i++ {
		conn, err := n.Switches.Dial(t.Context(), "unix", n.listens(i))
		if err != nil {
			t.Fatal(err)
		}
		c := channel.Start(conn, channel.Options{})
		for _, cookie := range []uint64{0xb701 << 48, 0xb702 << 48} {
			q := of.NewFlowQuery()
			q.Cookie, q.CookieMask = cookie, 0xffff<<48
			all, err := c.Multipart(t.Context(), of.AggregateRequest{FlowQuery: q})
			if err != nil {
				t.Fatal(err)
			}
			for _, a := range all {
				sum += int(a.(of.AggregateReply).Flows)
			}
		}
		c.Close()
	}
	return sum
}
