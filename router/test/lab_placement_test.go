package test

import (
	"fmt"
	"strings"
	"testing"

	"baton/lab"
)

// TestPlacement tests all network placements of the router, each in both families, with requests that move between two
// surrogates, a download and an upload.
func TestPlacement(t *testing.T) {
	for _, tt := range []struct {
		name  string
		build func(t *testing.T) *network
	}{
		{"two interfaces", twoInterfaces},
		{"one-armed", oneArmed},
		{"one-armed, routed", oneArmedRouted},
		{"bridge of the router's own host", ownBridge},
		{"one routed hop away", routedHop},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := tt.build(t)
			var vips, pools strings.Builder
			for _, s := range n.sites {
				serve(t, s.Host, s.name)
			}
			for _, v6 := range []bool{false, true} {
				vip := map[bool]string{false: vip4, true: vip6}[v6]
				fmt.Fprintf(&vips, "  - {address: %q, interfaces: [%s], routes: [{match: {host: b.test}, pool: b-%[3]v}, {pool: a-%[3]v}]}\n",
					vip, n.front.Name, v6)
				for _, s := range n.sites {
					fmt.Fprintf(&pools, "  %[1]s-%[2]v: {surrogates: [{name: %[1]s-%[2]v, address: %[3]q}]}\n", s.name, v6, s.address(v6))
				}
			}
			r := n.start("vips:\n" + vips.String() + "pools:\n" + pools.String())
			for _, vip := range []string{vip4, vip6} {
				c := n.open(t, vip)
				for range 5 {
					for _, host := range []string{"a", "b"} {
						got, err := c.get(host+".test", "/bytes/50000")
						got.expect(t, err, host, 200, patternText(50_000))
					}
				}
				if err := download(t.Context(), n.client, vip, 16<<20, answersWithin); err != nil {
					t.Errorf("%s: %v", vip, err)
				}
				if err := upload(t.Context(), n.client, vip, 16<<20, answersWithin); err != nil {
					t.Errorf("%s: %v", vip, err)
				}
				if count := r.fallbacks(vip); count > 0 {
					t.Errorf("%s: %v requests were proxied", vip, count)
				}
			}
		})
	}
}

func twoInterfaces(t *testing.T) *network {
	n := newNetwork(t)
	n.site("a", lab.LinkOptions{})
	n.site("b", lab.LinkOptions{})
	return n
}

// segment is a switch to which hosts are attached, with the addresses 10.5.0.x and fd05::x.
type segment struct {
	n      *network
	host   *lab.Host
	bridge *lab.Interface
}

func (n *network) segment() *segment {
	n.t.Helper()
	h := n.Host("switch")
	return &segment{n: n, host: h, bridge: h.Bridge("br0")}
}

// join attaches a host to the segment and returns its interface.
func (s *segment) join(h *lab.Host, number int) *lab.Interface {
	s.n.t.Helper()
	k := s.n.Link(lab.End{Host: h, Addrs: []string{fmt.Sprintf("10.5.0.%d/24", number), fmt.Sprintf("fd05::%d/64", number)}},
		lab.End{Host: s.host}, lab.LinkOptions{})
	k.B.Attach(s.bridge)
	return k.A
}

// oneArmed has everything on one segment. The surrogates answer the router's own address, so they need no route via it.
func oneArmed(t *testing.T) *network {
	n := &network{Lab: lab.New(t), t: t}
	n.router, n.client = n.Host("router"), n.Host("client")
	n.router.Forward()
	s := n.segment()
	n.front = s.join(n.router, 1)
	s.join(n.client, 2)
	n.client.Route("10.9.9.0/24", "10.5.0.1")
	n.client.Route("fd09::/64", "fd05::1")
	for i, name := range []string{"a", "b"} {
		site, _ := n.newSite(name)
		site.side = s.join(site.Host, 3+i)
		site.v4, site.v6 = address(fmt.Sprintf("10.5.0.%d", 3+i)), address(fmt.Sprintf("fd05::%d", 3+i))
	}
	return n
}

// oneArmedRouted has a one-armed router next to another router, its only route to clients and surrogates.
func oneArmedRouted(t *testing.T) *network {
	n := &network{Lab: lab.New(t), t: t}
	n.router, n.client = n.Host("router"), n.Host("client")
	n.router.Forward()
	core := n.Host("core")
	core.Forward()
	n.front = n.Link(lab.End{Host: core, Addrs: []string{"10.6.0.1/24", "fd06::1/64"}},
		lab.End{Host: n.router, Addrs: []string{"10.6.0.2/24", "fd06::2/64"}}, lab.LinkOptions{}).B
	n.router.Route("default", "10.6.0.1")
	n.router.Route("default", "fd06::1")
	core.Route("10.9.9.0/24", "10.6.0.2")
	core.Route("fd09::/64", "fd06::2")
	n.Link(clientEnd(n.client, 0), routerEnd(core, 0), lab.LinkOptions{})
	toRouter(n.client, 0)
	for _, name := range []string{"a", "b"} {
		n.siteBehind(core, name, lab.LinkOptions{})
	}
	return n
}

// ownBridge has surrogates placed like containers: namespaces on a bridge of the router's host.
func ownBridge(t *testing.T) *network {
	n := newNetwork(t)
	bridge := n.router.Bridge("br0", "10.5.0.1/24", "fd05::1/64")
	s := &segment{n: n, host: n.router, bridge: bridge}
	for i, name := range []string{"a", "b"} {
		site, _ := n.newSite(name)
		site.side = s.join(site.Host, 3+i)
		site.Route("default", "10.5.0.1")
		site.Route("default", "fd05::1")
		site.v4, site.v6 = address(fmt.Sprintf("10.5.0.%d", 3+i)), address(fmt.Sprintf("fd05::%d", 3+i))
	}
	return n
}

func routedHop(t *testing.T) *network {
	n := newNetwork(t)
	core := n.Host("core")
	core.Forward()
	n.Link(lab.End{Host: core, Addrs: []string{"10.6.0.1/24", "fd06::1/64"}},
		lab.End{Host: n.router, Addrs: []string{"10.6.0.2/24", "fd06::2/64"}}, lab.LinkOptions{})
	n.router.Route("10.2.0.0/16", "10.6.0.1")
	n.router.Route("fd02::/48", "fd06::1")
	for _, name := range []string{"a", "b"} {
		n.siteBehind(core, name, lab.LinkOptions{})
	}
	return n
}
