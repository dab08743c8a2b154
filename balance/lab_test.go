package balance

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"

	"baton/lab"
	"baton/lab/peers"
)

// planes are what can forward the packets; each case is tested on all.
var planes = []plane{
	{"ovs", "datapath: ovs\nmethod: hash\n", false},
	{"baton", "datapath: baton\nmethod: round-robin\n", true},
}

type plane struct {
	name   string
	config string // of the balance
	exact  bool   // round-robin: each link has as many flows as the others
}

// everywhere runs a case on each data plane, on a network with so many links.
func everywhere(t *testing.T, links int, run func(t *testing.T, n *network, config string, exact bool), more ...plane) {
	t.Parallel()
	for _, p := range append(planes, more...) {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			n := newNetwork(t, links)
			if strings.HasPrefix(p.name, "ovs") {
				n.vswitch = peers.OpenVSwitch(n.host, peers.OpenVSwitchOptions{Bridge: "other0"})
			}
			run(t, n, p.config, p.exact)
		})
	}
}

// spreads requires that flows have each of these addresses of the host's; with nil, that they are answered. Open vSwitch's cache follows its
// tables a little later: a flow that begins meanwhile has the link of before, or changes it.
func (n *network) spreads(what string, exact bool, want []string, one func() (string, error)) {
	n.t.Helper()
	if exact {
		if err := spread(exact, want, one); err != nil {
			n.t.Fatalf("%s: %v\n%s", what, err, n.picture())
		}
		return
	}
	lab.Eventually(n.t, soon, func() error {
		if err := spread(exact, want, one); err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		return nil
	})
}

// spread begins flows and counts them by the host's address.
func spread(exact bool, want []string, one func() (string, error)) error {
	const each = 4
	count := make(map[string]int)
	for i := 0; i < each*max(len(want), 1) || !exact && i < 200 && len(count) < len(want); i++ {
		from, err := one()
		if err != nil {
			return fmt.Errorf("flow %d: %w", i, err)
		}
		count[from]++
	}
	if want == nil {
		return nil
	}
	for from, flows := range count {
		if !slices.Contains(want, from) || exact && flows != each {
			return fmt.Errorf("%d flows from %s: %v, want %v", flows, from, count, want)
		}
	}
	if len(count) != len(want) {
		return fmt.Errorf("%v, want some from each of %v", count, want)
	}
	return nil
}

// from starts a TCP flow to an address, and returns the source that the server saw.
func (n *network) from(address string) func() (string, error) {
	return func() (string, error) {
		f, err := n.dial(address)
		if err != nil {
			return "", err
		}
		return f.from, errors.Join(f.try(), f.conn.Close())
	}
}

// TestSpread: what applications do, on a host with all links up.
func TestSpread(t *testing.T) {
	everywhere(t, 3, func(t *testing.T, n *network, config string, exact bool) {
		n.echoAddress(n.host, sshPort)
		vpn := n.vpn()
		before := n.settled()
		old := n.flow(server4) // from before, by the first link
		inbound := n.inbound(0)
		b := n.start(config + n.linksText("", ", resolvers: ["+resolver4+"]") + `
rules:
  - {name: prefix, to: [` + other4 + `/32], links: [link2]}
  - {name: user, application: {user: 4242}, links: [link1]}
`)
		n.spreads("TCP, IPv4", exact, n.addresses(host4), n.from(server4))
		n.spreads("TCP, IPv6", exact, n.addresses(host6), n.from(server6))
		udp4, udp6 := n.addresses(host4), n.addresses(host6)
		if !exact { // Open vSwitch's hash of UDP has no ports in it
			udp4, udp6 = nil, nil
		}
		n.spreads("UDP, IPv4", exact, udp4, func() (string, error) { return n.datagram(server4, echoPort, 1000) })
		n.spreads("UDP, IPv6", exact, udp6, func() (string, error) { return n.datagram(server6, echoPort, 1000) })
		n.spreads("downloads, IPv4", exact, n.addresses(host4), func() (string, error) { return n.fetch(server4, "/1m") })
		if _, err := n.fetch(server6, "/10m"); err != nil {
			t.Error(err)
		}
		for _, address := range []string{server4, server6, "192.0.0.1", gateway4(1)} {
			if out, err := n.host.Exec(t.Context(), "ping", "-c", "3", "-i", "0.2", "-w", "20", address); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}
		n.spreads("DNS", exact, []string{host4(1)}, func() (string, error) { return n.datagram(resolver4, 53, 30) })
		n.spreads("a rule for a prefix", exact, []string{host4(2)}, n.from(other4))
		n.spreads("a rule for a user", exact, []string{host4(1)}, func() (string, error) {
			return n.host.Exec(t.Context(), "setpriv", "--reuid", "4242", "--clear-groups", "curl", "-sS", "-o", "/dev/null", "-w", "%header{X-From}",
				"http://"+server4+"/1k")
		})
		if from, err := n.from(vpn)(); err != nil || from != "10.99.0.2" {
			t.Errorf("by the VPN: from %s, %v", from, err)
		}
		old.works()
		inbound.works()
		for i := range n.links {
			n.inbound(i).works()
		}
		if old.from != host4(0) {
			t.Errorf("the flow of before is from %s", old.from)
		}
		flow := n.flow(server4)
		if s := b.status(); s.Links[0].State != "used" || s.Links[0].Interface != "eth0" || s.Datapath != strings.Fields(config)[1] {
			t.Errorf("%+v", s)
		}
		b.stop()
		flow.isReset()
		old.works()
		n.same(before)
		if from, err := n.from(server4)(); err != nil || from != host4(0) {
			t.Errorf("without the balance: from %s, %v", from, err)
		}
	}, plane{"baton controller", "datapath: baton\nmethod: controller\n", true}, plane{"ovs controller", "datapath: ovs\nmethod: controller\n", true})
}

// vpn gives the host a way to an address that is no default, as a VPN's, and returns the address.
func (n *network) vpn() string {
	n.t.Helper()
	const address = "198.51.100.99"
	far := n.Host("vpn")
	n.Link(lab.End{Host: n.host, Name: "vpn0", Addrs: []string{"10.99.0.2/24"}}, lab.End{Host: far, Addrs: []string{"10.99.0.1/24"}}, lab.LinkOptions{})
	far.Interface("lo").Address(address + "/32")
	n.host.Route(address+"/32", "10.99.0.1")
	n.echoAddress(far, echoPort)
	return address
}

// inbound connects from the server to the host's address at a link, as ssh does.
func (n *network) inbound(link int) *flow {
	n.t.Helper()
	ctx, cancel := context.WithTimeout(n.t.Context(), soon)
	defer cancel()
	c, err := n.server.Dial(ctx, "tcp", net.JoinHostPort(host4(link), fmt.Sprint(sshPort)))
	if err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { c.Close() })
	f, err := begun(n.t, c)
	if err != nil {
		n.t.Fatal(err)
	}
	if f.from != last("203.0.113.0", 4*link+2) {
		n.t.Errorf("a connection to link %d is from %s", link, f.from)
	}
	return f
}
