package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
	"baton/packet"
)

// size of the body that is fetched, in bytes.
const size = 64 << 20

// build makes a program of the module and returns its path.
func build(t *testing.T, name string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), filepath.Base(name))
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-p", "1", "-o", path, name).CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	return path
}

// scene is the paper's: client, access switch (Open vSwitch), core forwarder, and at that the router and two servers.
type scene struct {
	*lab.Lab
	client *lab.Host
	router *lab.Process
	at     map[string]*lab.Interface // of the client and the servers
}

func newScene(t *testing.T, shape emulator.Shape) *scene {
	t.Helper()
	l := lab.New(t)
	s := &scene{Lab: l, at: make(map[string]*lab.Interface)}
	none := lab.LinkOptions{NoOffloads: true} // as Open vSwitch's userspace datapath needs
	lossy := none
	lossy.AtoB, lossy.BtoA = shape, shape
	access, core := l.Host("access"), l.Host("core")
	for i, at := range []struct {
		name, address string
		host          *lab.Host
		port          string
	}{
		{"client", "10.0.0.2/24", access, "user"},
		{"router", "10.0.0.1/24", core, "p2"},
		{"s1", "10.0.0.11/24", core, "p3"},
		{"s2", "10.0.0.12/24", core, "p4"},
	} {
		h := l.Host(at.name)
		h.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
		o := none
		if i == 0 {
			s.client, o = h, lossy
		}
		s.at[at.name] = l.Link(lab.End{Host: h, Name: "eth0", Addrs: []string{at.address}}, lab.End{Host: at.host, Name: at.port}, o).A
	}
	l.Link(lab.End{Host: access, Name: "core"}, lab.End{Host: core, Name: "p1"}, none)
	ovs := peers.OpenVSwitch(access, peers.OpenVSwitchOptions{Ports: []string{"user", "core"}, NoTSO: true})
	for _, name := range []string{"s1", "s2"} {
		peers.Nginx(s.at[name].Host, peers.NginxOptions{})
	}

	socket, config := filepath.Join(l.Dir(), "core.openflow"), filepath.Join(l.Dir(), "core.yaml")
	text := fmt.Sprintf("name: paper\nports: [p1, p2, p3, p4]\nlisten: [unix:%s]\ncontrol: %s.sock\n", socket, config)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, core, "forwarder is up", build(t, "baton/cmd/baton"), "forwarder", "run", "-c", config)
	s.router = start(t, s.at["router"].Host, "ready", build(t, "baton/examples/handoff-openflow"), "-core", "unix:"+socket,
		"-access", "unix:"+filepath.Join(ovs.Dir, ovs.Bridge+".mgmt"))
	return s
}

// start starts a program and waits until it says something.
func start(t *testing.T, h *lab.Host, says, path string, args ...string) *lab.Process {
	t.Helper()
	p, err := h.Start(lab.Program{Path: path, Args: args})
	if err != nil {
		t.Fatal(err)
	}
	lab.Eventually(t, 20*time.Second, func() error {
		select {
		case <-p.Done():
			t.Fatalf("%s has ended:\n%s", p.Name(), p.Log())
		default:
		}
		if !strings.Contains(p.Log(), says) {
			return fmt.Errorf("%s is not ready:\n%s", p.Name(), p.Log())
		}
		return nil
	})
	return p
}

// seen is what passes an interface, of TCP.
type seen struct {
	mu                           sync.Mutex
	resets, strangers, unstamped int
	segments, blocks, farFetched int
	capture                      *lab.Capture
}

// watch looks at what passes an interface, whose host speaks to one address alone.
func watch(n *lab.Interface, peer string) *seen {
	s := &seen{}
	s.capture = n.Capture(lab.CaptureOptions{Each: func(p lab.Packet) {
		f, err := packet.Parse(p.Data)
		if err != nil || f.Protocol != packet.ProtocolTCP {
			return
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		h := f.TCP()
		other := f.Src
		if p.Outgoing {
			other = f.Dst
		}
		if other.Addr().String() != peer {
			s.strangers++
		}
		if h.Flags().Has(packet.RST) {
			s.resets++
		}
		if len(f.Payload()) > 0 {
			s.segments++
		}
		if _, _, ok := h.Options().Timestamps(); !ok && !h.Flags().Has(packet.RST) {
			s.unstamped++
		}
		for _, b := range h.Options().SACK() {
			s.blocks++
			if d := int32(b.Right.Sub(h.Ack())); d < -1<<23 || d > 1<<23 || !b.Left.Less(b.Right) {
				s.farFetched++
			}
		}
	}})
	return s
}

// TestHandoff: curl gets its body from nginx behind the router's address, and neither notices that there were two sessions.
func TestHandoff(t *testing.T) {
	for _, tt := range []struct {
		name  string
		shape emulator.Shape
	}{
		{"clean", emulator.Shape{}},
		{"1 % loss", emulator.Shape{Loss: 0.01, Delay: 500 * time.Microsecond, Seed: 1}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newScene(t, tt.shape)
			servers := map[string]bool{}
			for range 2 {
				client := watch(s.at["client"], "10.0.0.1")
				behind := []*seen{watch(s.at["s1"], "10.0.0.1"), watch(s.at["s2"], "10.0.0.1")}
				body := filepath.Join(s.Dir(), "body")
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
				got, err := peers.Curl(ctx, s.client, "-o", body, "-r", fmt.Sprintf("0-%d", size-1), "http://10.0.0.1/100m")
				cancel()
				if err != nil {
					t.Fatal(err)
				}
				check(t, body)
				servers[got.Surrogate] = true
				for _, w := range append(behind, client) {
					w.capture.Stop()
					if w.resets+w.strangers+w.unstamped+w.farFetched > 0 {
						t.Errorf("%d RSTs, %d packets of other addresses, %d without timestamps, %d SACK blocks that are far away",
							w.resets, w.strangers, w.unstamped, w.farFetched)
					}
				}
				blocks := behind[0].blocks + behind[1].blocks
				if tt.shape.Loss > 0 && blocks == 0 {
					t.Error("the server was told of no loss by SACK")
				}
				t.Logf("%d bytes from %s in %v, %d segments, %d SACK blocks", got.Bytes, got.Surrogate, got.Total, client.segments, blocks)
			}
			if !servers["s1"] || !servers["s2"] {
				t.Errorf("the servers were %v", servers)
			}
		})
	}
}

// TestManySessions: handoffs at the same time do not mix up, and later requests of a session stay with its server.
func TestManySessions(t *testing.T) {
	s := newScene(t, emulator.Shape{})
	const count = 24
	failed := make(chan error, count)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range count {
		go func() {
			got, err := peers.Curl(ctx, s.client, "http://10.0.0.1/16k", "http://10.0.0.1/16k")
			if half := len(got.Body) / 2; err == nil {
				err = errors.Join(peers.CheckPattern(strings.NewReader(got.Body[:half]), 16<<10),
					peers.CheckPattern(strings.NewReader(got.Body[half:]), 16<<10))
			}
			failed <- err
		}()
	}
	for range count {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	lab.Eventually(t, 20*time.Second, func() error {
		if n := strings.Count(s.router.Log(), " is with "); n != count {
			return fmt.Errorf("%d handoffs for %d sessions:\n%s", n, count, s.router.Log())
		}
		return nil
	})
}

func check(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := peers.CheckPattern(f, size); err != nil {
		t.Error(err)
	}
}
