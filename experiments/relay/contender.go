package relay

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
)

// Turn is a contender's turn on the path.
type Turn = experiments.Turn[*Path]

// Contender is one way for a client to reach the server. Its Start sets the path's front.
type Contender = experiments.Contender[*Path]

// Measure is what is asked of every contender.
type Measure = experiments.Measure[*Path]

// at has clients connect to an address.
func at(name, is string, address func(*Path) netip.AddrPort) Contender {
	return Contender{Name: name, Is: is, Start: func(_ context.Context, t *Turn) error {
		t.Topology.front = front{target: address(t.Topology)}
		return nil
	}}
}

func endToEnd() Contender {
	return at("e2e", "one connection over the public Internet", (*Path).publicSite)
}

func endToEndBBR() Contender {
	c := at("e2e-bbr", "the same; the server sends by BBR", (*Path).publicSite)
	return onHosts(c, "bbr", func(p *Path) []*lab.Host { return []*lab.Host{p.Server} })
}

// routed is the paper's "Cloud NoSplit".
func routed() Contender {
	return at("routed", "one connection; the relays only route", (*Path).site)
}

// onHosts has some hosts use a congestion control while a contender has its turn.
func onHosts(c Contender, congestion string, hosts func(*Path) []*lab.Host) Contender {
	start := c.Start
	c.Start = func(ctx context.Context, t *Turn) error {
		for _, h := range hosts(t.Topology) {
			h.CongestionControl(congestion)
			t.OnEnd(func() error { h.CongestionControl("cubic"); return nil })
		}
		return start(ctx, t)
	}
	return c
}

// ideal is no contender, but what all are compared with.
func ideal() Contender {
	return Contender{Name: "ideal", Is: "the paper's ideal pipe (section 3.1): a round trip, and the bytes at the rate of the client's access; computed",
		Start: func(_ context.Context, t *Turn) error {
			t.Topology.front = front{ideal: true}
			return nil
		}}
}

// chained is a program that forwards, once on every relay.
func chained(name, is string, forward func(*lab.Host, peers.Forward) *peers.Server) Contender {
	return Contender{Name: name, Is: is, Start: func(_ context.Context, t *Turn) error {
		p := t.Topology
		to := p.site().String()
		for i := len(p.Relays) - 1; i >= 0; i-- { // each is ready when the server answers through it
			s := forward(p.Relays[i], peers.Forward{Port: relayPort, To: to})
			t.Runs(s.Process, s.Version)
			t.OnEnd(func() error { return s.Stop(time.Second) })
			to = netip.AddrPortFrom(p.address(i), relayPort).String()
		}
		p.front = front{target: netip.AddrPortFrom(p.address(0), relayPort)}
		return nil
	}}
}

// bbr is a contender whose relays' hosts send by BBR, towards the client too.
func bbr(name string, c Contender) Contender {
	c.Is = fmt.Sprintf("%s; the relays' hosts have BBR", c.Name)
	c.Name = name
	return onHosts(c, "bbr", func(p *Path) []*lab.Host { return p.Relays })
}

func others() []Contender {
	return []Contender{
		chained("ssh", "`ssh -L` on both relays, which is the paper's baseline", peers.SSHForward),
		haproxy(),
		chained("nginx", "nginx on both relays, its stream module", func(h *lab.Host, f peers.Forward) *peers.Server {
			return peers.NginxForward(h, peers.ForwardOptions{Forwards: []peers.Forward{f}})
		}),
	}
}

func haproxy() Contender {
	return chained("haproxy", "HAProxy on both relays, TCP mode, splicing", func(h *lab.Host, f peers.Forward) *peers.Server {
		return peers.HAProxyForward(h, peers.ForwardOptions{Forwards: []peers.Forward{f}})
	})
}
