package endhost

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"baton/experiments"
	"baton/experiments/load"
	"baton/lab"
	"baton/lab/emulator"
	"baton/lab/peers"
)

// Topology is the paper's figure 5, with up to five links in place of two:
//
//	      eth0 10.20.1.2 ── 10.20.1.1 gateway-1 10.21.1.2 ── 10.21.1.1
//	host  eth1 10.20.2.2 ── 10.20.2.1 gateway-2 10.21.2.2 ── 10.21.2.1  router 10.22.0.1 ── 10.22.0.2 server
//	      …
//
// The host has a default route by each link, the first link's first, as if each had been configured by DHCP. Only its own links have a rate.
type Topology struct {
	Host, Router, Server *lab.Host
	Links                []*uplink
	used                 []*uplink // of the case

	front   front
	begun   atomic.Int64 // connections since the contender's start
	oneLink map[asking]taken
	changed *changed // of the turn
}

// uplink is a link of the host.
type uplink struct {
	gateway  *lab.Host
	link     *lab.Link
	address  netip.Addr   // of the host
	near     netip.Addr   // of the gateway
	capacity atomic.Int64 // bits a second that it takes now; 0: it has failed
	metric   int          // of its default route
}

// front is how the load reaches the server during a contender's turn.
type front struct {
	one       bool // by the first link alone
	bound     bool // the load chooses the link of each connection, by the host's address that it binds
	ideal     bool // there is no load: it is arithmetic
	multipath bool // MPTCP
}

// The experiments' types over this topology.
type (
	Turn      = experiments.Turn[*Topology]
	Contender = experiments.Contender[*Topology]
	Measure   = experiments.Measure[*Topology]
)

const (
	httpPort      = 80
	multipathPort = 8081
	linkDelay     = 500 * time.Microsecond // one way: the paper does not give a delay
	// queue is how many packets wait for a link: Linux's default for the length of a device's queue, which tc's disciplines take.
	queue = 1000
	// firstMetric is that of the default route by the first link of a case; the others' follow.
	firstMetric = 100
)

// serverAddress is the server's.
var serverAddress = netip.AddrFrom4([4]byte{10, 22, 0, 2})

// serverAddresses are further addresses of the server. A port of the host is free for each of them again: with one, the ports of recently
// ended connections (TIME_WAIT) are used up after 28,000, and finding a free one takes longer than a request.
func serverAddresses() (list []netip.Addr) {
	for i := range byte(64) {
		list = append(list, netip.AddrFrom4([4]byte{10, 23, 0, i + 1}))
	}
	return list
}

// patience bounds what should take no time.
const patience = 20 * time.Second

// build makes a topology with so many links; shaped says what the i-th is like.
func build(s *experiments.Setup, links int, shaped func(i int) lab.LinkOptions) (*Topology, error) {
	l := s.Lab
	t := &Topology{Host: l.Host("host"), Router: l.Host("router"), Server: l.Host("server"), oneLink: map[asking]taken{}}
	t.Host.Private("/run/baton") // a balance's journal, which a run that is killed leaves
	t.Router.Forward()
	l.Link(lab.End{Host: t.Router, Addrs: []string{"10.22.0.1/24"}}, lab.End{Host: t.Server, Addrs: []string{serverAddress.String() + "/24"}}, lab.LinkOptions{})
	t.Server.Route("default", "10.22.0.1")
	for _, a := range serverAddresses() {
		t.Server.Interface("lo").Address(a.String() + "/32")
	}
	t.Router.Route("10.23.0.0/24", serverAddress.String())
	for i := range links {
		t.addLink(l, i, shaped(i))
	}
	for _, h := range []*lab.Host{t.Host, t.Server} {
		h.Sysctl("net.ipv4.tcp_no_metrics_save", "1") // or a contender would begin with what the one before has found
		h.CongestionControl("cubic")
	}
	if err := writeFiles(peers.Site(l)); err != nil {
		return nil, err
	}
	server := peers.Nginx(t.Server, peers.NginxOptions{NoAccessLog: true, Connections: 4096})
	s.Serves(server.Process, server.Version)
	return t, t.serveMultipath(peers.Site(l))
}

// addLink adds the i-th link, and what is behind it.
func (t *Topology) addLink(l *lab.Lab, i int, o lab.LinkOptions) {
	n := byte(i + 1)
	u := &uplink{gateway: l.Host(fmt.Sprintf("gateway-%d", n)), address: netip.AddrFrom4([4]byte{10, 20, n, 2}), near: netip.AddrFrom4([4]byte{10, 20, n, 1})}
	u.gateway.Forward()
	u.link = l.Link(lab.End{Host: t.Host, Name: fmt.Sprintf("eth%d", i), Addrs: []string{u.address.String() + "/24"}},
		lab.End{Host: u.gateway, Addrs: []string{u.near.String() + "/24"}}, o)
	up, down := fmt.Sprintf("10.21.%d.1", n), fmt.Sprintf("10.21.%d.2", n)
	l.Link(lab.End{Host: t.Router, Addrs: []string{up + "/24"}}, lab.End{Host: u.gateway, Addrs: []string{down + "/24"}}, lab.LinkOptions{})
	u.gateway.Route("default", up)
	t.Router.Route(fmt.Sprintf("10.20.%d.0/24", n), down)
	t.Links = append(t.Links, u)
}

