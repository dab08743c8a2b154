package worker

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/sys/unix"

	"baton/relay/config"
	"baton/relay/secure/securetest"
	"baton/relay/trunkproto"
)

var secret = config.Credentials{Security: config.Plaintext, Secret: []byte("0123456789abcdef0123456789abcdef")}

// chain is relays in a row: an entry at the first, the last one next to the server.
type chain struct {
	relay
	hops           [][]*Worker
	trunkListeners []netip.AddrPort      // of the hops
	authority      *securetest.Authority // of TLS
}

// securely runs a test with each kind of trunks.
func securely(t *testing.T, test func(t *testing.T, security config.Security)) {
	for _, security := range []config.Security{config.Plaintext, config.TLS} {
		t.Run(string(security), func(t *testing.T) { test(t, security) })
	}
}

func newChain(t *testing.T, hops int, change func(hop int, cfg *config.Config)) *chain {
	t.Helper()
	return newChainOf(t, config.Plaintext, hops, change)
}

// newChainOf makes relays r1, r2, ... with trunks from each to the next.
func newChainOf(t testing.TB, security config.Security, hops int, change func(hop int, cfg *config.Config)) *chain {
	t.Helper()
	c := &chain{relay: relay{t: t, server: listenTCP(t)}, hops: make([][]*Worker, hops), trunkListeners: make([]netip.AddrPort, hops)}
	credentials := func(string) config.Credentials { return secret }
	if security == config.TLS {
		c.authority = securetest.NewAuthority(t)
		credentials = func(name string) config.Credentials {
			return c.authority.Issue(t, securetest.Certificate{Names: []string{name}})
		}
	}
	c.entry = config.Entry{Name: "e", Mode: config.Plain, Listen: reservePort(t), Destination: addrOf(c.server), ClientAddress: config.Hidden}
	var peers []config.Peer // behind the relay at hand
	for hop := hops; hop > 0; hop-- {
		cfg := defaults()
		cfg.Name = fmt.Sprintf("r%d", hop)
		cfg.Timeouts.Header = soon
		cfg.Allow = []config.Allow{{Prefix: netip.MustParsePrefix("127.0.0.0/8")}}
		own := credentials(cfg.Name)
		cfg.Peers = peers
		for i := range cfg.Peers {
			cfg.Peers[i].Credentials = own
		}
		at := reservePort(t)
		cfg.Trunks = &config.Trunks{Listen: []netip.AddrPort{at}, Credentials: own, Waiting: 1000}
		if change != nil {
			change(hop, cfg)
		}
		for _, p := range cfg.Peers { // the one behind it
			c.entry.Via = append([]string{p.Name}, c.entry.Via...)
		}
		workers := run(t, 2, cfg)
		c.hops[hop-1], c.trunkListeners[hop-1] = workers, at
		c.workers = append(c.workers, workers...)
		for _, w := range workers {
			if err := w.ListenTrunks(at, cfg.Trunks); err != nil {
				t.Fatal(err)
			}
		}
		peers = []config.Peer{{
			Name: cfg.Name, Address: at, Ready: config.Ready{Min: 4, Max: 64, Age: time.Minute, Probe: 15 * time.Second},
		}}
	}
	c.open(c.hops[0])
	return c
}

// ready waits until the first relay has trunks.
func (c *chain) ready() {
	c.t.Helper()
	for _, w := range c.hops[0] {
		eventually(c.t, "trunks are ready", func() bool {
			var n int64
			for _, p := range w.pools {
				n += p.count.Ready.Load()
			}
			return n > 0
		})
	}
}

func (c *chain) sum(count func(*Worker) uint64) (n uint64) {
	for _, w := range c.workers {
		n += count(w)
	}
	return n
}

// The ends of flows are what they are without trunks, whatever the number of relays.
func TestChains(t *testing.T) { securely(t, testChains) }

