package relay_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"baton/api"
	"baton/lab"
	"baton/lab/emulator"
	"baton/relay/config"
)

// crossroads is three relays and a server around a hub, at these distances from it (ms, there and back). So b is the best last relay, c
// the next best, and to connect from near itself the worst:
//
//	client ── near ──100── hub ──30── server
//	                    1 /   \ 10
//	                     b     c
type crossroads struct {
	*network
	near   *relay
	relays map[string]*relay // b and c
	hosts  map[string]*lab.Host
	links  map[string]*lab.Link // to the hub
	l      *net.TCPListener
}

var aroundHub = []struct {
	name, net string
	ms        float64
}{{"near", "10.1.0", 100}, {"b", "10.2.0", 1}, {"c", "10.3.0", 10}, {"server", "10.4.0", 30}}

func newCrossroads(t *testing.T) *crossroads {
	t.Helper()
	n := &network{Lab: lab.New(t), t: t, credentials: make(map[string]string)}
	x := &crossroads{
		network: n, relays: make(map[string]*relay), hosts: make(map[string]*lab.Host), links: make(map[string]*lab.Link),
	}
	hub := n.Host("hub")
	hub.Forward()
	for _, a := range aroundHub {
		h := n.Host(a.name)
		half := emulator.Shape{Delay: time.Duration(a.ms / 2 * float64(time.Millisecond))}
		x.links[a.name] = n.Link(lab.End{Host: h, Addrs: []string{a.net + ".2/24"}}, lab.End{Host: hub, Addrs: []string{a.net + ".1/24"}},
			lab.LinkOptions{AtoB: half, BtoA: half})
		h.Route("0.0.0.0/0", a.net+".1")
		x.hosts[a.name] = h
	}
	n.client = n.Host("client")
	n.link(n.client, "10.0.0.2/24", x.hosts["near"], "10.0.0.1/24")
	n.trust(config.Plaintext)
	n.credentials["b"], n.credentials["c"] = n.credentials["near"], n.credentials["near"]
	l, err := x.hosts["server"].Listen("tcp", "10.4.0.2:80")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	x.l = l.(*net.TCPListener)
	x.peer("b")
	x.peer("c")
	x.near = n.start(x.hosts["near"], "near", n.common("near", nil)+`
peers:
  - {name: b, address: "10.2.0.2:7000", start: system, ready: {probe: 1s}}
  - {name: c, address: "10.3.0.2:7000", start: system, ready: {probe: 1s}}
entries: [{name: web, listen: "10.0.0.1:8080", destination: "10.4.0.2:80", via: auto}]
choose: {dwell: 3s, refresh: 10s, margin: 5%}
`)
	return x
}

// peer starts b or c.
func (x *crossroads) peer(name string) {
	x.t.Helper()
	at := map[string]string{"b": "10.2.0.2:7000", "c": "10.3.0.2:7000"}[name]
	x.relays[name] = x.start(x.hosts[name], name,
		x.common(name, nil)+fmt.Sprintf("trunks: {listen: [%q], start: system}\nallow: [{prefix: 10.4.0.0/24}]\n", at))
}

// flow has one go from the client to the server, and tells who the server has seen.
func (x *crossroads) flow() (string, error) {
	client, err := x.client.Dial(x.t.Context(), "tcp", "10.0.0.1:8080")
	if err != nil {
		return "", err
	}
	defer client.Close()
	if _, err := io.WriteString(client, "ask"); err != nil {
		return "", err
	}
	server, err := x.accept()
	if err != nil {
		return "", err
	}
	defer server.Close()
	_, err = io.WriteString(server, "answer")
	b := make([]byte, 6)
	_ = client.SetDeadline(time.Now().Add(soon))
	_, readErr := io.ReadFull(client, b)
	return server.RemoteAddr().(*net.TCPAddr).IP.String(), errors.Join(err, readErr)
}

