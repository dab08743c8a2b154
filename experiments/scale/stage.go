package scale

import (
	"encoding/binary"
	"net/netip"
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
	before  Memory   // when nothing of it was there
	process *Process // of its own; nil: it has none
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

func address(a uint32) string {
	return netip.AddrFrom4([4]byte{byte(a >> 24), byte(a >> 16), byte(a >> 8), byte(a)}).String()
}
