package peers_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/peers"
)

// switched is two hosts on a switch.
func switched(t *testing.T, links lab.LinkOptions, o peers.OpenVSwitchOptions) (a, b *lab.Host, s *peers.VSwitch) {
	t.Helper()
	l := lab.New(t)
	a, b = l.Host("a"), l.Host("b")
	middle := l.Host("middle")
	l.Link(lab.End{Host: a, Addrs: []string{"10.7.0.1/24"}}, lab.End{Host: middle, Name: "p1"}, links)
	l.Link(lab.End{Host: b, Addrs: []string{"10.7.0.2/24"}}, lab.End{Host: middle, Name: "p2"}, links)
	o.Ports = []string{"p1", "p2"}
	return a, b, peers.OpenVSwitch(middle, o)
}

func TestOpenVSwitchPassesTCP(t *testing.T) {
	tests := []struct {
		name  string
		links lab.LinkOptions
		o     peers.OpenVSwitchOptions
	}{
		{"offloads, TSO", lab.LinkOptions{}, peers.OpenVSwitchOptions{}},
		{"TSO", lab.LinkOptions{NoOffloads: true}, peers.OpenVSwitchOptions{}},
		{"an emulated link", lab.LinkOptions{Emulated: true}, peers.OpenVSwitchOptions{}},
		{"an emulated link without offloads", lab.LinkOptions{Emulated: true, NoOffloads: true}, peers.OpenVSwitchOptions{NoTSO: true}},
		{"neither", lab.LinkOptions{NoOffloads: true}, peers.OpenVSwitchOptions{NoTSO: true}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a, b, _ := switched(t, tt.links, tt.o)
			peers.Nginx(b, peers.NginxOptions{})
			got, err := peers.Curl(deadline(t), a, "http://10.7.0.2/1m")
			if err != nil {
				t.Fatal(err)
			}
			if err := peers.CheckPattern(strings.NewReader(got.Body), 1<<20); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenVSwitchFollowsController(t *testing.T) {
	a, _, s := switched(t, lab.LinkOptions{}, peers.OpenVSwitchOptions{FailMode: "secure", DatapathID: 0xba70, Controller: "tcp:127.0.0.1:6653"})
	ping := func() error {
		_, err := a.Exec(deadline(t), "ping", "-c", "1", "-W", "1", "10.7.0.2")
		return err
	}
	if ping() == nil {
		t.Error("a secure switch without flows passes packets")
	}
	for _, flow := range []string{"in_port=1,actions=output:2", "in_port=2,actions=output:1"} {
		if _, err := s.Ofctl(deadline(t), "add-flow", flow); err != nil {
			t.Fatal(err)
		}
	}
	lab.Eventually(t, time.Minute, ping)
	flows, err := s.Ofctl(deadline(t), "dump-flows")
	if err != nil || strings.Count(flows, "in_port=") != 2 || !strings.Contains(flows, "(OF1.3)") {
		t.Errorf("flows %q, %v; want both, in OpenFlow 1.3", flows, err)
	}
	if out, err := s.Ofctl(deadline(t), "show"); err != nil || !strings.Contains(out, "dpid:000000000000ba70") {
		t.Errorf("the switch says %q, %v; want its datapath id", out, err)
	}
	if out, err := s.Vsctl(deadline(t), "get-controller", s.Bridge); err != nil || strings.TrimSpace(out) != "tcp:127.0.0.1:6653" {
		t.Errorf("controller %q, %v", out, err)
	}
	if out, err := s.Appctl(deadline(t), "dpif/show"); err != nil || !strings.Contains(out, "netdev@") {
		t.Errorf("datapath %q, %v; want the one in user space", out, err)
	}
	if _, err := s.Ofctl(deadline(t), "add-flow", "nonsense"); err == nil {
		t.Error("a flow of nonsense was taken")
	}
	if err := s.Stop(10 * time.Second); err != nil {
		t.Error(err)
	}
	if out, err := s.Host().Exec(t.Context(), "ip", "link", "show", s.Bridge); err == nil {
		t.Errorf("the stopped switch left %s", out)
	}
}

// Several switches on several hosts share nothing: here in line, each a host of its own.
func TestSeveralOpenVSwitches(t *testing.T) {
	l := lab.New(t)
	a, b, c := l.Host("a"), l.Host("b"), l.Host("c")
	near, far := l.Host("near"), l.Host("far")
	l.Link(lab.End{Host: a, Addrs: []string{"10.7.0.1/24"}}, lab.End{Host: near, Name: "p1"}, lab.LinkOptions{})
	l.Link(lab.End{Host: near, Name: "p2"}, lab.End{Host: far, Name: "p1"}, lab.LinkOptions{})
	l.Link(lab.End{Host: b, Addrs: []string{"10.7.0.2/24"}}, lab.End{Host: far, Name: "p2"}, lab.LinkOptions{})
	l.Link(lab.End{Host: c, Addrs: []string{"10.7.0.3/24"}}, lab.End{Host: near, Name: "p3"}, lab.LinkOptions{})
	peers.OpenVSwitch(near, peers.OpenVSwitchOptions{Ports: []string{"p1", "p2", "p3"}})
	second := peers.OpenVSwitch(far, peers.OpenVSwitchOptions{Ports: []string{"p1", "p2"}})
	peers.SocatEcho(b, 7)
	for _, from := range []*lab.Host{a, c} {
		if err := echo(t, from, "10.7.0.2:7"); err != nil {
			t.Errorf("from %s: %v", from.Name(), err)
		}
	}
	if err := second.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Exec(deadline(t), "ping", "-c", "1", "-W", "1", "10.7.0.2"); err == nil {
		t.Error("packets pass a switch that was killed")
	}
	if _, err := a.Exec(deadline(t), "ping", "-c", "1", "-W", "5", "10.7.0.3"); err != nil {
		t.Errorf("the other switch: %v", err)
	}
	if left, err := os.ReadDir("/run/openvswitch"); err == nil && len(left) > 0 {
		t.Errorf("the switches used the machine's folder: %v", left)
	}
}

func TestOpenVSwitchNamesThePortThatIsMissing(t *testing.T) {
	lab.NeedRoot(t)
	err := lab.Run(new(bytes.Buffer), func(l *lab.Lab) error {
		peers.OpenVSwitch(l.Host("h"), peers.OpenVSwitchOptions{Ports: []string{"absent"}})
		return nil
	})
	if err == nil || !strings.Contains(err.Error(), "absent") {
		t.Errorf("error %v, want the port's name", err)
	}
}

// echo checks that what is said to an address comes back.
func echo(t *testing.T, from *lab.Host, address string) error {
	t.Helper()
	conn, err := from.Dial(deadline(t), "tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	said := make([]byte, 100<<10)
	peers.Pattern(said, 0)
	go conn.Write(said)
	heard := make([]byte, len(said))
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
	for at := 0; at < len(heard); {
		n, err := conn.Read(heard[at:])
		if err != nil {
			return fmt.Errorf("after %d bytes: %w", at, err)
		}
		at += n
	}
	if !bytes.Equal(said, heard) {
		return errors.New("other bytes came back")
	}
	return nil
}
