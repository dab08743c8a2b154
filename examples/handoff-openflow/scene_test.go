package handoff_test

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/api"
	"baton/controller/handoff"
	"baton/controller/network"
	"baton/controller/northbound"
	"baton/controller/switches"
	"baton/controller/topology"
	"baton/lab"
	"baton/lab/build"
	"baton/lab/emulator"
	"baton/lab/peers"
	"baton/router/config"
	"baton/router/fallback"
	"baton/router/reactive"
	"baton/rpc"
)

// slow bounds what a test waits for that should take milliseconds: machines that run tests are busy.
const slow = 30 * time.Second

// The addresses of the scene.
var (
	service    = netip.MustParseAddrPort("10.0.0.1:80")
	bulk       = netip.MustParseAddrPort("10.0.0.1:81") // a service whose sessions are never handed over
	surrogates = []handoff.Surrogate{
		{Name: "s1", Address: netip.MustParseAddrPort("10.0.0.11:80")},
		{Name: "s2", Address: netip.MustParseAddrPort("10.0.0.12:80")},
	}
)

// endpoint is the controller's on each switch's host.
const endpoint = "127.0.0.1:6653"

// scene is the paper's: client, access switch (Open vSwitch), core forwarder (Baton), and at that the request router and two surrogates.
type scene struct {
	*lab.Lab
	t      *testing.T
	client *lab.Host
	router *lab.Host
	nodes  map[string]*lab.Host      // the switches
	at     map[string]*lab.Interface // of client, router and surrogates
	log    *slog.Logger
	id     string // of the forwarders' names, which are one machine's

	sw      *switches.Server
	network *network.Network
	manager *handoff.Manager
	hub     *northbound.Hub
	stop    func() // the controller
	north   string // its address
	server  *reactive.Server
	pool    *reactive.Pool

	mu     sync.Mutex
	turn   int
	choose func(handoff.Request) (string, error)
}

// setup is what differs between scenes.
type setup struct {
	shape emulator.Shape // of the client's link
	strip bool
	host  string // for the Host field of requests
	baton bool   // the access switch is one of Baton's, too
}

func newScene(t *testing.T, o setup) *scene {
	t.Helper()
	l := lab.New(t)
	s := &scene{id: fmt.Sprintf("%x", rand.Uint32()>>4), Lab: l, t: t, at: map[string]*lab.Interface{}, nodes: map[string]*lab.Host{}}
	s.log = slog.New(slog.NewTextHandler(&testWriter{t: t}, &slog.HandlerOptions{Level: slog.LevelDebug}))
	none := lab.LinkOptions{NoOffloads: true} // as Open vSwitch's userspace datapath needs
	lossy := none
	lossy.AtoB, lossy.BtoA = o.shape, o.shape
	for _, name := range []string{"access", "core"} {
		s.nodes[name] = l.Host(name)
		s.nodes[name].Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
		s.nodes[name].Sysctl("net.ipv6.conf.default.disable_ipv6", "1")
	}
	for _, at := range []struct{ name, address, node, port string }{
		{"client", "10.0.0.2/24", "access", "user"},
		{"router", "10.0.0.1/24", "core", "p2"},
		{"s1", "10.0.0.11/24", "core", "p3"},
		{"s2", "10.0.0.12/24", "core", "p4"},
	} {
		h := l.Host(at.name)
		h.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
		link := none
		if at.name == "client" {
			link = lossy
		}
		s.at[at.name] = l.Link(lab.End{Host: h, Name: "eth0", Addrs: []string{at.address}}, lab.End{Host: s.nodes[at.node], Name: at.port}, link).A
	}
	s.client, s.router = s.at["client"].Host, s.at["router"].Host
	l.Link(lab.End{Host: s.nodes["access"], Name: "core"}, lab.End{Host: s.nodes["core"], Name: "p1"}, none)
	for _, name := range []string{"s1", "s2"} {
		peers.Nginx(s.at[name].Host, peers.NginxOptions{Server: "add_header X-Host $http_host always;\nlarge_client_header_buffers 4 32k;"})
	}
	s.control(o)
	if o.baton {
		s.startBaton("access", 1, "user", "core")
	} else {
		peers.OpenVSwitch(s.nodes["access"], peers.OpenVSwitchOptions{
			Ports: []string{"user", "core"}, NoTSO: true, DatapathID: 1, FailMode: "secure", Controller: "tcp:" + endpoint,
		})
	}
	s.startBaton("core", 2, "p1", "p2", "p3", "p4")
	s.settle()
	s.route()
	return s
}

// testWriter logs to a test until it ends.
type testWriter struct {
	t  *testing.T
	mu sync.Mutex
}

func (w *testWriter) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t.Context().Err() == nil {
		w.t.Log(strings.TrimSpace(string(b)))
	}
	return len(b), nil
}