// accept takes the first connection that asks: probes are over as soon as they are accepted.
func (x *crossroads) accept() (*net.TCPConn, error) {
	end := time.Now().Add(soon) // probes continue to come
	for {
		_ = x.l.SetDeadline(end)
		server, err := x.l.AcceptTCP()
		if err != nil {
			return nil, err
		}
		b := make([]byte, 3)
		_ = server.SetDeadline(end)
		if _, err := io.ReadFull(server, b); err == nil && string(b) == "ask" {
			return server, nil
		}
		server.Close()
	}
}

// by holds who flows come from.
func (x *crossroads) by(address string) error {
	got, err := x.flow()
	if err == nil && got != address {
		err = fmt.Errorf("the server was connected to from %s, want %s", got, address)
	}
	return err
}

func (x *crossroads) chosen() (api.RelayDestination, error) {
	d, err := x.near.control.RelayDistances(x.t.Context())
	if err != nil {
		return api.RelayDestination{}, err
	}
	if len(d.Destinations) != 1 || !d.Destinations[0].Chosen {
		return api.RelayDestination{}, fmt.Errorf("nothing is chosen yet: %+v", d)
	}
	return d.Destinations[0], nil
}

func (x *crossroads) until(via ...string) {
	x.t.Helper()
	lab.Eventually(x.t, soon, func() error {
		d, err := x.chosen()
		if err == nil && fmt.Sprint(d.Via) != fmt.Sprint(via) {
			err = fmt.Errorf("via %v, want %v: %s", d.Via, via, d.Why)
		}
		return err
	})
}

// TestChosenRoute: flows go by the relay nearest to the server, by the next one as long as that is dead, and come back after the dwell time.
func TestChosenRoute(t *testing.T) {
	lab.NeedRoot(t)
	x := newCrossroads(t)
	if err := x.by("10.1.0.2"); err != nil { // at once, though nothing is known
		t.Error(err)
	}
	x.until("b")
	if err := x.by("10.2.0.2"); err != nil {
		t.Error(err)
	}
	d, err := x.chosen()
	if err != nil {
		t.Fatal(err)
	}
	want := []time.Duration{130 * time.Millisecond, 31 * time.Millisecond, 40 * time.Millisecond}
	for i, r := range d.Relays {
		if r.RTT < want[i]-time.Millisecond || r.RTT > want[i]+20*time.Millisecond {
			t.Errorf("%s measures %v, want %v", r.Relay, r.RTT, want[i])
		}
	}

	if err := x.relays["b"].Kill(); err != nil {
		t.Fatal(err)
	}
	for i := range 5 {
		if err := x.by("10.3.0.2"); err != nil {
			t.Errorf("flow %d after b was killed: %v", i, err)
		}
	}
	x.until("c")
	began := time.Now()
	x.peer("b")
	x.back(began)
	s, err := x.near.control.Relay(t.Context())
	if err != nil || s.Choice.Changes != 3 {
		t.Errorf("%d changes, want 3: %+v, %v", s.Choice.Changes, s.Choice, err)
	}
}

// back waits until b is used again, and holds that it has been there for the dwell time.
func (x *crossroads) back(began time.Time) {
	x.t.Helper()
	x.until("b")
	d, err := x.chosen()
	if err != nil || d.Since.Sub(began) < 3*time.Second || d.Why != "it is reachable again" {
		x.t.Errorf("b is used again after %v, want the dwell time: %s, %v", d.Since.Sub(began), d.Why, err)
	}
	if err := x.by("10.2.0.2"); err != nil {
		x.t.Error(err)
	}
}

// TestUnresponsiveRoute: a relay that is cut off says nothing. The flow that finds it out is late, and no flow is lost.
func TestUnresponsiveRoute(t *testing.T) {
	lab.NeedRoot(t)
	x := newCrossroads(t)
	x.until("b")
	if err := x.by("10.2.0.2"); err != nil {
		t.Error(err)
	}
	cut(x.links["b"], true)
	for i := range 4 { // one for each worker finds it out
		if err := x.by("10.3.0.2"); err != nil {
			t.Errorf("flow %d after b was cut off: %v", i, err)
		}
	}
	x.until("c")
	began := time.Now()
	cut(x.links["b"], false)
	x.back(began)
}