// name is that of the link's interface.
func (u *uplink) name() string { return u.link.A.Name }

// set gives the link a rate in both directions; 0: packets are dropped, and nobody is notified.
func (u *uplink) set(rate int64) {
	shape := emulator.Shape{Rate: emulator.Rate(rate), Delay: linkDelay, Queue: emulator.Queue{Packets: queue}}
	if rate == 0 {
		shape = emulator.Shape{Loss: 1}
	}
	u.link.Set(shape, shape)
	u.capacity.Store(rate)
}

// use has the case use some links, of which the first one's default route comes first.
func (t *Topology) use(ctx context.Context, links []*uplink) error {
	t.used = links
	for i, u := range links {
		u.metric = firstMetric + i
	}
	metric := firstMetric + len(links)
	for _, u := range t.Links {
		if !slices.Contains(links, u) {
			u.metric = metric
			metric++
		}
	}
	if _, err := t.Host.Exec(ctx, "ip", "route", "flush", "exact", "default"); err != nil {
		return err
	}
	for _, u := range t.Links {
		if _, err := t.Host.Exec(ctx, "ip", "route", "add", "default", "via", u.near.String(), "dev", u.name(), "metric", strconv.Itoa(u.metric)); err != nil {
			return err
		}
	}
	return nil
}

// total is the combined rate of the case's links (bits a second).
func (t *Topology) total() (sum int64) {
	for _, u := range t.used {
		sum += u.capacity.Load()
	}
	return sum
}

// received is how many bytes have come by each link of the case.
func (t *Topology) received() ([]uint64, error) {
	all := make([]uint64, len(t.used))
	for i, u := range t.used {
		found, err := t.Host.Netlink().LinkByName(u.name())
		if err != nil {
			return nil, fmt.Errorf("count what comes by %s: %w", u.name(), err)
		}
		all[i] = found.Attrs().Statistics.RxBytes
	}
	return all, nil
}

// file is one of the site.
type file struct {
	path string
	body []byte
}

// kilobytes is a file of so many of them, of 1000 bytes: with 1024, the paper's 8.4 s for 100 files of 100 kB by 10 Mbit/s are not possible.
func kilobytes(n float64) file {
	body := make([]byte, int(n*1000))
	peers.Pattern(body, 0)
	return file{fmt.Sprintf("/%g-kB", n), body}
}

// sizes are those of all files that the experiments ask for (kB).
var sizes = []float64{1, 10, 20, 60, 100, 1000}

func writeFiles(folder string) error {
	for _, n := range sizes {
		f := kilobytes(n)
		if err := os.WriteFile(filepath.Join(folder, f.path), f.body, 0o644); err != nil {
			return fmt.Errorf("write the site: %w", err)
		}
	}
	return nil
}

// serveMultipath serves the site by MPTCP, to clients that have it, as nginx does not.
func (t *Topology) serveMultipath(folder string) error {
	var listener net.Listener
	config := net.ListenConfig{}
	config.SetMultipathTCP(true)
	err := t.Server.Do(func() (err error) {
		listener, err = config.Listen(context.Background(), "tcp", netip.AddrPortFrom(serverAddress, multipathPort).String())
		return err
	})
	if err != nil {
		return fmt.Errorf("listen for MPTCP: %w", err)
	}
	server := &http.Server{Handler: http.FileServer(http.Dir(folder)), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until Close
	t.Server.Lab().T().Cleanup(func() { _ = server.Close() })
	return nil
}

// ask puts a load on the server, for the contender whose turn it is. One thread has all connections, so that as many requests as
// connections are in progress at any time.
func (t *Topology) ask(o load.Options) (load.Result, error) {
	port := uint16(httpPort)
	if t.front.multipath {
		port, o.Multipath = multipathPort, true
	}
	if o.Targets == nil {
		o.Targets = []netip.AddrPort{netip.AddrPortFrom(serverAddress, port)}
	}
	o.Enter, o.Workers = t.Host.Do, 1
	if t.front.bound {
		o.Sources, o.Choose = t.sources(), t.oracle
	}
	r, err := load.Run(o)
	t.begun.Add(r.Requests + r.Errors)
	return r, err
}

// cycle is a multiple of the period of round-robin, whether links are alike, up to five, or one has twice the rate.
const cycle = 60

// aligned makes the contender start at the begin of a round-robin period, like the paper's controller when it has just started. Of 100
// requests a link with a third of the total rate gets 33 or 34, a difference of 2 % of the time.
func aligned(_ context.Context, t *Turn) error {
	p, f := t.Topology, kilobytes(1)
	n := (cycle - p.begun.Load()%cycle) % cycle
	if n == 0 || p.front.ideal {
		return nil
	}
	r, err := p.ask(load.Options{Path: f.path, Body: f.body, Requests: n, Timeout: patience})
	if err == nil && r.Errors > 0 {
		err = fmt.Errorf("a request before the first: %w", r.First)
	}
	return err
}

// sources are the host's addresses on the links of the case.
func (t *Topology) sources() (list []netip.Addr) {
	for _, u := range t.used {
		list = append(list, u.address)
	}
	return list
}
