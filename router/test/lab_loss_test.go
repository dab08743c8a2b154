package test

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"baton/lab"
	"baton/lab/emulator"
)

// lossy is each link's impairment, per direction: with both directions of both legs impaired, it hits a packet of most round
// trips.
var lossy = emulator.Shape{Loss: 0.02, Reorder: 0.043, Behind: 3, Duplicate: 0.005}

// TestLossAndReordering: several clients download and upload at once, with loss, reordering and duplication on both legs: every
// byte must arrive once, and in time, which needs correct SACK and timestamps.
func TestLossAndReordering(t *testing.T) {
	const (
		size   = 16 << 20
		within = 2 * time.Minute
	)
	for _, family := range []struct {
		name string
		v6   bool
		vip  string
	}{{"IPv4", false, vip4}, {"IPv6", true, vip6}} {
		t.Run(family.name, func(t *testing.T) {
			n := &network{Lab: lab.New(t), t: t}
			n.router, n.client = n.Host("router"), n.Host("client")
			n.router.Forward()
			impaired := lab.LinkOptions{AtoB: lossy, BtoA: lossy, NoOffloads: true}
			front := n.Link(clientEnd(n.client, 0), routerEnd(n.router, 0), impaired)
			n.front = front.B
			toRouter(n.client, 0)
			s, number := n.newSite("s1")
			host, router := siteEnds(number)
			back := n.Link(lab.End{Host: s.Host, Addrs: host}, lab.End{Host: n.router, Addrs: router}, impaired)
			s.side, s.back = back.A, back.B
			s.Route("default", "10.2.1.1")
			s.Route("default", "fd02:0:0:1::1")
			serve(t, s.Host, s.name)
			r := n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: p}]}]\n"+
				"pools: {p: {legs: {min: 8}, surrogates: [{name: s1, address: %q}]}}\n", family.vip, n.front.Name, s.address(family.v6)))

			var work errgroup.Group
			for range 2 {
				work.Go(func() error { return download(t.Context(), n.client, family.vip, size, within) })
				work.Go(func() error { return upload(t.Context(), n.client, family.vip, size, within) })
			}
			if err := work.Wait(); err != nil {
				t.Error(err)
			}
			for _, link := range []*lab.Link{front, back} {
				there, back := link.Counts()
				for _, c := range []emulator.Counts{there, back} {
					if c.Lost < 20 || c.Held < 20 {
						t.Errorf("%v: %d lost and %d held of %d: too few to prove anything", link, c.Lost, c.Held, c.Packets)
					}
				}
			}
			for name, value := range r.metrics() {
				if name == fmt.Sprintf("baton_router_fallback_requests_total{code=\"2xx\",vip=%q}", family.vip) && value > 0 {
					t.Errorf("not spliced: %s %v", name, value)
				}
			}
		})
	}
}

// TestLossOfLargePackets loses packets of a veth with offloads: up to 64 KiB.
func TestLossOfLargePackets(t *testing.T) {
	n := newNetwork(t)
	s := n.site("s1", lab.LinkOptions{})
	serve(t, s.Host, s.name)
	n.start(fmt.Sprintf("vips: [{address: %q, interfaces: [%s], routes: [{pool: p}]}]\n"+
		"pools: {p: {surrogates: [{name: s1, address: %q}]}}\n", vip4, n.front.Name, s.v4))
	for _, end := range []*lab.Interface{n.front, s.back, s.side, n.client.Interface("eth0")} {
		end.Lose(0.02)
	}
	var work errgroup.Group
	for range 4 {
		work.Go(func() error { return download(t.Context(), n.client, vip4, 16<<20, time.Minute) })
		work.Go(func() error { return upload(t.Context(), n.client, vip4, 16<<20, time.Minute) })
	}
	if err := work.Wait(); err != nil {
		t.Error(err)
	}
	lost := 0
	for _, end := range []*lab.Interface{n.front, s.back, s.side, n.client.Interface("eth0")} {
		n, err := end.Lost()
		if err != nil {
			t.Error(err)
		}
		lost += n
		end.Lose(0)
	}
	if lost < 50 {
		t.Errorf("%d packets lost: too few to prove anything", lost)
	}
}
