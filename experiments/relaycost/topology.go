package relaycost

import (
	"fmt"
	"net/netip"

	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
)

// Topology is a client, a relay and a server, joined by veth links:
//
//	client 10.1.0.16… ── 10.1.0.1 relay 10.2.0.1 ── 10.2.0.2 server
//
// The server has nginx (port 80) and iperf3 (port 5201). Contenders listen on the same ports of the relay.
type Topology struct {
	Client, Relay, Server *lab.Host

	Front netip.Addr // whom clients connect to, of the contender whose turn it is
	first firstBytes
	idle  idleFlows
}

const (
	relayAddress  = "10.1.0.1"
	serverAddress = "10.2.0.2"

	web, stream = 80, 5201

	// clientAddresses are many, so that a minute of TIME_WAIT at full speed finds ports enough.
	clientAddresses = 16
)

// Build makes the topology, with connections at nginx for so many flows.
func build(s *experiments.Setup, nginx peers.NginxOptions) *Topology {
	l := s.Lab
	t := &Topology{Client: l.Host("client"), Relay: l.Host("relay"), Server: l.Host("server")}
	t.Relay.Forward() // for the contender that is no relay
	var addresses []string
	for i := range clientAddresses {
		addresses = append(addresses, fmt.Sprintf("10.1.0.%d/24", 16+i))
	}
	l.Link(lab.End{Host: t.Client, Addrs: addresses}, lab.End{Host: t.Relay, Addrs: []string{relayAddress + "/24"}}, lab.LinkOptions{})
	l.Link(lab.End{Host: t.Relay, Addrs: []string{"10.2.0.1/24"}}, lab.End{Host: t.Server, Addrs: []string{serverAddress + "/24"}}, lab.LinkOptions{})
	t.Client.Route("default", relayAddress)
	t.Server.Route("default", "10.2.0.1")
	for _, h := range []*lab.Host{t.Client, t.Relay, t.Server} {
		h.CongestionControl("cubic") // without fq, BBR's pacing is a timer for each burst, which costs more than all the rest
	}
	for _, h := range []*lab.Host{t.Client, t.Relay} {
		// A port may be used again once its TIME_WAIT has outlived a second, as between two hosts with timestamps.
		h.Sysctl("net.ipv4.tcp_tw_reuse", "1")
		h.Sysctl("net.ipv4.ip_local_port_range", "1024 65535")
	}
	server := peers.Nginx(t.Server, nginx)
	s.Serves(server.Process, server.Version)
	sender := peers.Iperf3Server(t.Server)
	s.Serves(sender.Process, sender.Version)
	return t
}

// sources are the client's addresses.
func (t *Topology) sources() []netip.Addr {
	var list []netip.Addr
	for i := range clientAddresses {
		list = append(list, netip.AddrFrom4([4]byte{10, 1, 0, byte(16 + i)}))
	}
	return list
}

// target is what clients connect to for the site.
func (t *Topology) target() netip.AddrPort { return netip.AddrPortFrom(t.Front, web) }

// forwards are what a relay listens for.
func forwards() []peers.Forward {
	return []peers.Forward{{Port: web, To: fmt.Sprintf("%s:%d", serverAddress, web)}, {Port: stream, To: fmt.Sprintf("%s:%d", serverAddress, stream)}}
}