func (s *scene) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// control starts the controller.
func (s *scene) control(o setup) {
	s.t.Helper()
	s.sw = switches.New(switches.Options{Log: s.log})
	s.network = network.New(s.sw, network.Options{Log: s.log, Cache: true})
	s.hub = northbound.NewHub()
	list := append([]handoff.Surrogate(nil), surrogates...)
	for i := range list {
		list[i].Host = o.host
	}
	s.manager = handoff.New(handoff.Options{
		Network: handoff.On(s.network, s.sw), Choose: s.chosen, Publish: s.hub.Publish, Log: s.log, Strip: o.strip,
	}, handoff.Addresses{Services: []handoff.Service{{Address: service}, {Address: bulk}}, Surrogates: list})
	s.manager.Attach(s.sw)
	s.sw.Handle(s.network.Forward)
	north := northbound.New(northbound.Config{
		Source: northbound.Source{Sessions: s.manager.Sessions, Handoffs: s.manager.Handoffs, Surrogates: func() []api.ControllerSurrogate { return nil }},
		Calls:  s.manager.Calls(), Hub: s.hub, Access: northbound.Access{Open: true},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	s.must(err)
	s.north = l.Addr().String()
	var listeners []net.Listener // one on each switch's host: there is no network for the channels
	for _, n := range s.nodes {
		l, err := n.Listen("tcp", endpoint)
		s.must(err)
		listeners = append(listeners, l)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = north.Serve(ctx, l, nil) })
	group.Go(func() { _ = s.sw.Serve(ctx, listeners...) })
	group.Go(func() { s.network.Run(ctx) })
	s.stop = sync.OnceFunc(func() {
		s.manager.Close()
		cancel()
		north.Close()
		group.Wait()
	})
	stop := s.stop
	s.t.Cleanup(stop)
}

// chosen takes turns, unless the test has another choice.
func (s *scene) chosen(q handoff.Request) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.choose != nil {
		return s.choose(q)
	}
	s.turn++
	return q.Ready[s.turn%len(q.Ready)], nil
}

func (s *scene) startBaton(name string, id int, ports ...string) {
	s.t.Helper()
	path, err := build.Program("baton")
	s.must(err)
	file := filepath.Join(s.Dir(), name+".yaml")
	text := fmt.Sprintf("name: %s-%d\nports: [%s]\ndatapath_id: %d\ncontrollers: [\"tcp:%s\"]\nretry: {min: 50ms, max: 200ms}\ncontrol: %s\n",
		s.id, id, strings.Join(ports, ", "), id, endpoint, file+".sock")
	s.must(os.WriteFile(file, []byte(text), 0o600))
	p, err := s.nodes[name].Start(lab.Program{Path: path, Args: []string{"forwarder", "run", "-c", file}, Name: "forwarder"})
	s.must(err)
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
	s.t.Cleanup(func() {
		_ = p.Signal(unix.SIGTERM)
		_ = p.Wait(context.Background())
		if _, err := s.nodes[name].Exec(context.Background(), path, "forwarder", "cleanup", "-c", file); err != nil {
			s.t.Log(err)
		}
	})
}

// settle waits until the link between the switches is known in both directions, and every switch has its entries.
func (s *scene) settle() {
	s.t.Helper()
	lab.Eventually(s.t, slow, func() error {
		n := 0
		s.network.View(func(g *topology.Graph) {
			for _, l := range g.Links() {
				if l.Usable {
					n++
				}
			}
		})
		if n != 2 {
			return fmt.Errorf("%d of 2 directions of links", n)
		}
		return nil
	})
	for id := range uint64(2) {
		lab.Eventually(s.t, slow, func() error {
			flows, err := s.sw.Flows(s.t.Context(), id+1, 0xb702<<48, 0xffff<<48)
			if err == nil && len(flows) < len(s.manager.Watched()) {
				err = fmt.Errorf("switch %d has %d entries", id+1, len(flows))
			}
			return err
		})
	}
	for _, from := range []string{"client", "s1", "s2", "router"} { // the controller learns where hosts are by what they ask
		lab.Eventually(s.t, slow, func() error {
			to := "10.0.0.1"
			if from == "router" {
				to = "10.0.0.2"
			}
			_, err := s.at[from].Host.Exec(s.t.Context(), "ping", "-n", "-c", "1", "-W", "2", to)
			return err
		})
	}
}

// route starts the request router.
func (s *scene) route() {
	s.t.Helper()
	s.pool = reactive.NewPool(reactive.PoolOptions{Log: s.log, Connect: s.router.Dial})
	client := reactive.Connect([]rpc.Endpoint{{URL: "ws://" + s.north}}, api.ControllerHello{Name: "rr1", Service: service}, s.pool, s.log)
	proxy, err := fallback.New(fallback.Options{
		VIP: service, Mode: config.Proxy, Dial: s.router.Dial, Log: s.log,
		Decide: func(_ netip.AddrPort, _ *http.Request, _ netip.AddrPort, exclude []string) fallback.Decision {
			for _, g := range surrogates {
				if len(exclude) == 0 || exclude[0] != g.Name {
					return fallback.Decision{Surrogate: g.Name, Address: g.Address}
				}
			}
			return fallback.Decision{Status: http.StatusServiceUnavailable}
		},
		Timeouts: fallback.Timeouts{Dial: 500 * time.Millisecond},
	})
	s.must(err)
	s.server = reactive.New(reactive.Options{Service: service, Controller: client, Pool: s.pool, Proxy: proxy, Log: s.log})
	l, err := s.router.Listen("tcp", service.String())
	s.must(err)
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() { _ = client.Run(ctx) })
	group.Go(func() {
		if err := s.server.Serve(l); err != nil {
			s.log.Error("the request router has ended", "err", err)
		}
	})
	s.t.Cleanup(func() {
		cancel()
		end, done := context.WithTimeout(context.Background(), time.Second)
		defer done()
		_ = s.server.Shutdown(end)
		s.pool.Close()
		group.Wait()
	})
	s.idle(2 * 8)
}

// idle waits for so many idle legs that the controller knows.
func (s *scene) idle(want int) {
	s.t.Helper()
	lab.Eventually(s.t, slow, func() error {
		have := 0
		for _, l := range s.manager.Loads() {
			have += l.Legs
		}
		if have < want {
			return fmt.Errorf("%d of %d legs", have, want)
		}
		return nil
	})
}
