package worker

import (
	"io"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"baton/relay/choice"
	"baton/relay/config"
	"baton/relay/plan"
	"baton/relay/secure/securetest"
	"baton/relay/trunkproto"
)

// star is a relay with an entry that leaves its way to it, and the peers b and c, which know nothing of each other.
type star struct {
	relay
	security       config.Security
	authority      *securetest.Authority
	trunkListeners map[string]netip.AddrPort
	far            map[string][]*Worker
	allow          map[string]string // prefixes, by the relay's name
	connect        time.Duration     // timeouts.connect
}

func newStar(t *testing.T, security config.Security, change func(s *star)) *star {
	t.Helper()
	s := &star{
		relay: relay{t: t, server: listenTCP(t)}, security: security, trunkListeners: make(map[string]netip.AddrPort), far: make(map[string][]*Worker),
		allow: map[string]string{"b": "127.0.0.0/8", "c": "127.0.0.0/8"}, connect: soon,
	}
	if security == config.TLS {
		s.authority = securetest.NewAuthority(t)
	}
	s.entry = config.Entry{Name: "e", Mode: config.Plain, Listen: reservePort(t), Destination: addrOf(s.server), ClientAddress: config.Hidden, Auto: true}
	if change != nil {
		change(s)
	}
	cfg := defaults()
	cfg.Name, cfg.Timeouts.Connect = "self", s.connect
	own := s.credentials("self")
	for _, name := range []string{"b", "c"} {
		s.trunkListeners[name] = reservePort(t)
		s.start(name)
		cfg.Peers = append(cfg.Peers, config.Peer{
			Name: name, Address: s.trunkListeners[name], Credentials: own, Ready: config.Ready{Min: 2, Max: 64, Age: time.Minute, Probe: 15 * time.Second},
		})
	}
	cfg.Timeouts.Header = soon
	s.workers = run(t, 1, cfg)
	s.open(s.workers)
	eventually(t, "trunks are ready", func() bool {
		return s.workers[0].pools["b"].count.Ready.Load() > 0 && s.workers[0].pools["c"].count.Ready.Load() > 0
	})
	return s
}

func (s *star) credentials(name string) config.Credentials {
	if s.security == config.Plaintext {
		return secret
	}
	return s.authority.Issue(s.t, securetest.Certificate{Names: []string{name}})
}

// start runs a peer.
func (s *star) start(name string) {
	s.t.Helper()
	cfg := defaults()
	cfg.Name = name
	cfg.Timeouts.Header = soon
	cfg.Allow = []config.Allow{{Prefix: netip.MustParsePrefix(s.allow[name])}}
	cfg.Trunks = &config.Trunks{Listen: []netip.AddrPort{s.trunkListeners[name]}, Credentials: s.credentials(name), Waiting: 1000}
	s.far[name] = run(s.t, 1, cfg)
	if err := s.far[name][0].ListenTrunks(s.trunkListeners[name], cfg.Trunks); err != nil {
		s.t.Fatal(err)
	}
}

// kill ends a peer, as if it had died.
func (s *star) kill(name string) { s.far[name][0].Close() }

// by is how many flows a peer has had.
func (s *star) by(name string) (n uint64) { return s.far[name][0].Counters().Flows.Load() }

// send has the flows to a server go by ways that a Chooser has chosen: rtts are from the relays to it.
func (s *star) send(server netip.AddrPort, allowed bool, rtts map[string]time.Duration) {
	s.t.Helper()
	c, now := choice.New(func() float64 { return 0 }), time.Now()
	o := choice.Options{
		Self: "self", Learn: true, Allowed: func(netip.AddrPort) bool { return allowed }, Clouds: plan.AnyCloud, Most: 3, Margin: 0.1, Refresh: time.Hour,
		Peers: []choice.Peer{{Name: "b", Address: s.trunkListeners["b"]}, {Name: "c", Address: s.trunkListeners["c"]}},
	}
	if s.entry.Mode == config.Plain {
		o.Fixed = []netip.AddrPort{server}
	}
	c.Configure(now, o)
	c.Track(now, server)
	for {
		task, due := c.Next(now)
		if !due {
			if now = now.Add(choice.Samples * choice.Pace); now.After(time.Now().Add(time.Minute)) {
				break
			}
			continue
		}
		rtt := rtts[task.By]
		if task.To != "" {
			rtt = rtts[task.By+task.To]
		}
		c.Done(now, task, choice.Outcome{RTT: rtt})
	}
	c.Decide(now, 100)
	table, _ := c.Table()
	s.workers[0].o.Routes.Set(table)
}

