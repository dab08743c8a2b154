package network

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/controller/switches"
	"baton/controller/topology"
	"baton/lab"
	"baton/lab/build"
	"baton/lab/peers"
	"baton/packet"
)

// slow bounds what a test waits for that should take milliseconds: machines that run tests are busy.
const slow = 30 * time.Second

// maker is who makes a switch of a scene.
type maker int

const (
	baton maker = iota
	ovs
)

// endpoint is the controller's on each switch's host.
const endpoint = "127.0.0.1:6653"

// scene is switches 1, 2, …, each with a host at port 1, and cables between them.
type scene struct {
	*lab.Lab
	t       *testing.T
	makers  []maker
	nodes   []*lab.Host
	hosts   []*lab.Interface
	ports   [][]string // interfaces of each switch, in order of the ports
	cables  map[string]*lab.Link
	batons  []*lab.Process // by switch, nil for Open vSwitch
	vswitch []*peers.VSwitch
	id      string

	options Options
	log     *slog.Logger
	network *Network
	sw      *switches.Server
	end     func()
}

// mac is the address of a host.
func (s *scene) mac(n int) packet.MAC { return packet.MAC(s.hosts[n-1].MAC) }

func hostIP(n int) netip.Addr { return netip.AddrFrom4([4]byte{10, 9, 0, byte(n)}) }

