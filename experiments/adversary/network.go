package adversary

import (
	"fmt"
	"net/netip"
	"sync"
	"sync/atomic"

	"baton/experiments/adversary/script"
	"baton/lab"
	"baton/lab/peers"
	"baton/packet"
	"baton/sockdiag"
)

// The contender's addresses. The second one is a plain proxy's.
var (
	handoffVIP = netip.MustParseAddrPort("10.9.9.9:80")
	proxyVIP   = netip.MustParseAddrPort("10.9.9.11:80")
)

// localAddress is a surrogate on the router's own host, which is proxied.
const localAddress = "127.0.0.1:8082"

// network is the place of the experiment. The adversary's host is in the same network as the innocents, and its surrogate beside theirs:
//
//	client 10.1.0.2 ─┐                     ┌ 10.2.1.2 a1 (nginx)   pool a
//	plain  10.1.0.3 ─┤ lan ── eth0 router ─┼ 10.2.2.2 a2           pool a, and at port 81 of p
//	evil 10.1.0.64… ─┘                     ├ 10.2.3.2 b1 (nginx)   pool b
//	                                       ├ 10.2.4.2 b2           pool b, and at port 81 of p
//	                                       └ 10.2.5.2 odd          the adversary's own
//
// plain has no TCP timestamps. What evil sends, and receives, is raw: its addresses from 10.1.0.64 on are no kernel's.
type network struct {
	*lab.Lab
	router, client, plain, evil *lab.Host
	front                       *lab.Interface // the router's, towards the clients
	sites                       []*site
	tags                        []*tagMonitor
	ledger                      *ledger
	census                      *census

	wire     *wire // evil's
	crowd    *crowd
	innerWay *wire // from the odd surrogate's host
	legs     *legWatch
}

// site is a surrogate.
type site struct {
	*lab.Host
	name, pool string
	address    netip.AddrPort
	router     netip.Addr     // as the surrogate sees it
	side, back *lab.Interface // the host's own, and the router's
	server     *peers.Server  // nginx; nil: ours

	diagnosis sync.Mutex
	diag      *sockdiag.Conn
}

// The addresses of the adversary's clients.
const (
	firstEvil = 64
	evils     = 62
)

func evilAddress(i int) netip.Addr {
	return netip.AddrFrom4([4]byte{10, 1, 0, byte(firstEvil + i%evils)})
}

// build creates the network, its servers and the adversary's sockets. Errors end the lab's test.
func build(l *lab.Lab) *network {
	n := &network{Lab: l, ledger: &ledger{}, census: &census{}}
	n.router = l.Host("router")
	n.router.Forward()
	n.buildClients()
	for i, s := range []*site{
		{name: "a1", pool: "a"}, {name: "a2", pool: "a"}, {name: "b1", pool: "b"}, {name: "b2", pool: "b"}, {name: "odd", pool: "odd"},
	} {
		n.addSite(i+1, s)
	}
	serve(n, n.router, localAddress, &origin{name: "near", pool: "l", ledger: n.ledger})
	n.wire = newWire(l, n.evil.Interface("eth0"), packet.MAC(n.front.MAC))
	n.crowd = newCrowd(n)
	odd := n.site("odd")
	n.innerWay = newWire(l, odd.side, packet.MAC(odd.back.MAC))
	n.legs = watchLegs(odd)
	for _, s := range n.sites {
		n.tags = append(n.tags, monitorTags(l, s.side))
	}
	return n
}

func (n *network) buildClients() {
	lan := n.Host("lan")
	bridge := lan.Bridge("br0")
	attach := func(h *lab.Host, addresses ...string) *lab.Interface {
		k := n.Link(lab.End{Host: h, Addrs: addresses}, lab.End{Host: lan}, lab.LinkOptions{})
		k.B.Attach(bridge)
		return k.A
	}
	n.front = attach(n.router, "10.1.0.1/24")
	for i, h := range []struct {
		at   **lab.Host
		name string
	}{{&n.client, "client"}, {&n.plain, "plain"}, {&n.evil, "evil"}} {
		*h.at = n.Host(h.name)
		attach(*h.at, fmt.Sprintf("10.1.0.%d/24", 2+i))
		(*h.at).Route("default", "10.1.0.1")
		(*h.at).Sysctl("net.ipv4.tcp_max_tw_buckets", "0") // a closed connection's port is free at once
	}
	n.plain.Sysctl("net.ipv4.tcp_timestamps", "0")
	for i := range evils {
		n.router.Neighbour(n.front, evilAddress(i).String(), n.evil.Interface("eth0").MAC)
	}
}

func (n *network) addSite(number int, s *site) {
	s.Host = n.Host(s.name)
	s.router = netip.AddrFrom4([4]byte{10, 2, byte(number), 1})
	s.address = netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 2, byte(number), 2}), 80)
	k := n.Link(lab.End{Host: s.Host, Addrs: []string{s.address.Addr().String() + "/24"}},
		lab.End{Host: n.router, Addrs: []string{s.router.String() + "/24"}}, lab.LinkOptions{})
	s.side, s.back = k.A, k.B
	s.Route("default", s.router.String())
	err := s.Do(func() (err error) {
		s.diag, err = sockdiag.Open()
		return err
	})
	if err != nil {
		n.T().Fatalf("adversary: %s: %v", s.name, err)
	}
	n.T().Cleanup(func() { s.diag.Close() })
	if number%2 == 1 && s.name != "odd" {
		s.server = nginx(s.Host, s.name, s.pool)
	} else {
		serve(n, s.Host, ":80", &origin{name: s.name, pool: s.pool, ledger: n.ledger})
		if s.name != "odd" {
			serve(n, s.Host, ":81", &origin{name: "p" + s.name, pool: "p", ledger: n.ledger})
		}
	}
	n.sites = append(n.sites, s)
}