func testChains(t *testing.T, security config.Security) {
	for hops := 1; hops <= 3; hops++ {
		t.Run(fmt.Sprintf("%d relays", hops), func(t *testing.T) {
			c := newChainOf(t, security, hops, nil)
			if hops > 1 {
				c.ready()
			}
			client, server := c.pair()
			say(t, client, "ask")
			expectRead(t, server, "ask")
			say(t, server, "answer")
			expectRead(t, client, "answer")
			_ = client.CloseWrite()
			expectEnd(t, server, io.EOF)
			say(t, server, "late answer")
			expectRead(t, client, "late answer")
			server.Close()
			expectEnd(t, client, io.EOF)
			client.Close()
			c.settled()

			client, server = c.pair()
			reset(t, server)
			expectEnd(t, client, unix.ECONNRESET)
			client, server = c.pair()
			say(t, client, "x")
			expectRead(t, server, "x")
			reset(t, client)
			expectEnd(t, server, unix.ECONNRESET)
			c.settled()

			refusals := func() uint64 {
				return c.sum(func(w *Worker) uint64 { return w.count.Refused[trunkproto.Refused].Load() })
			}
			before := refusals() // a server that resets at once may look so
			c.server.Close()
			c.refused()
			c.settled()
			if n := refusals() - before; n != uint64(hops) {
				t.Errorf("%d relays have counted the refusal, want %d", n, hops)
			}
		})
	}
}

// Bytes of all sizes over three relays arrive as they were sent.
func TestChainOfManyFlows(t *testing.T) { securely(t, testChainOfManyFlows) }

func testChainOfManyFlows(t *testing.T, security config.Security) {
	newChainOf(t, security, 3, nil).echoes(32, 10)
}

// echoes has clients send to a server that answers the same, all at once.
func (c *chain) echoes(clients, times int) {
	c.t.Helper()
	_ = c.server.SetDeadline(time.Time{})
	var servers sync.WaitGroup
	servers.Go(func() {
		for {
			s, err := c.server.AcceptTCP()
			if err != nil {
				return
			}
			servers.Go(func() {
				defer s.Close()
				_ = s.SetDeadline(time.Now().Add(time.Minute))
				if _, err := io.Copy(s, struct{ io.Reader }{s}); err == nil {
					_ = s.CloseWrite()
				}
			})
		}
	})
	var running errgroup.Group
	for i := range clients {
		running.Go(func() error {
			random := rand.New(rand.NewPCG(8, uint64(i)))
			for range times {
				if err := echo(c.t.Context(), c.entry.Listen, random); err != nil {
					return fmt.Errorf("client %d: %w", i, err)
				}
			}
			return nil
		})
	}
	if err := running.Wait(); err != nil {
		c.t.Error(err)
	}
	c.server.Close()
	servers.Wait()
	c.settled()
}

// What a relay may not do it says: the client is reset.
func TestRejected(t *testing.T) { securely(t, testRejected) }

func testRejected(t *testing.T, security config.Security) {
	others := securetest.NewAuthority(t).Issue(t, securetest.Certificate{Names: []string{"r1", "r2"}})
	for _, tt := range []struct {
		name   string
		change func(hop int, cfg *config.Config)
		want   trunkproto.Status
	}{
		{"not on the last relay's list", func(hop int, cfg *config.Config) {
			if hop == 2 {
				cfg.Allow = []config.Allow{{Prefix: netip.MustParsePrefix("192.0.2.0/24")}}
			}
		}, trunkproto.NotAllowed},
		{"wrong secret or certificate", func(hop int, cfg *config.Config) {
			if hop == 2 && security == config.Plaintext {
				cfg.Trunks.Credentials.Secret = []byte("another secret, of 32 bytes too!")
			}
			if hop == 2 && security == config.TLS {
				cfg.Trunks.Credentials = others
			}
		}, map[config.Security]trunkproto.Status{config.Plaintext: trunkproto.BadHeader, config.TLS: trunkproto.NoTrunk}[security]},
		{"another name", func(hop int, cfg *config.Config) {
			if hop == 2 {
				cfg.Name = "someone-else"
			}
			if hop == 1 {
				cfg.Peers[0].Name = "r2"
			}
		}, trunkproto.NoSuchRelay},
		{"a peer by a wrong name", func(hop int, cfg *config.Config) {
			if hop == 1 {
				cfg.Peers[0].Name = "r3"
			}
		}, map[config.Security]trunkproto.Status{config.Plaintext: trunkproto.NoSuchRelay, config.TLS: trunkproto.NoTrunk}[security]},
		{"nobody there", func(hop int, cfg *config.Config) {
			if hop == 1 {
				cfg.Peers[0].Address = netip.MustParseAddrPort("127.0.0.1:1")
			}
		}, trunkproto.NoTrunk},
		{"no relay there", func(hop int, cfg *config.Config) {
			if hop == 1 {
				cfg.Peers[0].Address = stranger
			}
		}, trunkproto.NoTrunk},
	} {
		t.Run(tt.name, func(t *testing.T) {
			l := listenTCP(t)
			stranger = addrOf(l)
			go func() {
				for {
					s, err := l.Accept()
					if err != nil {
						return
					}
					_, _ = io.WriteString(s, "220 mail.example ESMTP\r\n")
				}
			}()
			c := newChainOf(t, security, 2, tt.change)
			c.refused()
			c.settled()
			var n uint64
			for _, w := range c.hops[0] {
				n += w.count.Refused[tt.want].Load()
			}
			if n != 1 {
				t.Errorf("%d flows were turned away as %v, want 1", n, tt.want)
			}
		})
	}
}