// newScene builds the hosts and cables; each cable joins two switches, by numbers from 1.
func newScene(t *testing.T, makers []maker, cables ...[2]int) *scene {
	t.Helper()
	var id [4]byte
	_, _ = rand.Read(id[:])
	s := &scene{
		Lab: lab.New(t), t: t, makers: makers, cables: map[string]*lab.Link{}, id: fmt.Sprintf("%x", id),
		batons: make([]*lab.Process, len(makers)), vswitch: make([]*peers.VSwitch, len(makers)), ports: make([][]string, len(makers)),
		log: slog.New(slog.NewTextHandler(&testWriter{t: t}, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	plain := lab.LinkOptions{NoOffloads: true} // as Open vSwitch's userspace datapath needs
	for i := range makers {
		n := s.Host(fmt.Sprintf("s%d", i+1))
		n.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
		n.Sysctl("net.ipv6.conf.default.disable_ipv6", "1")
		s.nodes = append(s.nodes, n)
		h := s.Host(fmt.Sprintf("h%d", i+1))
		s.ports[i] = append(s.ports[i], "p1")
		s.hosts = append(s.hosts, s.Link(lab.End{Host: h, Name: "eth0", Addrs: []string{
			hostIP(i+1).String() + "/24", fmt.Sprintf("fd00::%x/64", i+1),
		}}, lab.End{Host: n, Name: "p1"}, plain).A)
	}
	for _, c := range cables {
		a, b := c[0]-1, c[1]-1
		pa, pb := fmt.Sprintf("p%d", len(s.ports[a])+1), fmt.Sprintf("p%d", len(s.ports[b])+1)
		s.ports[a], s.ports[b] = append(s.ports[a], pa), append(s.ports[b], pb)
		s.cables[fmt.Sprintf("%d-%d", c[0], c[1])] = s.Link(lab.End{Host: s.nodes[a], Name: pa}, lab.End{Host: s.nodes[b], Name: pb}, plain)
	}
	return s
}

// testWriter logs to a test until it ends.
type testWriter struct {
	t    *testing.T
	mu   sync.Mutex
	done bool
}

func (w *testWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.done {
		w.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

// control starts the controller.
func (s *scene) control(o Options) {
	s.t.Helper()
	o.Log, s.options = s.log, o
	s.sw = switches.New(switches.Options{Log: s.log})
	s.network = New(s.sw, o)
	s.sw.Handle(s.network.Forward)
	var listeners []net.Listener // one on each switch's host: there is no network for the channels
	for _, n := range s.nodes {
		l, err := n.Listen("tcp", endpoint)
		s.must(err)
		listeners = append(listeners, l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ran, cancelRun := context.WithCancel(context.Background())
	served, run := make(chan error, 1), make(chan struct{})
	go func() { served <- s.sw.Serve(ctx, listeners...) }()
	go func() { s.network.Run(ran); close(run) }()
	s.end = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			s.t.Error(err)
		}
		cancelRun()
		<-run
	})
	end := s.end
	s.t.Cleanup(end)
}

// start starts all switches.
func (s *scene) start() {
	s.t.Helper()
	for i := range s.makers {
		s.startSwitch(i + 1)
	}
}

func (s *scene) startSwitch(n int) {
	s.t.Helper()
	if i := n - 1; s.makers[i] == ovs {
		s.vswitch[i] = peers.OpenVSwitch(s.nodes[i], peers.OpenVSwitchOptions{
			Ports: s.ports[i], NoTSO: true, DatapathID: uint64(n), FailMode: "secure", Controller: "tcp:" + endpoint,
		})
		return
	}
	s.startBaton(n)
}

func (s *scene) file(n int) string { return filepath.Join(s.Dir(), fmt.Sprintf("s%d.yaml", n)) }

func (s *scene) startBaton(n int) {
	s.t.Helper()
	path, err := build.Program("baton")
	s.must(err)
	text := fmt.Sprintf("name: %s-%d\nports: [%s]\ndatapath_id: %d\ncontrollers: [\"tcp:%s\"]\nretry: {min: 50ms, max: 200ms}\ncontrol: %s\n",
		s.id, n, strings.Join(s.ports[n-1], ", "), n, endpoint, s.file(n)+".sock")
	s.must(os.WriteFile(s.file(n), []byte(text), 0o600))
	p, err := s.nodes[n-1].Start(lab.Program{Path: path, Args: []string{"forwarder", "run", "-c", s.file(n)}, Name: "forwarder"})
	s.must(err)
	s.batons[n-1] = p
	lab.Eventually(s.t, slow, func() error {
		select {
		case <-p.Done():
			s.t.Fatalf("the forwarder has ended:\n%s", p.Log())
		default:
		}
		if !strings.Contains(p.Log(), "forwarder is up") {
			return fmt.Errorf("the forwarder is not up:\n%s", p.Log())
		}
		return nil
	})
	s.t.Cleanup(func() { s.stopBaton(n, p) })
}

// stopBaton ends a forwarder and removes what it leaves in the kernel.
func (s *scene) stopBaton(n int, p *lab.Process) {
	_ = p.Signal(unix.SIGTERM)
	_ = p.Wait(context.Background())
	path, _ := build.Program("baton")
	if _, err := s.nodes[n-1].Exec(context.Background(), path, "forwarder", "cleanup", "-c", s.file(n)); err != nil {
		s.t.Log(err)
	}
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// links waits until so many directions of links can be used.
func (s *scene) links(want int) {
	s.t.Helper()
	lab.Eventually(s.t, slow, func() error {
		var got []string
		n := 0
		s.network.View(func(g *topology.Graph) {
			for _, l := range g.Links() {
				if l.Usable {
					n++
				}
				got = append(got, l.Link.String())
			}
		})
		if n != want {
			return fmt.Errorf("%d of %d links: %v", n, want, got)
		}
		return nil
	})
}

// ping sends a packet from a host to another and waits for the answer.
func (s *scene) ping(from int, to netip.Addr) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_, err := s.hosts[from-1].Host.Exec(ctx, "ping", "-n", "-c", "1", "-W", "2", to.String())
	return err
}

func (s *scene) pings(from int, to netip.Addr) {
	s.t.Helper()
	lab.Eventually(s.t, slow, func() error { return s.ping(from, to) })
}

func (s *scene) counts() (Counts, topology.Counts) {
	var g topology.Counts
	s.network.View(func(graph *topology.Graph) { g = graph.Counts() })
	return s.network.Counts(), g
}

// inject sends frames out of a host's interface.
func inject(t *testing.T, n *lab.Interface, frames ...[]byte) {
	t.Helper()
	if err := n.Host.Do(func() error {
		fd, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		for _, frame := range frames {
			if err := unix.Sendto(fd, frame, 0, &unix.SockaddrLinklayer{Ifindex: n.Index}); err != nil {
				return err
			}
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// pathOf are the switches of the path between two hosts.
func (s *scene) pathOf(a, b int) string {
	x, _ := s.network.Locate(hostIP(a))
	y, _ := s.network.Locate(hostIP(b))
	hops, err := s.network.Path(x, y)
	if err != nil {
		return err.Error()
	}
	var list []string
	for _, h := range hops {
		list = append(list, fmt.Sprint(h.Switch))
	}
	return strings.Join(list, " ")
}