func (n *network) site(name string) *site {
	for _, s := range n.sites {
		if s.name == name {
			return s
		}
	}
	return nil
}

// firstOwn is the first port of the router's own sockets (net.ipv4.ip_local_port_range): legs use ports below.
const firstOwn = 32768

// connections calls f for each connection between the router and a port of a surrogate.
func (s *site) connections(port uint16, visit func(*sockdiag.TCP)) error {
	s.diagnosis.Lock()
	defer s.diagnosis.Unlock()
	return s.diag.ListTCP(sockdiag.Filter{States: sockdiag.In(sockdiag.Established, sockdiag.CloseWait)}, func(c *sockdiag.TCP) {
		if c.Local.Port() == port && c.Remote.Addr().Unmap() == s.router {
			visit(c)
		}
	})
}

// legPorts are the router's ends of the connections that a surrogate has.
func (s *site) legPorts() (ports []netip.AddrPort, err error) {
	err = s.connections(s.address.Port(), func(c *sockdiag.TCP) {
		ports = append(ports, netip.AddrPortFrom(c.Remote.Addr().Unmap(), c.Remote.Port()))
	})
	return ports, err
}

// forget ends a surrogate's connections with a contender that is gone.
func (s *site) forget() error {
	var sockets []sockdiag.Socket
	for _, port := range []uint16{80, 81} {
		if err := s.connections(port, func(c *sockdiag.TCP) { sockets = append(sockets, c.Socket) }); err != nil {
			return err
		}
	}
	s.diagnosis.Lock()
	defer s.diagnosis.Unlock()
	s.diag.Destroy(sockets) // it may have ended meanwhile
	return nil
}

// census maps each kind to the innocents' current sessions.
type census struct {
	mu   sync.Mutex
	live map[script.Victim][]netip.AddrPort
}

func (c *census) enter(v script.Victim, a netip.AddrPort) (leave func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.live == nil {
		c.live = map[script.Victim][]netip.AddrPort{}
	}
	c.live[v] = append(c.live[v], a)
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		for i, other := range c.live[v] {
			if other == a {
				c.live[v] = append(c.live[v][:i:i], c.live[v][i+1:]...)
				return
			}
		}
	}
}

// nth is one of them, or none.
func (c *census) nth(v script.Victim, n uint32) (netip.AddrPort, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.live[v]) == 0 {
		return netip.AddrPort{}, false
	}
	return c.live[v][int(n%uint32(len(c.live[v])))], true
}

// Kind is a violated invariant.
type Kind string

// The kinds of findings.
const (
	Wrong   Kind = "wrong"   // an innocent's response is not its own, incomplete, or from another pool
	Hung    Kind = "hung"    // it did not come in time
	Failed  Kind = "failed"  // it was refused, cut off, or an error
	Down    Kind = "down"    // an innocent surrogate is down
	Legs    Kind = "legs"    // sessions or legs are leaked, lost, or miscounted
	Reuse   Kind = "reuse"   // a connection bound to its client, or with ambiguous messages, served another
	Access  Kind = "access"  // a request reached a surrogate without a route to it
	PathMTU Kind = "mtu"     // someone else has changed a surrogate's path MTU
	Window  Kind = "window"  // a surrogate assumes a window that no client offers
	Tag     Kind = "vlan"    // a frame of another VLAN was accepted
	Process Kind = "process" // the process ended, grew, or its counters do not add up
)

// Finding is a broken invariant.
type Finding struct {
	Kind Kind
	What string
}

// ledger collects findings and counts requests.
type ledger struct {
	requests, scripts, segments atomic.Int64
	longest                     atomic.Int64 // of a request, nanoseconds

	mu     sync.Mutex
	found  []Finding
	counts map[Kind]int
	liars  map[string]bool // tokens of clients that send two versions with the same numbers
}

// mostKept findings are kept in full; all are counted.
const mostKept = 200

func (l *ledger) add(k Kind, format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.counts == nil {
		l.counts = map[Kind]int{}
	}
	l.counts[k]++
	if len(l.found) < mostKept {
		l.found = append(l.found, Finding{k, fmt.Sprintf(format, args...)})
	}
}

// lies records a client that sends two versions with the same numbers: it may reach anything on its own surrogate
// (docs/security.md).
func (l *ledger) lies(token string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.liars == nil || len(l.liars) > mostTokens {
		l.liars = map[string]bool{}
	}
	l.liars[token] = true
}

func (l *ledger) liar(token string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.liars[token]
}

// take returns the findings since the last call, and the counts.
func (l *ledger) take() ([]Finding, map[Kind]int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	found, counts := l.found, l.counts
	l.found, l.counts = nil, nil
	return found, counts
}
