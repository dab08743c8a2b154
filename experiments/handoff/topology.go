// Package handoff measures the cost of handed-off requests, compared with direct access, a redirect and two proxies: bulk bytes,
// keep-alive requests, a connection per request, time to first byte. Other experiments also use its topology, contenders and
// measures.
package handoff

import (
	"fmt"
	"net/netip"

	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
)

// The VIP of every contender but direct, one per family. Clients reach it through the router; it is an address of the router only
// while a contender needs that (Topology.OwnVIP).
var (
	VIP4 = netip.MustParseAddr("10.9.9.9")
	VIP6 = netip.MustParseAddr("fd09::9")
)

// clientAddresses is large enough for the ports of a minute of TIME_WAIT at full speed.
const clientAddresses = 16

// Topology is a client, a router and surrogates behind it:
//
//	client 10.1.0.16… ── eth0 router eth1 ── 10.2.1.2 s1
//	                                 eth2 ── 10.2.2.2 s2 …
//
// and the same in fd01::/64 and fd02:0:0:n::/64.
type Topology struct {
	Lab        *lab.Lab
	Client     *lab.Host
	Router     *lab.Host
	Surrogates []*lab.Host
	Servers    []*peers.Server
	ClientLink *lab.Link        // from the client to the router
	ClientSide *lab.Interface   // of the router
	ServerSide []*lab.Interface // of the router, one a surrogate
	IPv6       bool

	Front Front // of the current contender
}

// Front is a contender's address for clients.
type Front struct {
	Targets []netip.AddrPort // what they connect to
	Follow  bool             // they must follow a 302
}

// Layout describes a topology. The zero value is that of the experiment.
type Layout struct {
	Surrogates int             // default: 2
	Client     lab.LinkOptions // of the client's link; AtoB is towards the router
	IPv6       bool            // clients use it
}

// Build makes the topology. Each surrogate is an nginx with Debian's settings but no access log.
func Build(s *experiments.Setup, o Layout) *Topology {
	l := s.Lab
	l.T().Helper()
	if o.Surrogates == 0 {
		o.Surrogates = 2
	}
	t := &Topology{Lab: l, Client: l.Host("client"), Router: l.Host("router"), IPv6: o.IPv6}
	t.Router.Forward()
	var addresses []string
	for i := range clientAddresses {
		addresses = append(addresses, fmt.Sprintf("10.1.0.%d/24", 16+i), fmt.Sprintf("fd01::%x/64", 16+i))
	}
	t.ClientLink = l.Link(lab.End{Host: t.Client, Addrs: addresses},
		lab.End{Host: t.Router, Addrs: []string{"10.1.0.1/24", "fd01::1/64"}}, o.Client)
	t.ClientSide = t.ClientLink.B
	for _, via := range []string{"10.1.0.1", "fd01::1"} {
		t.Client.Route("default", via)
	}
	// A client's port may be used again once its TIME_WAIT has outlived a second, as between two hosts with timestamps.
	t.Client.Sysctl("net.ipv4.tcp_tw_reuse", "1")
	t.Client.Sysctl("net.ipv4.ip_local_port_range", "1024 65535")
	t.Router.Sysctl("net.ipv4.ip_local_port_range", "20000 65535") // a proxy's; below are the ports of server legs
	for i := range o.Surrogates {
		t.addSurrogate(i + 1)
		s.Serves(t.Servers[i].Process, t.Servers[i].Version)
	}
	return t
}

func (t *Topology) addSurrogate(n int) {
	h := t.Lab.Host(fmt.Sprintf("s%d", n))
	net4, net6 := fmt.Sprintf("10.2.%d", n), fmt.Sprintf("fd02:0:0:%x:", n)
	side := t.Lab.Link(lab.End{Host: h, Addrs: []string{net4 + ".2/24", net6 + ":2/64"}},
		lab.End{Host: t.Router, Addrs: []string{net4 + ".1/24", net6 + ":1/64"}}, lab.LinkOptions{}).B
	h.Route("default", net4+".1")
	h.Route("default", net6+":1")
	t.Surrogates = append(t.Surrogates, h)
	t.ServerSide = append(t.ServerSide, side)
	t.Servers = append(t.Servers, peers.Nginx(h, peers.NginxOptions{NoAccessLog: true}))
}

// Sources are the client's addresses.
func (t *Topology) Sources() []netip.Addr {
	var list []netip.Addr
	for i := range clientAddresses {
		text := fmt.Sprintf("10.1.0.%d", 16+i)
		if t.IPv6 {
			text = fmt.Sprintf("fd01::%x", 16+i)
		}
		list = append(list, netip.MustParseAddr(text))
	}
	return list
}

// Addresses are those of the surrogates, port 80.
func (t *Topology) Addresses() []netip.AddrPort {
	var list []netip.AddrPort
	for i := range t.Surrogates {
		text := fmt.Sprintf("10.2.%d.2", i+1)
		if t.IPv6 {
			text = fmt.Sprintf("fd02:0:0:%x::2", i+1)
		}
		list = append(list, netip.AddrPortFrom(netip.MustParseAddr(text), 80))
	}
	return list
}

// VIP is the VIP, port 80.
func (t *Topology) VIP() netip.AddrPort {
	if t.IPv6 {
		return netip.AddrPortFrom(VIP6, 80)
	}
	return netip.AddrPortFrom(VIP4, 80)
}

// OwnVIP assigns the VIPs to the router, where ordinary proxies listen on them, or removes them.
func (t *Topology) OwnVIP(own bool) {
	t.Lab.T().Helper()
	lo := t.Router.Interface("lo")
	for _, vip := range []string{VIP4.String() + "/32", VIP6.String() + "/128"} {
		if own {
			lo.Address(vip)
		} else {
			lo.RemoveAddress(vip)
		}
	}
}