// viaB is a world in which b is the best, c next, and the direct way the last.
var viaB = map[string]time.Duration{
	"self": 300 * time.Millisecond, "b": 5 * time.Millisecond, "c": 30 * time.Millisecond, "selfb": 190 * time.Millisecond, "selfc": 190 * time.Millisecond,
}

// through has a flow pass.
func (s *star) through() {
	s.t.Helper()
	client, server := s.pair()
	say(s.t, client, "ask")
	expectRead(s.t, server, "ask")
	say(s.t, server, "answer")
	expectRead(s.t, client, "answer")
	_ = client.CloseWrite()
	expectEnd(s.t, server, io.EOF)
	server.Close()
	expectEnd(s.t, client, io.EOF)
}

// went holds how many flows went by b and c, and how many at last by another way.
func (s *star) went(what string, b, c, rerouted uint64) {
	s.t.Helper()
	if gotB, gotC, got := s.by("b"), s.by("c"), s.workers[0].count.Rerouted.Load(); gotB != b || gotC != c || got != rerouted {
		s.t.Errorf("%s: %d flows by b, %d by c, %d times another way; want %d, %d, %d", what, gotB, gotC, got, b, c, rerouted)
	}
}

func TestRoutes(t *testing.T) { securely(t, testRoutes) }

func testRoutes(t *testing.T, security config.Security) {
	s := newStar(t, security, nil)
	s.through()
	s.went("nothing is known", 0, 0, 0)
	s.send(s.entry.Destination, true, viaB)
	s.through()
	s.went("b is near", 1, 0, 0)
	s.send(s.entry.Destination, true, map[string]time.Duration{"self": 300 * time.Millisecond, "c": 5 * time.Millisecond, "selfc": 10 * time.Millisecond})
	s.through()
	s.went("c alone reaches it", 1, 1, 0)
	s.settled()
}

// Peers that die: flows go by the next way, as long as it takes, and none fails.
func TestRouteDies(t *testing.T) { securely(t, testRouteDies) }

func testRouteDies(t *testing.T, security config.Security) {
	s := newStar(t, security, nil)
	s.send(s.entry.Destination, true, viaB)
	s.through()
	s.kill("b")
	for range 3 {
		s.through()
	}
	if n := s.by("c"); n != 3 {
		t.Errorf("%d flows by c, want 3", n)
	}
	s.kill("c")
	s.through()
	if n := s.workers[0].count.Refused[trunkproto.NoTrunk].Load(); n != 0 {
		t.Errorf("%d flows were turned away", n)
	}
	s.start("b")
	eventually(t, "b is there again", func() bool {
		up := false
		_ = s.workers[0].ask(func(w *Worker) error { up = !w.pools["b"].down; return nil })
		return up
	})
	s.through()
	if n := s.by("b"); n != 1 {
		t.Errorf("%d flows by b, want 1", n)
	}
	s.settled()
}

// A flow that waits for a trunk until its time is over goes another way: its bytes are still here.
func TestTrunkDoesNotCome(t *testing.T) {
	s := newStar(t, config.Plaintext, func(s *star) { s.connect = 200 * time.Millisecond })
	s.send(s.entry.Destination, true, viaB)
	s.kill("b")
	eventually(t, "b is gone", func() bool {
		down := false
		_ = s.workers[0].ask(func(w *Worker) error { down = w.pools["b"].down; return nil })
		return down
	})
	const hanging = 100 // trunks that are neither accepted nor refused
	change := func(f func(p *pool)) {
		_ = s.workers[0].ask(func(w *Worker) error { f(w.pools["b"]); return nil })
	}
	change(func(p *pool) { p.down, p.opening = false, p.opening+hanging })
	s.through()
	if c, rerouted := s.by("c"), s.workers[0].count.Rerouted.Load(); c != 1 || rerouted != 1 {
		t.Errorf("%d flows by c, %d another way; want 1, 1", c, rerouted)
	}
	change(func(p *pool) {
		if p.opening -= hanging; len(p.waiting) > 0 || !p.down {
			t.Errorf("%d flows wait for a trunk; down: %v", len(p.waiting), p.down)
		}
	})
	s.settled()
}

