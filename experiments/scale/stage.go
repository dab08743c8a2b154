package scale

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"path/filepath"
	"strings"
	"time"

	"baton/experiments/handoff"
	"baton/lab"
	"baton/packet"
)

// stage is what holds the idle sessions: a crowd of clients and a farm of surrogates beside those of the handoff topology.
//
//	crowd 10.8.0.1… ── 10.3.1.2 ── router ── 10.3.2.2 ── 10.7.0.1… farm
//
// Neither end has a socket of TCP: a million of them would need two million files and some four gigabytes.
type stage struct {
	network *handoff.Topology
	crowd   *socket
	farm    *socket
	side    *lab.Interface // of the router, towards the crowd
	next    packet.MAC     // where the crowd's packets go
	epoch   time.Time      // of the crowd's timestamps: they never go back, whatever contender remembers the last ones

	// Of the contender whose turn it is.
	people  *crowd
	begun   done     // how its sessions came about
	lost    int      // sessions that it does not hold as it should
	before  memory   // when nothing of it was there
	process *process // of its own; nil: it has none
}

const (
	firstClient = 10<<24 | 8<<16 | 1
	firstServer = 10<<24 | 7<<16 | 1
	servers     = 128 // so that a million sessions need some 8,000 ports towards each
)

func (g *stage) build(t *handoff.Topology) (err error) {
	g.network, g.epoch = t, time.Now()
	end := func(name, subnet, prefix string) *lab.Link {
		k := t.Lab.Link(lab.End{Host: t.Lab.Host(name), Addrs: []string{subnet + ".2/24"}},
			lab.End{Host: t.Router, Addrs: []string{subnet + ".1/24"}}, lab.LinkOptions{})
		t.Router.Route(prefix, subnet+".2")
		// A neighbour that is looked up costs the packets that come meanwhile, and their senders a second.
		t.Router.Neighbour(k.B, subnet+".2", k.A.MAC)
		return k
	}
	crowd, farm := end("crowd", "10.3.1", "10.8.0.0/16"), end("farm", "10.3.2", "10.7.0.0/16")
	g.side, g.next = crowd.B, packet.MAC(crowd.B.MAC)
	if g.crowd, err = open(crowd.A); err != nil {
		return err
	}
	if g.farm, err = open(farm.A); err != nil {
		g.crowd.close()
		return err
	}
	stop, ended := make(chan struct{}), make(chan error, 1)
	go func() { ended <- newFarm(firstServer, servers).serve(g.farm, stop) }()
	t.Lab.T().Cleanup(func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Lab.T().Errorf("scale: farm: %v", err)
		}
		g.crowd.close()
		g.farm.close()
	})
	return nil
}

// gather makes a crowd of n whose clients know one server; without one, each its own of the farm.
func (g *stage) gather(n int, server netip.AddrPort) {
	to := func(i int) endpoint { return endpoint{firstServer + uint32(i)%servers, 80} }
	if server.IsValid() {
		a := server.Addr().As4()
		vip := endpoint{binary.BigEndian.Uint32(a[:]), server.Port()}
		to = func(int) endpoint { return vip }
	}
	g.people = newCrowd(firstClient, n, to, func(out *segment) error {
		out.sourceMAC, out.destinationMAC = g.crowd.mac, g.next
		return g.crowd.send(out)
	})
	g.people.epoch = g.epoch
}

// router is the configuration of a router for n idle sessions beside the load.
func (g *stage) router(n int) string {
	t := g.network
	var b strings.Builder
	fmt.Fprintf(&b, "listen: {control: %q, metrics: %q, state: %q}\n", filepath.Join(t.Lab.Dir(), "router.sock"), "127.0.0.1:9464",
		filepath.Join(t.Lab.BPFFS(), "router"))
	fmt.Fprintf(&b, "limits: {sessions: %d}\n", n+spare)
	fmt.Fprintf(&b, "vips:\n  - address: %q\n    mode: handoff\n    interfaces: [%s, %s]\n", t.VIP(), t.ClientSide.Name, g.side.Name)
	fmt.Fprintf(&b, "    routes:\n      - {match: {path_prefix: %q}, pool: idle}\n      - {pool: load}\n", pathPrefix)
	b.WriteString("pools:\n  load:\n    legs: {max: 700}\n    surrogates:\n")
	for i, a := range t.Addresses() {
		fmt.Fprintf(&b, "      - {name: s%d, address: %q}\n", i+1, a)
	}
	fmt.Fprintf(&b, "  idle:\n    legs: {max: %d}\n    surrogates:\n", legsEach(n))
	for i := range uint32(servers) {
		fmt.Fprintf(&b, "      - {name: f%d, address: %q}\n", i+1, address(firstServer+i)+":80")
	}
	return b.String()
}

// legsEach bounds the legs of a surrogate of the farm: its share of the sessions, and those that are ready.
func legsEach(n int) int { return n/servers + 64 }

// spare is the room for legs beside those of the idle sessions: ready ones of the farm and of the load.
const spare = servers*64 + 2*700 + 1000

func address(a uint32) string {
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}).String()
}
