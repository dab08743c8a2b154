package relay

import (
	"fmt"
	"net/netip"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

// Path is a client and a server far from each other, and two ways between them:
//
//	client 10.1.0.1 ── 10.1.0.2 relay-1 10.2.0.1 ── 10.2.0.2 relay-2 10.3.0.1 ── 10.3.0.2 server
//	client 10.9.0.1 ────────────────── the public Internet ───────────────────── 10.9.0.2 server
//
// or with a third relay between the two. Every relay routes as well.
type Path struct {
	Client, Server *lab.Host
	Relays         []*lab.Host // from the client on
	Legs           []*lab.Link // of the way over the relays, from the client on; A is the client's side
	Public         *lab.Link

	route     route // that was set
	slow      bool  // the client is, whatever its access
	front     front
	downloads downloads // of the turn; so the next

	shares shares
}

// front is what a contender shows to clients.
type front struct {
	target netip.AddrPort // what they connect to
	ideal  bool           // nothing: it is arithmetic
}

// leg is a part of the way.
type leg struct {
	rtt  time.Duration
	rate emulator.Rate
	loss emulator.Share // each way
}

// route is the legs over the relays, from the client on, and what the public Internet is instead.
type route struct {
	legs   []leg
	public leg
}

// Of Pied Piper's section 3.3: San Francisco - Oregon - Mumbai - Bangalore. Its machines are small ones of a cloud, with up to 2 Gbit/s;
// between them it finds an order of magnitude less loss than on the public Internet (section 3.1). What the losses are, and the rate of the
// client's access, it does not say. With one packet in 10,000 the public Internet makes large downloads end to end about as much longer as in
// figure 8 (up to three times); with one in 1,000 it would be 25 times. A part of the public Internet has its part of the losses.
const (
	clientRTT  = 25 * time.Millisecond
	middleRTT  = 215 * time.Millisecond
	serverRTT  = 25 * time.Millisecond
	publicLoss = 0.0001
	cloudLoss  = publicLoss / 10
	endLoss    = publicLoss / 10 // as clientRTT is a tenth of the whole

	cloudRate emulator.Rate = 1e9
)

// twoRelays is the way with a rate of the client's access, whichever way it takes.
func twoRelays(access emulator.Rate) route {
	return route{
		legs:   []leg{{clientRTT, access, endLoss}, {middleRTT, cloudRate, cloudLoss}, {serverRTT, cloudRate, endLoss}},
		public: leg{clientRTT + middleRTT + serverRTT, access, publicLoss},
	}
}

// rtt is the whole way's.
func (w route) rtt() (sum time.Duration) {
	for _, l := range w.legs {
		sum += l.rtt
	}
	return sum
}

func (l leg) shape() emulator.Shape {
	return emulator.Shape{Rate: l.rate, Delay: l.rtt / 2, Loss: l.loss}
}

// set gives the path's links their shapes.
func (p *Path) set(w route) {
	p.route = w
	for i, l := range w.legs {
		p.Legs[i].Set(l.shape(), l.shape())
	}
	p.Public.Set(w.public.shape(), w.public.shape())
}

// window is how large the windows of all hosts may become: more than twice what 1 Gbit/s has under way over the whole path.
const window = "4096 131072 67108864"

// build makes a path with so many relays.
func build(s *experiments.Setup, relays int) *Path {
	l := s.Lab
	p := &Path{Client: l.Host("client"), Server: l.Host("server")}
	nodes := []*lab.Host{p.Client}
	for i := range relays {
		h := l.Host(fmt.Sprintf("relay-%d", i+1))
		h.Forward()
		p.Relays = append(p.Relays, h)
		nodes = append(nodes, h)
	}
	nodes = append(nodes, p.Server)
	join := func(a, b *lab.Host, net int) *lab.Link {
		left, right := fmt.Sprintf("10.%d.0.1", net), fmt.Sprintf("10.%d.0.2", net)
		k := l.Link(lab.End{Host: a, Addrs: []string{left + "/24"}}, lab.End{Host: b, Addrs: []string{right + "/24"}}, lab.LinkOptions{Emulated: true})
		a.Neighbour(k.A, right, k.B.MAC) // a question for it would take a round trip
		b.Neighbour(k.B, left, k.A.MAC)
		return k
	}
	for i := range nodes[1:] {
		p.Legs = append(p.Legs, join(nodes[i], nodes[i+1], i+1))
	}
	p.Public = join(p.Client, p.Server, 9)
	for i, h := range nodes {
		for n := 1; n < len(nodes); n++ {
			switch {
			case n < i: // behind the leg to the left
				h.Route(fmt.Sprintf("10.%d.0.0/24", n), fmt.Sprintf("10.%d.0.1", i))
			case n > i+1:
				h.Route(fmt.Sprintf("10.%d.0.0/24", n), fmt.Sprintf("10.%d.0.2", i+1))
			}
		}
		h.Sysctl("net.ipv4.tcp_rmem", window)
		h.Sysctl("net.ipv4.tcp_wmem", window)
		h.Sysctl("net.ipv4.tcp_no_metrics_save", "1") // or a contender would begin with what the one before has found
		h.CongestionControl("cubic")
	}
	server := peers.Nginx(p.Server, peers.NginxOptions{NoAccessLog: true})
	s.Serves(server.Process, server.Version)
	return p
}

// Where contenders listen, and where the site is.
const (
	relayPort = 8080
	trunkPort = 7000
	sitePort  = 80
)

// address is that of the i-th relay, from 0, or of the server behind the last one, as those before it reach it.
func (p *Path) address(i int) netip.Addr { return netip.AddrFrom4([4]byte{10, byte(i + 1), 0, 2}) }

// site is the server over the relays.
func (p *Path) site() netip.AddrPort { return netip.AddrPortFrom(p.address(len(p.Relays)), sitePort) }

// publicSite is the server over the public Internet.
func (p *Path) publicSite() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 9, 0, 2}), sitePort)
}
