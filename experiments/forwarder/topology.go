package forwarder

import (
	"context"
	"fmt"
	"net"
	"time"

	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
	"baton/openflow"
	"baton/packet"
)

// Topology is two hosts and a switch, with two ways between them:
//
//	client 10.7.1.2 eth0 ── p1 switch p2 ── eth0 10.7.2.2 server
//	client 10.7.3.2 eth1 ── p3 switch p4 ── eth1 10.7.4.2 server
//
// Every host sends by its gateway, whose link address is fixed: that of the switch for contenders that route, that of the other host
// for those that do not look at addresses of the network.
type Topology struct {
	Lab                    *lab.Lab
	Client, Switch, Server *lab.Host
	// Large has the offloads of any veth: a frame is up to 64 KiB of several segments, its checksum left to who needs it. Frames has
	// none: a frame is at most the MTU.
	Large, Frames *Way

	// Of the contender whose turn it is.
	Control   *Control     // nil: it is no OpenFlow switch
	Process   *lab.Process // nil: it has none
	Addressed bool         // the hosts address the switch, not each other
	whole     bool         // it passes no frame but whole ones

	fresh uint64 // flows that were never seen begin here
}

// Way is from the client to the server by two ports of the switch.
type Way struct {
	Near, In, Out, Far *lab.Interface // of the client, the switch, the switch, the server
	InPort, OutPort    openflow.PortNo
	Source, Target     string // addresses of the hosts
	// NearAlias and FarAlias are addresses in the nets of the hosts that nobody has, for entries that put others in their place.
	NearAlias, FarAlias string
	// Sink is an address behind the server's interface that nobody has: its packets are counted there and dropped at once.
	Sink string

	gateways [2]string
	to       packet.MAC // whom the client addresses frames for the sink to
}

// sinkMAC is nobody's.
var sinkMAC = packet.MAC{0x02, 0, 0, 0, 0, 0x99}

// The experiments' types over this topology.
type (
	Turn      = experiments.Turn[*Topology]
	Contender = experiments.Contender[*Topology]
	Measure   = experiments.Measure[*Topology]
)

// Build makes the topology, with an iperf3 server on the server.
func Build(_ context.Context, s *experiments.Setup) (*Topology, error) {
	l := s.Lab
	t := &Topology{Lab: l, Client: l.Host("client"), Switch: l.Host("switch"), Server: l.Host("server")}
	for _, h := range []*lab.Host{t.Client, t.Switch, t.Server} {
		// What is on the links is the load and nothing else.
		h.Sysctl("net.ipv6.conf.all.disable_ipv6", "1")
		h.Sysctl("net.ipv6.conf.default.disable_ipv6", "1")
	}
	t.Switch.Forward()
	t.Large = t.way(1, lab.LinkOptions{})
	t.Frames = t.way(3, lab.LinkOptions{NoOffloads: true})
	server := peers.Iperf3Server(t.Server)
	s.Serves(server.Process, server.Version)
	return t, nil
}

// way makes the way of the ports n and n + 1.
func (t *Topology) way(n int, o lab.LinkOptions) *Way {
	address := func(net, host int) string { return fmt.Sprintf("10.7.%d.%d", net, host) }
	w := &Way{
		InPort: openflow.PortNo(n), OutPort: openflow.PortNo(n + 1), gateways: [2]string{address(n, 1), address(n+1, 1)},
		Source: address(n, 2), Target: address(n+1, 2), Sink: address(n+1, 9),
		NearAlias: address(n, 8), FarAlias: address(n+1, 8),
	}
	near := t.Lab.Link(lab.End{Host: t.Client, Addrs: []string{w.Source + "/24"}},
		lab.End{Host: t.Switch, Name: fmt.Sprintf("p%d", n), Addrs: []string{w.gateways[0] + "/24"}}, o)
	far := t.Lab.Link(lab.End{Host: t.Switch, Name: fmt.Sprintf("p%d", n+1), Addrs: []string{w.gateways[1] + "/24"}},
		lab.End{Host: t.Server, Addrs: []string{w.Target + "/24"}}, o)
	w.Near, w.In, w.Out, w.Far = near.A, near.B, far.A, far.B
	t.Client.Route(address(n+1, 0)+"/24", w.gateways[0])
	t.Server.Route(address(n, 0)+"/24", w.gateways[1])
	t.Switch.Neighbour(w.In, w.Source, w.Near.MAC)
	t.Switch.Neighbour(w.Out, w.Target, w.Far.MAC)
	t.Switch.Neighbour(w.Out, w.Sink, net.HardwareAddr(sinkMAC[:]))
	return w
}

// Ways are both.
func (t *Topology) Ways() []*Way { return []*Way{t.Large, t.Frames} }

// addressed has the hosts address the switch, or one another.
func (t *Topology) addressed(toSwitch bool) {
	t.Addressed = toSwitch
	for _, w := range t.Ways() {
		near, far := w.Far.MAC, w.Near.MAC
		w.to = sinkMAC
		if toSwitch {
			near, far = w.In.MAC, w.Out.MAC
			w.to = packet.MAC(w.In.MAC)
		}
		t.Client.Neighbour(w.Near, w.gateways[0], near)
		t.Server.Neighbour(w.Far, w.gateways[1], far)
	}
}

// patience is how long anything may take that takes no time.
const patience = 20 * time.Second

// passes returns when both ways are open, in both directions.
func (t *Topology) passes(ctx context.Context) error {
	for _, w := range t.Ways() {
		err := lab.Poll(patience, func() error {
			_, err := t.Client.Exec(ctx, "ping", "-n", "-c", "1", "-W", "1", w.Target)
			return err
		})
		if err != nil {
			return fmt.Errorf("the switch does not forward: %w", err)
		}
	}
	return nil
}
