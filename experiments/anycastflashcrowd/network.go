package anycastflashcrowd

import (
	"context"
	"fmt"
	"time"

	"baton/api"
	"baton/experiments"
	"baton/lab"
	"baton/lab/peers"
)

const (
	service   = "192.0.2.1"
	siteAS    = 64512
	routerAS  = 65000
	patience  = 30 * time.Second
	connected = 4096     // connections of an nginx worker
	binding   = "/bound" // before the path of what is redirected to a site's own address
)

// Network is two ingress routers, each with clients, and two sites. Each site is near one of the routers, and farther from the other:
//
//	west 10.1.0.2 ── ingress 0 ──┬── site a 10.3.0.2
//	                        ╳
//	east 10.2.0.2 ── ingress 1 ──┴── site b 10.4.0.2
//
// The sites' access routers are hosts that forward, so that a site has one link, however many routers use it.
type Network struct {
	*lab.Lab
	Clients [2]*lab.Host
	Ingress [2]*lab.Host
	Sites   [2]*Site

	toClients [2]*lab.Interface // of the ingresses

	// Of the turn whose measures are taken.
	binds   bool // downloads are redirected to a site's own address
	moved   *move
	crowded *crowd
}

// Site is a host with the service.
type Site struct {
	*lab.Host
	Name    string
	Address string // its own

	network *Network
	program string
	routers []string // addresses, of the ingresses
	uplink  *lab.Interface
	process *lab.Process // of baton anycast, nil while it does not run
	control *api.Client
}

func build(_ context.Context, s *experiments.Setup) (*Network, error) {
	n := &Network{Lab: s.Lab}
	plain := lab.LinkOptions{NoOffloads: true} // queues are counted in packets of the wire
	for i, name := range []string{"west", "east"} {
		n.Clients[i], n.Ingress[i] = n.Host(name), n.Host(fmt.Sprint("ingress", i))
		n.Ingress[i].Forward()
		k := n.Link(lab.End{Host: n.Clients[i], Addrs: []string{fmt.Sprintf("10.%d.0.2/24", i+1)}},
			lab.End{Host: n.Ingress[i], Name: "clients", Addrs: []string{fmt.Sprintf("10.%d.0.1/24", i+1)}}, plain)
		n.toClients[i] = k.B
		n.Clients[i].Route("default", fmt.Sprintf("10.%d.0.1", i+1))
	}
	for i, name := range []string{"a", "b"} {
		if err := n.addSite(s, i, name, plain); err != nil {
			return nil, err
		}
	}
	for i := range n.Ingress {
		b := peers.Bird(n.Ingress[i], n.bird(i))
		s.Serves(b.Process, b.Version)
	}
	return n, nil
}

// addSite makes a site and its access, and joins it to both ingresses.
func (n *Network) addSite(s *experiments.Setup, i int, name string, plain lab.LinkOptions) error {
	access := n.Host("access" + name)
	access.Forward()
	site := &Site{Host: n.Host("site" + name), Name: name, Address: fmt.Sprintf("10.%d.0.2", i+3), network: n, program: s.Options.Program}
	k := n.Link(lab.End{Host: site.Host, Name: "uplink", Addrs: []string{site.Address + "/24"}},
		lab.End{Host: access, Name: "site", Addrs: []string{fmt.Sprintf("10.%d.0.1/24", i+3)}}, plain)
	site.uplink = k.A
	site.Route("default", fmt.Sprintf("10.%d.0.1", i+3))
	access.Route(service+"/32", site.Address)
	for j := range n.Ingress {
		near, far := fmt.Sprintf("10.%d%d.0.1", i+5, j), fmt.Sprintf("10.%d%d.0.2", i+5, j)
		n.Link(lab.End{Host: n.Ingress[j], Name: "to" + name, Addrs: []string{near + "/24"}},
			lab.End{Host: access, Name: fmt.Sprint("ingress", j), Addrs: []string{far + "/24"}}, plain)
		site.routers = append(site.routers, near)
		n.Ingress[j].Route(fmt.Sprintf("10.%d.0.0/24", i+3), far)
		access.Route(fmt.Sprintf("10.%d.0.0/24", j+1), near)
	}
	site.Interface("lo").SetUp()
	site.Interface("lo").Address(service + "/32")
	site.CongestionControl("cubic")
	web := peers.Nginx(site.Host, peers.NginxOptions{Name: name, Workers: 1, Connections: connected, NoAccessLog: true, Server: fmt.Sprintf(
		"location ~ ^%s(/.*)$ { return 302 http://%s$1; }\n", binding, site.Address)})
	s.Serves(web.Process, web.Version)
	n.Sites[i] = site
	return nil
}

// bird is the configuration of an ingress, which prefers the site that is near.
func (n *Network) bird(ingress int) string {
	text := fmt.Sprintf(`router id 10.%d.0.1;
protocol device { scan time 1; }
protocol kernel { ipv4 { export where source = RTS_BGP; }; }
`, ingress+1)
	for i, s := range n.Sites {
		preference := 100
		if i == ingress {
			preference = 200
		}
		text += fmt.Sprintf(`protocol static { ipv4; route 10.%d.0.0/24 via 10.%d%d.0.2; }
filter from_%s {
	bgp_local_pref = %d;
	if (65535, 0) ~ bgp_community then bgp_local_pref = 0; # RFC 8326
	accept;
}
protocol bgp %s {
	local 10.%d%d.0.1 as %d;
	neighbor %s as %d;
	multihop 2;
	passive;
	ipv4 { import filter from_%[4]s; export none; };
}
`, i+3, i+5, ingress, s.Name, preference, s.Name, i+5, ingress, routerAS, s.Address, siteAS)
	}
	return text
}