var stranger netip.AddrPort

// A trunk that died while it waited is not used; one that dies as it is used, without that its peer has heard a byte, is made good
// by another one, and the server hears the client's bytes once.
func TestStaleTrunks(t *testing.T) { securely(t, testStaleTrunks) }

func testStaleTrunks(t *testing.T, security config.Security) {
	var (
		mu     sync.Mutex
		hellos []net.Conn
	)
	middle := listenTCP(t) // in front of the second relay: what is between them may forget connections
	c := newChainOf(t, security, 2, func(hop int, cfg *config.Config) {
		if hop == 1 {
			target := cfg.Peers[0].Address.String()
			cfg.Peers[0].Address = addrOf(middle)
			go func() {
				for {
					near, err := middle.Accept()
					if err != nil {
						return
					}
					far, err := net.Dial("tcp", target)
					if err != nil {
						near.Close()
						continue
					}
					mu.Lock()
					hellos = append(hellos, near)
					mu.Unlock()
					go func() { _, _ = io.Copy(far, near); far.(*net.TCPConn).CloseWrite() }()
					go func() { _, _ = io.Copy(near, far); near.(*net.TCPConn).CloseWrite() }()
				}
			}()
		}
	})
	c.ready()
	for round := range 5 {
		mu.Lock()
		for _, near := range hellos { // all trunks of that moment
			_ = near.(*net.TCPConn).SetLinger(0)
			near.Close()
		}
		hellos = nil
		mu.Unlock()
		client, server := c.pair()
		text := bytes.Repeat([]byte{byte('a' + round)}, 1000)
		say(t, client, string(text))
		expectRead(t, server, string(text))
		client.Close()
		expectEnd(t, server, io.EOF)
		server.Close()
	}
	c.settled()
	dead := c.sum(func(w *Worker) (n uint64) {
		for _, p := range w.pools {
			n += p.count.Stale.Load() + p.count.Replayed.Load()
		}
		return n
	})
	if dead == 0 {
		t.Error("no trunk was found dead: nothing was tested")
	}
}

// A trunk whose FIN comes with its hello does not wait for a flow.
func TestTrunkThatEndsWithItsHello(t *testing.T) {
	l := listenTCP(t)
	peer := make(chan struct{}, 1000) // a value for each trunk that has ended
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			hello := trunkproto.NewHello([trunkproto.NonceSize]byte{1})
			_, _ = c.Write(hello[:])
			c.Close()
			peer <- struct{}{}
		}
	}()
	cfg := defaults()
	cfg.Name = "r1"
	ready := config.Ready{Min: 1, Max: 1, Age: time.Hour, Probe: time.Minute}
	cfg.Peers = []config.Peer{{Name: "r2", Address: addrOf(l), Credentials: secret, Ready: ready}}
	w := run(t, 1, cfg)[0]
	err := w.ask(func(w *Worker) error {
		for len(peer) > 0 {
			<-peer
		}
		err := w.pools["r2"].open(w)
		<-peer // all is there before the worker looks
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(soon); ; time.Sleep(time.Millisecond) {
		var left int
		if err := w.ask(func(w *Worker) error { left = len(w.pools["r2"].ready); return nil }); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("%d trunks wait, and their peer has none", left)
		}
	}
}