// Relays that do not let a flow through are passed over, and the server hears what the client has said once.
func TestRouteRefuses(t *testing.T) { securely(t, testRouteRefuses) }

func testRouteRefuses(t *testing.T, security config.Security) {
	s := newStar(t, security, func(s *star) { s.allow["b"] = "192.0.2.0/24" })
	s.send(s.entry.Destination, true, viaB)
	client := s.dial()
	say(t, client, "ask") // may be under way to b before that has refused
	server := s.accept()
	expectRead(t, server, "ask")
	say(t, server, "answer")
	expectRead(t, client, "answer")
	s.went("b refuses", 1, 1, 1)
	reset(t, client)
	expectEnd(t, server, unix.ECONNRESET)

	s.kill("c")
	eventually(t, "c is gone", func() bool {
		down := false
		_ = s.workers[0].ask(func(w *Worker) error { down = w.pools["c"].down; return nil })
		return down
	})
	for range 10 {
		client = s.dial()
		say(t, client, "ask")
		_ = client.CloseWrite()
		server = s.accept()
		expectRead(t, server, "ask")
		expectEnd(t, server, io.EOF)
		server.Close()
		expectEnd(t, client, io.EOF)
	}
	s.settled()
}

// A server that refuses is one that was reached.
func TestServerRefuses(t *testing.T) {
	s := newStar(t, config.Plaintext, nil)
	s.send(s.entry.Destination, true, viaB)
	s.server.Close()
	s.refused()
	s.went("refused", 1, 0, 0)
	s.settled()
}

// A relay in the middle that does not reach the next one is told of.
func TestRouteIsBroken(t *testing.T) {
	s := newStar(t, config.Plaintext, nil)
	s.send(s.entry.Destination, true, map[string]time.Duration{
		"self": 320 * time.Millisecond, "b": 5 * time.Millisecond, "selfb": 300 * time.Millisecond, "selfc": 150 * time.Millisecond, "cb": 150 * time.Millisecond,
	})
	s.through()
	s.went("c does not know b", 1, 1, 1)
	select {
	case got := <-s.workers[0].o.Routes.Broken():
		if want := (plan.Pair{From: "c", To: "b"}); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	default:
		t.Error("nobody was told")
	}
	s.settled()
}

// Clients say where to: the server is asked for, and allow counts.
func TestLearntRoutes(t *testing.T) {
	s := newStar(t, config.Plaintext, func(s *star) { s.entry.Mode, s.entry.Destination = config.Proxy, netip.AddrPort{} })
	ask := func() {
		t.Helper()
		client := s.dial()
		say(t, client, string(trunkproto.AppendProxy(nil, netip.MustParseAddrPort("192.0.2.1:1"), addrOf(s.server)))+"ask")
		server := s.accept()
		expectRead(t, server, "ask")
		reset(t, client)
		expectEnd(t, server, unix.ECONNRESET)
	}
	s.send(netip.MustParseAddrPort("203.0.113.1:1"), false, viaB)
	ask()
	if s.by("b")+s.by("c") != 1 {
		t.Error("nothing is known, and the relay may not go there itself: a peer is to be asked")
	}
	if got := <-s.workers[0].o.Routes.Unknown(); got != addrOf(s.server) {
		t.Errorf("%v was asked for, want %v", got, addrOf(s.server))
	}
	before := s.by("b")
	s.send(addrOf(s.server), false, viaB)
	ask()
	if n := s.by("b"); n != before+1 {
		t.Errorf("%d flows by b, want %d", n, before+1)
	}
	select {
	case got := <-s.workers[0].o.Routes.Unknown():
		t.Errorf("%v was asked for and is known", got)
	default:
	}
	s.settled()
}

// To choose a flow's way costs nothing that is left behind.
func TestChoosingIsCheap(t *testing.T) {
	s := newStar(t, config.Plaintext, nil)
	s.send(s.entry.Destination, true, viaB)
	err := s.workers[0].ask(func(w *Worker) error {
		flow := &split{entry: w.entries[0], server: s.entry.Destination}
		n := testing.AllocsPerRun(100, func() {
			flow.route.tried = 0
			w.chooseRoutes(flow)
		})
		if n != 0 || flow.route.via.String() != "b" {
			t.Errorf("%v allocations, via %q", n, flow.route.via)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
