package test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"

	"baton/lab"
	"baton/lab/build"
)

// The tests' VIPs, one per family. The router adds them by itself.
const (
	vip4 = "10.9.9.9:80"
	vip6 = "[fd09::9]:80"
)

// network is a client and a router, with surrogates behind it as they are added:
//
//	client 10.1.0.2 ── router ── 10.2.1.2 s1
//	                          ── 10.2.2.2 s2 …
//
// and the same in fd01::/64 and fd02:0:0:n::/64.
type network struct {
	*lab.Lab
	t      *testing.T
	client *lab.Host
	router *lab.Host
	front  *lab.Interface // the router's, towards the client
	sites  []*site
	others int // client hosts beyond the first
}

// site is a surrogate's host.
type site struct {
	*lab.Host
	name   string
	v4, v6 netip.AddrPort
	side   *lab.Interface // the host's own
	back   *lab.Interface // the other end
}

// address is the surrogate's address in a configuration.
func (s *site) address(v6 bool) netip.AddrPort {
	if v6 {
		return s.v6
	}
	return s.v4
}

// address is port 80 of an address.
func address(ip string) netip.AddrPort { return netip.AddrPortFrom(netip.MustParseAddr(ip), 80) }

func newNetwork(t *testing.T) *network {
	t.Helper()
	n := &network{Lab: lab.New(t), t: t}
	n.router = n.Host("router")
	n.router.Forward()
	n.client = n.Host("client")
	n.front = n.Link(clientEnd(n.client, 0), routerEnd(n.router, 0), lab.LinkOptions{}).B
	toRouter(n.client, 0)
	return n
}

func clientEnd(h *lab.Host, number int) lab.End {
	return lab.End{Host: h, Addrs: []string{fmt.Sprintf("10.1.%d.2/24", number), fmt.Sprintf("fd01:0:0:%x::2/64", number)}}
}

func routerEnd(h *lab.Host, number int) lab.End {
	return lab.End{Host: h, Addrs: []string{fmt.Sprintf("10.1.%d.1/24", number), fmt.Sprintf("fd01:0:0:%x::1/64", number)}}
}

func toRouter(h *lab.Host, number int) {
	h.Route("default", fmt.Sprintf("10.1.%d.1", number))
	h.Route("default", fmt.Sprintf("fd01:0:0:%x::1", number))
}

// clientHost adds a client with a link of its own, and returns the router's end.
func (n *network) clientHost(name string, o lab.LinkOptions) (*lab.Host, *lab.Interface) {
	n.t.Helper()
	n.others++
	h := n.Host(name)
	end := n.Link(clientEnd(h, n.others), routerEnd(n.router, n.others), o).B
	toRouter(h, n.others)
	return h, end
}

// siteEnds number a surrogate's link.
func siteEnds(number int) (host, router []string) {
	return []string{fmt.Sprintf("10.2.%d.2/24", number), fmt.Sprintf("fd02:0:0:%x::2/64", number)},
		[]string{fmt.Sprintf("10.2.%d.1/24", number), fmt.Sprintf("fd02:0:0:%x::1/64", number)}
}

// newSite is a surrogate's host, not linked yet.
func (n *network) newSite(name string) (*site, int) {
	n.t.Helper()
	number := len(n.sites) + 1
	s := &site{
		Host: n.Host(name), name: name,
		v4: address(fmt.Sprintf("10.2.%d.2", number)), v6: address(fmt.Sprintf("fd02:0:0:%x::2", number)),
	}
	n.sites = append(n.sites, s)
	return s, number
}

// site adds a surrogate's host with a link of its own.
func (n *network) site(name string, o lab.LinkOptions) *site {
	n.t.Helper()
	return n.siteBehind(n.router, name, o)
}

// siteBehind adds a surrogate's host whose link is to the next host on the way.
func (n *network) siteBehind(next *lab.Host, name string, o lab.LinkOptions) *site {
	n.t.Helper()
	s, number := n.newSite(name)
	host, router := siteEnds(number)
	k := n.Link(lab.End{Host: s.Host, Addrs: host}, lab.End{Host: next, Addrs: router}, o)
	s.side, s.back = k.A, k.B
	s.Route("default", fmt.Sprintf("10.2.%d.1", number))
	s.Route("default", fmt.Sprintf("fd02:0:0:%x::1", number))
	return s
}

// baton runs a subcommand on the router's host and waits for it.
func (n *network) baton(ctx context.Context, args ...string) (string, error) {
	n.t.Helper()
	path, err := build.Program("baton")
	if err != nil {
		n.t.Fatal(err)
	}
	return n.router.Exec(ctx, path, args...)
}
